"""``lw table publish``: the work on a branch, brought to its parent."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.showing_conflicts import note_all
from lancewood.cli.tables import Planned, counts_of, stands
from lancewood.table import MAIN


def publish_command(
    uri: options.Uri,
    name: Annotated[
        str | None,
        typer.Argument(metavar="BRANCH", help="The branch to publish; as in URI@BRANCH."),
    ] = None,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="NAME", help="Make sure that this is the branch's parent."),
    ] = None,
    by_reference: Annotated[
        bool,
        typer.Option(
            "--by-reference",
            help="Leave files below the branch where they are; a tag then keeps the branch.",
        ),
    ] = False,
    *,
    write: Planned,
) -> None:
    """Bring the work on a branch to the branch it was made from.

    It becomes one version there, beside whatever others did meanwhile; where the two do not go
    together it is refused, and nothing has changed. The branch is closed afterwards: branch --reset
    opens it again, and branch --delete removes it. If it is cut off, run it again. --dry-run tells
    whether it would be refused.

    JSON keys: uri, version, branch, dry_run, branch_version, onto, published, fast_forward,
    adopted_files, left_out_indices.
    """
    table = write.to_write(uri, is_main_meant=name is not None)
    name = table.branch if name is None else name
    if name is None:
        raise typer.BadParameter("say which branch: BRANCH, or URI@BRANCH")
    with write.runner() as runner:
        after = table.branches.publish(
            name, onto, adopt=not by_reference, runner=runner, **write.facts
        )
    counts, target = counts_of(after, lw.Published), after.branch or MAIN
    text = f"{target} has all of {name} already: {stands(after)}"
    if counts.is_new:
        how = "as it is" if counts.is_fast_forward else "beside what others did"
        what = f"version {counts.branch_version} of {name} onto {target}, {how}: {stands(after)}"
        text = write.outcome("publish", "published", what)
    left = list(counts.left_out_indices)
    write.answer(
        after,
        text,
        branch=counts.branch,
        branch_version=counts.branch_version,
        onto=target,
        published=counts.is_new,
        fast_forward=counts.is_fast_forward,
        adopted_files=counts.adopted_files,
        left_out_indices=left,
    )
    note_all(counts.notes)

"""A full refresh: the same pipeline, which makes some of its tables anew.

Their incremental sources are read from the start, whatever earlier runs have read, and the tables
begin without rows. Pure: from what a file says to what a run does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Mode, Pipeline, Target
from lancewood.pipeline.definition.refusal import near, wrong
from lancewood.pipeline.frames.uses import Uses


def refreshed(pipeline: Pipeline, tables: bool | Collection[str]) -> Pipeline:
    """The pipeline with a full refresh of some tables; True: of all that it writes.

    Raises InvalidInputError for a table that it does not write, or cannot make from the start, and
    where a source that is read from the start also leads to a table that is not made anew.
    """
    known = list(dict.fromkeys(each.table for each in pipeline.targets))
    chosen = set(known) if tables is True else {*(tables or ())}
    if not chosen:
        return pipeline
    for each in sorted(chosen.difference(known)):
        raise InvalidInputError(
            f"there is no target {each!r} to be refreshed: {near(each, known)}", table=each
        )
    if pipeline.stream is not None:
        raise wrong(
            pipeline.stream.spot,
            "goes on from its checkpoint: for a full refresh drop the tables, and take another "
            "checkpoint",
        )
    uses = Uses.of(pipeline)
    leading = [(each, _news(pipeline, uses, each)) for each in pipeline.targets]
    from_start = {name for target, names in leading if target.table in chosen for name in names}
    for target, names in leading:
        shared = from_start & names
        if target.table not in chosen and shared:
            raise wrong(
                target.spot,
                f"{target.table!r} gets rows of {min(shared)!r} too, which a full refresh of "
                f"{', '.join(map(repr, sorted(chosen)))} reads from the start: refresh both",
            )
    told = f"{pipeline.digest} full refresh of {' '.join(sorted(chosen))}"
    return replace(
        pipeline,
        sources=tuple(
            replace(each, is_from_start=each.name in from_start) for each in pipeline.sources
        ),
        targets=tuple(_anew(pipeline.targets, chosen)),
        full_refresh=tuple(sorted(chosen)),
        digest=hashlib.sha256(told.encode()).hexdigest(),
    )


def _anew(targets: Sequence[Target], chosen: Collection[str]) -> list[Target]:
    """The first target of a table begins it, and columns are computed for every row."""
    begun = set[str]()
    found = []
    for each in targets:
        if each.table not in chosen:
            found.append(each)
        elif each.mode is Mode.ADD_COLUMNS:
            found.append(replace(each, overwrite=True))
        else:
            if each.mode is Mode.MERGE and each.not_matched == "ignore" and each.table not in begun:
                raise wrong(
                    each.spot.at("not_matched"),
                    f"inserts nothing, so that {each.table!r} would be empty after a full refresh: "
                    "its rows come from elsewhere",
                )
            is_anew = each.mode is not Mode.OVERWRITE and each.table not in begun
            found.append(replace(each, is_anew=is_anew))
            begun.add(each.table)
    return found


def _news(pipeline: Pipeline, uses: Uses, target: Target) -> set[str]:
    """The incremental sources that lead to a target."""
    waiting = [] if target.source is None else [target.source]
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += uses.inputs[name]
    return {each.name for each in pipeline.sources if each.incremental and each.name in seen}

"""``lw init``, ``commit`` and ``snapshot``: making a repository and commits in it; ``lw add``,
``remove``, ``tables``, ``prepare``, ``exclusive`` and ``protect``: its tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood import Repository
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, count, counted
from lancewood.cli.repository import (
    Adopt,
    Author,
    InRepository,
    OnBranch,
    Recording,
    Revision,
    committed_facts,
    committed_text,
    one_line,
    short,
    started_at,
)
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.repo import (
    HEADS,
    MAIN,
    RepositoryRoot,
    View,
    below,
    checked_table,
    is_uri,
    location_of,
    own_table,
    own_table_uri,
)


def init_command(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="Where; made if it is not there. A uri is a place in a bucket, as s3://name/path.",
        ),
    ] = None,
    exclusive: Annotated[
        bool,
        typer.Option(
            "--exclusive",
            help="Tables are written by transactions of the repository only; others are refused.",
        ),
    ] = False,
    *,
    here: InRepository,
) -> None:
    """Make an empty repository.

    It is a bare git repository in SHA-256 format. Tables that are made in it live in its
    directory tables.

    JSON keys: path, branch.
    """
    above, place = started_at(), path if path is not None and is_uri(path) else Path(path or "")
    if above is not None and isinstance(place, Path):  # -C may name a bucket
        place = above if path is None else below(above, place.as_posix())
    made = Repository.init(place, exclusive=exclusive, storage_options=here.storage)
    where = os.path.join(made.uri, "")
    document = {"path": made.uri, "branch": made.head.branch}
    here.output.document(document, f"Initialized empty Lancewood repository in {where}")


def commit_command(
    adopt: Adopt = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="What is done anyway, for fingers used to git.")
    ] = False,
    *,
    record: Recording,
) -> None:
    """Record all tables of the branch as they stand at one moment.

    Like git commit -a: there is no index, and who wrote them does not matter. If no table differs
    from the last commit, there is no new one, and that is no error.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    _check_message(record)
    with record.repository() as repo:
        done = repo.commit(adopt=adopt, **record.facts)
        summary = "nothing to commit, tables clean"
        if done.is_new:
            summary = committed_text(repo, done)
        elif record.branch is None and repo.status().untracked:  # the likely reason
            summary = 'nothing to commit but untracked tables (use "lw add NAME")'
        record.output.document(committed_facts(done), summary)


def _check_message(record: Recording) -> None:
    if not record.message:
        raise typer.BadParameter("-m TEXT is needed: lw opens no editor")


def snapshot_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where the files are; they are only read.")
    ],
    *,
    record: Recording,
) -> None:
    """Record the files of a directory as a commit.

    They are the whole set: what is not there is gone from the branch. Tables of the branch stay as
    they are. If the files are those of the last commit, there is no new one, and that is no error.
    lw show REVISION:PATH prints a file.

    JSON keys: branch, hash, new, files.
    """
    _check_message(record)
    with record.repository() as repo:
        files = _files(directory, repo.root)
        done = repo.snapshot(files, **record.facts)
        summary = "nothing to commit, the files are the same"
        if done.is_new:
            assert done.hash is not None
            commit = one_line(repo.at(done.hash).commit)
            summary = f"[{done.branch}] {commit}\n {counted(len(files), 'file')}"
    document = {"branch": done.branch, "hash": done.hash, "new": done.is_new, "files": [*files]}
    record.output.document(document, summary)


def _files(directory: Path, repository: RepositoryRoot) -> dict[str, bytes]:
    """The files below a directory, by their relative paths.

    Raises NotFoundError, and InvalidInputError for links and other things that are no files.
    """
    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {directory}", path=str(directory))
    if isinstance(repository, Path) and repository.resolve().is_relative_to(directory.resolve()):
        raise InvalidInputError(
            f"the repository itself is in {directory}; name the directory with the files only"
        )

    def refuse(error: OSError) -> None:
        raise error

    found = {}
    for above, directories, names in os.walk(directory, onerror=refuse):
        directories.sort()
        links = [each for each in directories if os.path.islink(os.path.join(above, each))]
        for name in sorted([*names, *links]):
            path = Path(above, name)
            if path.is_symlink() or not path.is_file():
                raise InvalidInputError(
                    f"{path} is no plain file, and links and the like are not recorded; take it "
                    "out of the directory",
                    path=str(path),
                )
            found[path.relative_to(directory).as_posix()] = path.read_bytes()
    return dict(sorted(found.items()))


_TABLE_KEYS = ("table", "rows", "fragments", "branch", "version", "uri")
_TABLE_COLUMNS = ("table", "rows", "fragments", "uri")
_PREPARED_KEYS = ("table", "branch", "version", "uri")


def add_command(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Names of tables in tables/ of the repository, or paths and uris of tables.",
        ),
    ],
    *,
    record: Recording,
) -> None:
    """Take tables into the repository, as one commit: all of them, or none.

    A table stays where it is, and is pinned as it stands. One that is given by a path or a uri is
    called as its directory, without .lance; lw add NAME URI calls it NAME. There is no index as in
    git: they are committed at once.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with record.repository() as repo:
        record.print(repo, repo.add_all(_locations(repo, tables), **record.facts))


def _locations(repo: lw.Repository, given: Sequence[str]) -> dict[str, RepositoryRoot]:
    """Where the given tables are, by name. Raises BadParameter for a name that is given twice."""
    if len(given) == 2 and not _is_location(given[0]) and _is_location(given[1]):
        return {given[0]: given[1]}
    found: dict[str, RepositoryRoot] = {}
    for each in given:
        path = each.rstrip("/")
        own = own_table(path) if _is_location(path) and not os.path.exists(path) else None
        is_own = own is not None or not _is_location(path)
        name = own or os.path.basename(path).removesuffix(".lance")
        if name in found:
            raise typer.BadParameter(
                f"two of the tables are called {name!r}: add one of them by itself, as lw add NAME "
                "URI with another name"
            )
        found[name] = below(repo.root, own_table_uri(checked_table(name))) if is_own else path
    return found


def _is_location(text: str) -> bool:
    return "/" in text or text.endswith(".lance")


def remove_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    *,
    record: Recording,
) -> None:
    """Take a table out of the repository, as a commit.

    The table itself stays, and so do commits that pin it: lw table drop is what deletes a table.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with record.repository() as repo:
        record.print(repo, repo.remove(name, **record.facts))


def tables_command(revision: Revision = "HEAD", *, here: InRepository) -> None:
    """List the tables of a commit, and where each is read.

    The uri names exactly the version that is pinned, for lw table cat and all that read. What a
    transaction of the repository made is named by the version that it landed as, or by the commit
    as long as it has not landed; with --json by the number that the pin has.

    JSON lines with keys: table, rows, fragments, branch, version, uri.
    """
    with here.repository() as repo:
        is_unborn = revision == "HEAD" and repo.head.hash is None
        keys, listed = (_TABLE_KEYS, _rows) if here.json else (_TABLE_COLUMNS, _lines)
        here.output.rows(keys, () if is_unborn else listed(repo.at(revision), repo))


def _rows(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    for name in view.tables:
        pin = view.pin(name)
        branch = str(pin.branch or MAIN)
        uri = f"{location_of(repo, pin)}@{pin.branch or ''}:{pin.version}"
        yield name, pin.rows, pin.fragments, branch, int(pin.version), uri


def _lines(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    """The tables of a commit for people: a state that a transaction made is named by the version
    that it landed as, else by the commit."""
    for name, rows, fragments, _, _, uri in _rows(view, repo):
        pin = view.pin(name)
        if pin.landing is not None:
            found = view.landed(name)
            at = f"{location_of(repo, pin)}@{pin.branch or ''}"
            uri = f"{name}@{short(view.hash)}" if found is None else f"{at}:{found.version}"
        yield name, count(rows), count(fragments), uri


def prepare_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables; all of them if left out."),
    ] = None,
    branch: OnBranch = None,
    adopt: Adopt = False,
    *,
    here: InRepository,
) -> None:
    """Make tables ready to be written on the current branch, and say where.

    For lw table, pylance and Spark: what they write there is recorded by lw commit. A branch of
    the table is made from what is committed, if it has none of that name yet; what was written
    since stays.

    JSON lines with keys: table, branch, version, uri.
    """
    with here.repository() as repo:
        on = branch or repo.head.branch
        known = repo.at(HEADS + on) if on else repo.at()

        def prepared() -> Iterator[tuple[Any, ...]]:
            for name in known.tables if names is None else names:
                table = repo.prepare(name, branch=on, adopt=adopt)
                location = location_of(repo, known.pin(name))
                uri = f"{location}@{table.branch}" if table.branch else location
                yield name, table.branch or MAIN, table.version, uri

        here.output.rows(_PREPARED_KEYS, prepared())


class Setting(StrEnum):
    """Whether the tables are exclusive."""

    ON = "on"
    OFF = "off"


def exclusive_command(
    setting: Annotated[
        Setting | None,
        typer.Argument(metavar="[on|off]", help="If it is left out, the setting is shown."),
    ] = None,
    author: Author = None,
    dry_run: options.DryRun = False,
    *,
    here: InRepository,
) -> None:
    """Keep the tables for transactions of the repository, or open them to every writer.

    Others (pylance, Spark, lw table) still read and tag them, and are refused everything else. The
    tables get the setting by a commit on every branch. Work that was merged is left as it is.

    JSON keys: exclusive, commits, dry_run. A commit has branch, hash and tables.
    """
    with here.repository() as repo:
        is_on = setting is Setting.ON
        done = () if setting is None else repo.exclusive(is_on, author=author, dry_run=dry_run)
        is_exclusive = repo.is_exclusive
    lines = ["exclusive: only transactions write to the tables" if is_exclusive else "open to all"]
    would = "would change on " if dry_run else ""
    lines += [
        f"[{would}{each.branch} {short(each.hash)}] {', '.join(each.tables)}" for each in done
    ]
    lines += [UNCHANGED] if dry_run else []
    commits = [{"branch": e.branch, "hash": e.hash, "tables": list(e.tables)} for e in done]
    document = {"exclusive": is_exclusive, "commits": commits, "dry_run": dry_run}
    here.output.document(document, "\n".join(lines))


def protect_command(
    revision: Revision = "HEAD",
    delete: Annotated[
        bool, typer.Option("--delete", "-d", help="Take the protection back.")
    ] = False,
    *,
    here: InRepository,
) -> None:
    """Keep what a commit pins from every cleanup, pylance's too.

    Commits that lw tag names are kept already. Lancewood's own cleanup keeps whatever a commit
    pins that a branch or a tag leads to.

    JSON keys: action, hash, tables.
    """
    with here.repository() as repo:
        view = repo.at(revision)
        if delete:
            repo.unprotect(view.hash)
        done = view.tables if delete else repo.protect(view.hash)
    action = "unprotected" if delete else "protected"
    summary = f"{action} {counted(len(done), 'table')} of {short(view.hash)}"
    document = {"action": action, "hash": view.hash, "tables": list(done)}
    here.output.document(document, summary)

"""``lw init``, ``lw commit`` and ``lw snapshot``: making a repository and commits in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lancewood import Repository
from lancewood.cli.output import counted
from lancewood.cli.repository.names import InRepository, started_at
from lancewood.cli.repository.showing import (
    Adopt,
    Recording,
    committed_facts,
    committed_text,
    one_line,
)
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.repo import RepositoryRoot, below, is_uri


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
    made = Repository.init(_location(path), exclusive=exclusive, storage_options=here.storage)
    where = os.path.join(made.uri, "")
    document = {"path": made.uri, "branch": made.head.branch}
    here.output.document(document, f"Initialized empty Lancewood repository in {where}")


def _location(path: str | None) -> RepositoryRoot:
    """A uri as it is, or a path below what ``-C`` names, which may be in a bucket."""
    if path is not None and is_uri(path):
        return path
    above = started_at()
    if above is None:
        return Path(path or "")
    return above if path is None else below(above, Path(path).as_posix())


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
        summary = committed_text(repo, done) if done.is_new else _nothing(repo, record.branch)
        record.output.document(committed_facts(done), summary)


def _check_message(record: Recording) -> None:
    if not record.message:
        raise typer.BadParameter("-m TEXT is needed: lw opens no editor")


def _nothing(repo: Repository, branch: str | None) -> str:
    """Why there is no commit; the likely reason is tables that were never added."""
    if branch is None and repo.status().untracked:
        return 'nothing to commit but untracked tables (use "lw add NAME")'
    return "nothing to commit, tables clean"


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
    found = {}
    for above, directories, names in os.walk(directory, onerror=_refuse):
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


def _refuse(error: OSError) -> None:
    raise error

"""``lw snapshot``: the files of a directory, as a commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, counted
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import one_line
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.homes import Home


def command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where the files are; they are only read.")
    ],
    message: words.Messages = None,
    author: words.Author = None,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Record the files of a directory as a commit.

    They are the whole set: what is not there is gone from the branch. Tables of the branch stay as
    they are. If the files are those of the last commit, there is no new one, and that is no error.
    lw show REVISION:PATH prints a file.

    JSON keys: branch, hash, new, files.
    """
    text = words.paragraphs(message)
    if text is None:
        raise typer.BadParameter("-m TEXT is needed: lw opens no editor")
    with repository(storage_option) as repo:
        files = _files(directory, repo.home)
        done = repo.snapshot(files, text, branch=branch, author=author)
        told = "nothing to commit, the files are the same"
        if done.is_new:
            assert done.hash is not None
            commit = one_line(repo.at(done.hash).commit)
            told = f"[{done.branch}] {commit}\n {counted(len(files), 'file')}"
    document = {"branch": done.branch, "hash": done.hash, "new": done.is_new, "files": [*files]}
    Output(as_json=json).document(document, told)


def _files(directory: Path, repository: Home) -> dict[str, bytes]:
    """The files below a directory, by their paths there.

    Raises NotFoundError, and InvalidInputError for what is neither a file nor a directory.
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

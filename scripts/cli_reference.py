"""Writes docs/cli.md from the commands themselves. A test checks that the page is current.

.venv/bin/python scripts/cli_reference.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from lancewood.cli.failing import MEANINGS, ExitCode
from lancewood.cli.main import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """\
# The command `lw`

<!-- Written by scripts/cli_reference.py from the commands themselves; do not edit. -->

`lw VERB …` works in a repository of many tables, with the verbs of git; `lw table COMMAND URI …`
works on one table, in a repository or not. `lw sql QUERY` asks and changes tables
[with SQL](sql.md), at any revision. `lw run FILE` runs [a pipeline](pipeline.md), and `lw runs`
looks after its runs. `lw items` goes through a folder of [small repositories](items.md), and
`lw repo import-plain` makes one of the plain layout of ADR-019. `lw doctor URI` examines a place,
`lw spark doctor` looks at this machine. `URI` is a path or a URI of an object store;
`lw --install-completion` teaches your shell to complete names and options.

**Which repository.** That of the current directory, or the nearest above it. `lw -C PATH VERB …`
does everything as if started in `PATH`, as with git. A `REVISION` is a branch, a tag, a hash of
four digits or more, `HEAD`, `@`, `main@{2}` by the reflog, and `~2`, `^2` or `^{commit}` after any
of them. [For git users](for-git-users.md) tells what differs from git.

**Which version** of a table. Without more words it is the newest of main, or of the branch whose
root `URI` is. Commands that read take `--branch`, `--version`, `--tag`, `--as-of` and `--at`; those
that write take `--branch`. The URI may say it too: `photos.lance@exp` is a branch or a tag, `@exp:`
the newest of branch exp, `@exp:12` and `@:12` versions of exp and of main, `@tag:v1` a tag. A path
that is itself a table wins. Where a command writes from an older version, its change is put on top
of the newest one or refused, as with any other writer who was slower.

**Output.** On a terminal there are tables, in a pipe there is plain text: two spaces between
columns, bare figures. Long values are cut in both; `--full`, `--json`, `--csv` and files have them
whole. `NO_COLOR` is honoured. A progress bar
goes to stderr, and only where a person looks. What would act on a terminal, in whatever name,
value or message it stands, is spelled out: `\\x1b`, `\\u202e`.

**For programs.** Every command takes `--json` and prints one document, or one object a line where
there may be many. Keys are only ever added. An error is one line on stderr:
`{"error": {"type": "NotFoundError", "message": "…", "exit_code": 3}}`. Secrets among the storage
options are not repeated in messages.

**Before something changes.** Most commands that change rows, columns or files take `--dry-run`: it
does all the checking and counting, prints the same keys, and leaves version and files as they are.
`drop`, `branch --delete`, and `delete` without `--where`, ask first; `--yes` answers. A table that
branches, tags, clones or commits of a repository rest on is dropped by `--force` alone. `repair`
only proposes until `--apply` is said. What `cleanup` removes cannot be had back by `restore`.

**Values in CSV and JSON.** Bytes are base64. Dates, times, moments and decimals are text, a
duration is a number of its unit, a map is a list of objects with `key` and `value`, a number that
is not finite is null in JSON, and a note says so where a file is written. In CSV what is nested is
JSON, with `NaN`, `Infinity` and `-Infinity` for such numbers, and so are the values that `--cells`
shows; an empty field is null and `""` is an empty text; where there is one column, an
empty line is a row with a null. What is exported so is imported again with the types of the table,
or those of `--cast`. A date or time beyond the calendar has no text and is not exported. Blobs are
shown as descriptors and not exported. A spreadsheet takes a text that begins with `=` in a CSV file
for a formula: `--safe`, wherever CSV is written, puts an apostrophe before it.

**Types** for `--column`, `--cast`, `--null` and `cast-column` are written as Arrow prints them
(`int64`, `list<string>`, `timestamp[us, tz=UTC]`, `decimal128(10, 2)`,
`fixed_size_list<float>[768]`, `map<string, int64>`, `struct<a: int64, b: string not null>`) or as
the format does (`timestamp:us:UTC`). A column whose name has a colon needs `--schema-from`.

**Files.** Format by suffix (`.parquet` `.pq` `.csv` `.tsv` `.json` `.jsonl` `.ndjson` `.arrow`
`.ipc` `.feather` `.arrows`) or by `--format`. CSV and JSON are also read with `.gz`, `.bz2`, `.zst`
or `.lz4` after that. Their types are guessed from the first 8 MiB unless `--cast` or the table
tells them; numbers with leading zeros, a plus or `0x` there are taken for texts, and so are `0` and
`1` among `true` and `false`. JSON is a line for each row, or one array of objects. A guess rounds
no whole number, drops no zone, and no zero of a later row or file: where it would, `--cast`
is asked for. A number that no float holds is refused, not made infinity, and so is an object with a
key twice, inside of nested values too. A file of JSON without a row names no columns and is
refused, where CSV has its header. Texts are UTF-8, unless `--encoding` says what they are. JSON has
no word for NaN and infinities: `export` writes null, and says so on stderr. Columns that only some
files have, or that the table has not, are taken with `--merge-schema`. Parquet and Arrow files take
the types of the table that they are appended to where no value changes by that; an Arrow file (not
a stream) holds values in the place of dictionaries. CSV from stdin is kept in a temporary file
until it is read. A file that `--force` replaces keeps its mode, a link its target; a pipe is
written into.

**Errors** go to stderr, one line each; a wrong command line adds where to find help.
`LANCEWOOD_DEBUG=1` adds the traceback.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    parts = [HEAD, "## Exit codes\n", *_exit_codes()]
    parts += _group("lw", root)
    return "\n".join(parts).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    yield "| code | meaning |\n|---|---|"
    for code in ExitCode:
        yield f"| {code.value} | {MEANINGS[code]} |"
    yield ""


def _group(path: str, group: Any) -> Iterator[str]:
    context = group.make_context(path, [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _group(f"{path} {name}", command)
        else:
            yield from _command(f"{path} {name}", command)


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join(each.metavar or each.name.upper() for each in arguments)
    yield f"## `{path}`\n"
    yield f"`{path} {usage} [OPTIONS]`\n"
    yield f"{command.help.strip()}\n"
    yield "| | |\n|---|---|"
    for each in arguments:
        yield f"| `{each.metavar}` | {_cell(each.help)} |"
    for each in options:
        yield f"| {_names(each)} | {_cell(each.help)}{_default(each)} |"
    yield ""


def _names(option: Any) -> str:
    names = [f"`{each}`" for each in (*option.opts, *option.secondary_opts)]
    metavar = option.metavar or _choices(option)
    return ", ".join(names) + (f" `{metavar}`" if metavar and not option.is_flag else "")


def _choices(option: Any) -> str:
    found = getattr(option.type_descriptor, "choices", None)
    return "\\|".join(str(getattr(each, "value", each)) for each in found or ())


def _default(option: Any) -> str:
    if option.is_flag or option.default in (None, 0, ()):
        return ""
    return f" Default: {getattr(option.default, 'value', option.default)}."


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("\\t", "`\\t`")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")

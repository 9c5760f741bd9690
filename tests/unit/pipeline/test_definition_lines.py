"""The line that is told for a key is the line where the key stands."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancewood.pipeline.definition.model import key_below
from lancewood.pipeline.definition.toml_file import lines_of_keys

LAID_OUT = '''\
# [a]  no table
top = "x = 1 # no comment"
dotted.key."with dots. in = it" = 1

[sources.files]   # here
path = """
[no.table]
key = 1 \\"""
"""""
paths = [  # [
  "a", 'b]',
  """c
  d""",
  { where = "x", reason = 'y' }, {where="z"},
]
options = { "a.b" = true, c.d = [1, 2], 'e' = {} }

[[targets]]
mode = 1979-05-27 07:32:00

[[targets]]
[targets.types]
x = \'\'\'
[[targets]]
\'\'\'\'

[[targets.more]]
a = 1
[[targets.more]]
a = -inf
["quoted table"]
"" = 1
'''
LINES = {
    "top": 2,
    "dotted": 3,
    "dotted.key": 3,
    'dotted.key."with dots. in = it"': 3,
    "sources": 5,
    "sources.files": 5,
    "sources.files.path": 6,
    "sources.files.paths": 10,
    "sources.files.paths[0]": 11,
    "sources.files.paths[1]": 11,
    "sources.files.paths[2]": 12,
    "sources.files.paths[3]": 14,
    "sources.files.paths[3].where": 14,
    "sources.files.paths[3].reason": 14,
    "sources.files.paths[4]": 14,
    "sources.files.paths[4].where": 14,
    "sources.files.options": 16,
    'sources.files.options."a.b"': 16,
    "sources.files.options.c": 16,
    "sources.files.options.c.d": 16,
    "sources.files.options.c.d[0]": 16,
    "sources.files.options.c.d[1]": 16,
    "sources.files.options.e": 16,
    "targets": 18,
    "targets[0]": 18,
    "targets[0].mode": 19,
    "targets[1]": 21,
    "targets[1].types": 22,
    "targets[1].types.x": 23,
    "targets[1].more": 27,
    "targets[1].more[0]": 27,
    "targets[1].more[0].a": 28,
    "targets[1].more[1]": 29,
    "targets[1].more[1].a": 30,
    '"quoted table"': 31,
    '"quoted table".""': 32,
}


def test_every_way_to_lay_out_a_file_is_known() -> None:
    assert lines_of_keys(LAID_OUT, tomllib.loads(LAID_OUT)) == LINES


def test_line_ends_of_windows_count_once() -> None:
    text = LAID_OUT.replace("\n", "\r\n")
    assert lines_of_keys(text, tomllib.loads(text)) == LINES


def test_no_line_is_told_where_the_text_is_not_what_was_read() -> None:
    assert lines_of_keys("a = 1\nb = 2\n", {"a": 1}) == {}
    assert lines_of_keys("a = 1\n", {"a": 1, "b": 2}) == {}
    assert lines_of_keys("a\n", {"a": 1}) == {}


@pytest.mark.parametrize("text", ["", "\n\n# nothing", "[a]", "a=1", "a='''\n'''", "a=[\n]"])
def test_short_files_are_read_to_their_end(text: str) -> None:
    data = tomllib.loads(text)
    assert len(lines_of_keys(text, data)) == len(data)


@dataclass
class Writer:
    """Writes TOML, and notes in which line each key goes out."""

    text: str = ""
    lines: dict[str, int] = field(default_factory=dict)

    def key(self, path: str, text: str) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)
        self.text += text


BARE = st.text("abcdefgh_-0123456789", min_size=1, max_size=4)
ANY_KEY = st.one_of(BARE, st.text("ab.\" =#[]{}'\\é\n\t", max_size=5))
SPACE = st.sampled_from(["", " ", "\t ", "  "])
GAP = st.sampled_from(["", "\n", " # a = [1, 2] '''\n", "\n\n\t", '  # """\n'])
ONE_LINE = st.text("ab=[]{}#'\" .\\é", max_size=8)
SEVERAL_LINES = st.text("ab=[]{}#\" .\n\\'", max_size=12)


def spelt(draw: st.DrawFn, key: str) -> str:
    ways = [json.dumps(key, ensure_ascii=False)]
    if key and all(each.isascii() and (each.isalnum() or each in "_-") for each in key):
        ways += [key, key]
    if "'" not in key and key.isprintable():
        ways.append(f"'{key}'")
    return draw(st.sampled_from(ways))


def scalar(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return json.dumps(draw(ONE_LINE), ensure_ascii=False)
    if kind == 1:
        return "'" + draw(ONE_LINE).replace("'", "") + "'"
    if kind == 2:
        inner = draw(SEVERAL_LINES).replace("\\", "\\\\").replace('"""', '""\\"')
        return f'"""{inner}"""'
    if kind == 3:
        return "'''" + draw(SEVERAL_LINES).replace("'''", "") + "'''"
    fixed = ["1", "-1_0.5e3", "true", "inf", "1979-05-27 07:32:00", "0xff", "07:32:00"]
    return draw(st.sampled_from(fixed))


def value(draw: st.DrawFn, out: Writer, path: str, depth: int) -> None:
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 1:
        out.text += "["
        for index in range(draw(st.integers(0, 3))):
            out.text += draw(GAP)
            out.key(key_below(path, index), "")
            value(draw, out, key_below(path, index), depth - 1)
            out.text += f"{draw(GAP)},"
        out.text += f"{draw(GAP)}]"
    elif kind == 2:
        out.text += "{"
        keys = draw(st.lists(ANY_KEY, max_size=3, unique=True))
        for index, key in enumerate(keys):
            out.text += ", " if index else draw(SPACE)
            pair(draw, out, path, key, depth - 1)
        out.text += f"{draw(SPACE)}}}"
    else:
        out.text += scalar(draw)


def pair(draw: st.DrawFn, out: Writer, above: str, key: str, depth: int) -> None:
    path = key_below(above, key)
    out.key(path, spelt(draw, key))
    if draw(st.booleans()):
        more = draw(ANY_KEY)
        out.text += f"{draw(SPACE)}.{draw(SPACE)}"
        path = key_below(path, more)
        out.key(path, spelt(draw, more))
    out.text += f"{draw(SPACE)}={draw(SPACE)}"
    value(draw, out, path, depth)


@st.composite
def documents(draw: st.DrawFn) -> Writer:
    out = Writer()
    names = draw(st.lists(ANY_KEY, max_size=5, unique=True))
    split = draw(st.integers(0, len(names)))
    for key in names[:split]:
        out.text += draw(GAP)
        pair(draw, out, "", key, 3)
        out.text += "\n"
    for name in names[split:]:
        repeats = draw(st.integers(0, 2))
        for index in range(repeats or 1):
            out.text += f"{draw(GAP)}\n{draw(SPACE)}" + ("[[" if repeats else "[") + draw(SPACE)
            path = key_below("", name)
            out.key(path, "")
            if repeats:
                path = key_below(path, index)
                out.key(path, "")
            out.text += spelt(draw, name) + draw(SPACE)
            if not repeats and draw(st.booleans()):
                below = draw(ANY_KEY)
                out.text += "."
                path = key_below(path, below)
                out.key(path, spelt(draw, below))
            out.text += ("]]" if repeats else "]") + "\n"
            for key in draw(st.lists(ANY_KEY, max_size=3, unique=True)):
                pair(draw, out, path, key, 2)
                out.text += "\n"
    return out


@settings(max_examples=150, deadline=None)
@given(documents())
def test_the_line_of_a_key_is_where_the_key_stands(written: Writer) -> None:
    assert lines_of_keys(written.text, tomllib.loads(written.text)) == written.lines

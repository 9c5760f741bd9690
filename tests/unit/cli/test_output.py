from __future__ import annotations

import base64
import io
import json
import struct

import pytest

from lancewood.cli.output import Output, cell, count, human_size, size
from lancewood.files.json_text import json_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(
    stream: io.StringIO, *, as_json: bool = False, cut: bool = False, full: bool = False
) -> str:
    rows = [(1, "short", count(1234567)), (22, "x" * 60, None)]
    output = Output(as_json=as_json, full=full, stream=stream)
    output.rows(("n", "text", "rows"), iter(rows), cut=cut)
    return stream.getvalue()


def test_in_a_pipe_columns_are_aligned_and_long_values_are_cut_as_on_a_terminal() -> None:
    assert printed(io.StringIO(), cut=True).splitlines()[2] == (
        "22  " + "x" * 39 + "… (60 characters)     null"
    )
    assert printed(io.StringIO(), cut=True, full=True).splitlines() == [
        " n  text" + " " * 61 + "rows",
        " 1  short" + " " * 57 + "1234567",
        "22  " + "x" * 60 + "     null",
    ]


def test_on_a_terminal_figures_are_humane_and_long_values_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    text = printed(Terminal(), cut=True)
    assert "1,234,567" in text
    assert "x" * 39 + "…" in text
    assert "x" * 60 not in text
    assert "x" * 60 in printed(Terminal(), cut=False)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(Terminal())


def test_json_lines_have_bare_figures() -> None:
    lines = [json.loads(each) for each in printed(io.StringIO(), as_json=True).splitlines()]
    assert lines == [
        {"n": 1, "text": "short", "rows": 1234567},
        {"n": 22, "text": "x" * 60, "rows": None},
    ]


def test_a_list_without_rows_still_has_its_head() -> None:
    stream = io.StringIO()
    assert Output(as_json=False, stream=stream).rows(("a", "b"), iter(())) == 0
    assert stream.getvalue() == "a  b\n"


def test_a_long_list_is_printed_as_it_comes() -> None:
    stream = io.StringIO()
    seen: list[int] = []

    def rows() -> object:
        for number in range(1200):
            seen.append(len(stream.getvalue()))
            yield (number,)

    Output(as_json=False, stream=stream).rows(("n",), rows())  # type: ignore[arg-type]
    assert seen[499] == 0 < seen[500] < seen[1000]
    assert stream.getvalue().count("\n") == 1200 + 1


def test_json_is_strict() -> None:
    assert json_text({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}}) == (
        '{"a": null, "b": [null, 1.5], "c": {"d": null}}'
    )
    assert json_text({"x": b"\xff", "u": "ü"}) == '{"x": "/w==", "u": "ü"}'


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_on_a_stream_of_any_encoding(encoding: str) -> None:
    value = {"text": "ü 😀 \\ €", "odd": "\udcff"}
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    output = Output(as_json=True, stream=stream)
    output.document(value, "")
    output.facts(value, [])
    output.rows(("text",), [(value["text"],)])
    stream.flush()
    first, second, third = raw.getvalue().decode(encoding).splitlines()
    assert json.loads(first) == json.loads(second) == value
    assert json.loads(third) == {"text": value["text"]}


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 32, 8) + b"\x08\x02"


@pytest.mark.parametrize(
    ("value", "whole", "short"),
    [
        (None, "null", "null"),
        (True, "true", "true"),
        (b"\xff" * 3, "////", "<3 B>"),
        (1 / 3, "0.3333333333333333", "0.333333"),
        ("a\tb\nc", "a\\tb\\nc", "a\\tb\\nc"),
        ("\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred"),
        ([1, 2, 3, 4, 5, 6], "[1, 2, 3, 4, 5, 6]", "[6 integers]"),
        ({"a": 1}, '{"a": 1}', '{"a": 1}'),
        ("y" * 41, "y" * 41, "y" * 39 + "… (41 characters)"),
        ([0.5] * 384, str([0.5] * 384), "[384 floats]"),
        (["a"] * 6, '["a", "a", "a", "a", "a", "a"]', "[a, a, a, a, … 2 more]"),
        (PNG, base64.b64encode(PNG).decode(), "<PNG 32\u00d78, 26 B>"),
        (
            {"image": PNG},
            json.dumps({"image": base64.b64encode(PNG).decode()}),
            '{"image": "<PNG 32\u00d78, 26 B>"}',
        ),
    ],
)
def test_a_value_is_one_line(value: object, whole: str, short: str) -> None:
    assert cell(value, short=False) == whole
    assert cell(value, short=True) == short


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3 * 1024**5, "3.0 PiB"),
        (4 * 1024**6, "4096.0 PiB"),
    ],
)
def test_bytes_have_the_unit_that_keeps_them_short(number: int, text: str) -> None:
    assert human_size(number) == text
    figure = size(number)
    assert figure is not None
    assert (figure.value, figure.text) == (number, text)
    assert size(None) is count(None) is None


WIDE = ("東京", "🦊🦊", "café", "Oslo", "e\u0301té")


def test_columns_stand_under_each_other_whatever_the_width_of_their_letters() -> None:
    stream = io.StringIO()
    rows = [(each, number) for number, each in enumerate(WIDE)]
    Output(as_json=False, stream=stream).rows(("where", "n"), iter(rows))
    assert stream.getvalue().splitlines() == [
        *("where  n", "東京   0", "🦊🦊   1", "café   2", "Oslo   3", "e\u0301té    4"),
    ]
    stream = io.StringIO()
    Output(as_json=False, stream=stream).facts({}, [("東京", 1), ("Oslo", 2)])
    assert stream.getvalue().splitlines() == ["東京  1", "Oslo  2"]


def test_a_wide_text_is_cut_where_a_narrow_one_of_its_width_would_be() -> None:
    assert cell("東" * 30, short=True) == "東" * 19 + "… (30 characters)"
    assert cell("東" * 20, short=True) == "東" * 20


@pytest.mark.parametrize("width", [20, 60])
def test_on_a_narrow_terminal_the_widest_columns_are_cut_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    names = ["", "id", *(f"column {each}" for each in range(6))]
    Output(as_json=False, stream=stream).rows(names, [["~", 7, *["x" * 30] * 6]], cut=True)
    seen = stream.getvalue().splitlines()[-1].split()
    assert [each[:3] for each in seen] == ["~", "7", *["xxx"] * 6]

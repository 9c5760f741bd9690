"""Files of CSV and JSON, and the rows that they hold, whoever reads them: ``lw table import`` and
the sources of a pipeline have one answer."""

from __future__ import annotations

import pyarrow as pa

AWKWARD = pa.table(
    {
        "a": [
            *('say "hi" now', "back\\", "two\nlines", "two\r\nlines"),
            *("", None, "plain", "é, 中 \ufffd"),
        ],
        "b": [1, -2, 3, None, 5, 6, 7, 8],
    }
)
"""Values whose texts are told apart by quotes alone."""
ONE_COLUMN = pa.table({"a": ["x", None, "", "y", None]})
"""Where a null is an empty line."""
Rows = list[dict[str, object]]
A, B = "a", "b"
CASES: dict[str, tuple[str, bytes, Rows]] = {
    "columns in another order": (
        "csv",
        b'b,a\n1,x\n2,"y,z"\n',
        [{A: "x", B: 1}, {A: "y,z", B: 2}],
    ),
    "doubled quotes": ("csv", b'a,b\n"say ""hi"" now",1\n', [{A: 'say "hi" now', B: 1}]),
    "a quoted backslash": ("csv", b'a,b\n"back\\",1\n', [{A: "back\\", B: 1}]),
    "a quoted line end": ("csv", b'a,b\n"x\ny",1\nz,2\n', [{A: "x\ny", B: 1}, {A: "z", B: 2}]),
    "a quoted blank line": ("csv", b'a,b\n"x\n\ny",1\n', [{A: "x\n\ny", B: 1}]),
    "a quoted nothing is a text": ("csv", b'a,b\n"",1\n,2\n', [{A: "", B: 1}, {A: None, B: 2}]),
    "line ends of Windows": (
        "csv",
        b'a,b\r\nx,1\r\n"y\r\nz",2\r\n',
        [{A: "x", B: 1}, {A: "y\r\nz", B: 2}],
    ),
    "a byte order mark": ("csv", b"\xef\xbb\xbfa,b\nx,1\n", [{A: "x", B: 1}]),
    "no line end at the end": ("csv", b'a,b\nx,1\n"y",2', [{A: "x", B: 1}, {A: "y", B: 2}]),
    "blank lines between": ("csv", b"a,b\n\nx,1\n\n\ny,2\n", [{A: "x", B: 1}, {A: "y", B: 2}]),
    "JSON lines": (
        "json",
        b'{"a": "x", "b": 1}\n\n{"b": 2, "c": 0}\n{"a": "\\u00e9", "b": null}\n',
        [{A: "x", B: 1}, {A: None, B: 2}, {A: "é", B: None}],
    ),
}
"""What is whole: format, bytes and rows of ``a STRING, b LONG``."""
BROKEN: dict[str, tuple[str, bytes, str]] = {
    "other names": ("csv", b"price,colour\n17,red\n", "header of the file has price, colour"),
    "a name too many": ("csv", b"a,b,c\nx,1,2\n", "the schema has a, b"),
    "a quote that is never closed": ("csv", b'a,b\nx,1\n"y,2\nz,3\n', "never closed"),
    "bytes that are no UTF-8": ("csv", b"a,b\ncaf\xe9,1\n", "0xe9"),
    "a value too many": ("csv", b"a,b\nx,1,2\n", "does not parse"),
    "text for a number": ("csv", b"a,b\nx,one\n", "does not parse"),
    "a quoted nothing for a number": ("csv", b'a,b\nx,""\n', "does not parse"),
    "gzip by another name": (
        "csv",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\xd4\x49\xe2\x02\x00",
        "compressed with gzip",
    ),
    "quotes that take in lines": ("csv", b'a,b\n"y,2\nz,3\n"w,4\n', "its record begins in line 2"),
    "a number of several lines": ("csv", b'a,b\ny,"1\nz,2"\n', "column 'b' has a line end"),
    "a key twice": ("json", b'{"a": "x", "a": "y"}\n', "key 'a' twice"),
    "bytes in JSON that are no UTF-8": ("json", b'{"a": "caf\xe9"}\n', "0xe9"),
    "a key in another case": ("json", b'{"A": "y"}\n', "has the key 'A', and the schema has 'a'"),
    "keys of something else": ("json", b'{"price": 1}\n', "has the key 'price', and none"),
    "a fraction for a number": ("json", b'{"b": 1.5}\n', "does not parse"),
}
"""What is not: format, bytes, and what is said of it."""
TYPES = {
    "price": ("DECIMAL(10,2)", "decimal128(10, 2)"),
    "ratio": ("FLOAT", "float"),
    "size": ("DOUBLE", "double"),
    "seen": ("TIMESTAMP_NTZ", "timestamp[us]"),
    "day": ("DATE", "date32"),
}
"""Columns that can lose something of a value: Spark's type, and that of ``lw table import``."""
KEPT = [
    {
        "price": 1.23,
        "ratio": 0.1,
        "size": 1e300,
        "seen": "2024-01-01 10:00:00",
        "day": "2024-01-31",
    },
    {"price": 17, "ratio": 3.4e38, "size": -17, "seen": "2024-01-01", "day": None},
    dict.fromkeys(TYPES),
]
"""Values that stay what they are."""
LOST: dict[str, tuple[str, str]] = {
    "1.239": ("price", "column 'price' has more decimal places than the 2 of its type"),
    "1239e-3": ("price", "column 'price' has more decimal places than the 2 of its type"),
    "1e39": ("ratio", "column 'ratio' has a number too large for its type"),
    "-1e999": ("size", "column 'size' has a number too large for its type"),
    "2024-01-01 10:00:00.123456789": (
        "seen",
        "column 'seen' has nanoseconds, and its type ends with microseconds",
    ),
    "2024-01-31 10:00": ("day", "column 'day' has a time of day, and its type is a date"),
}
"""Texts that a column would not keep: the column, and what is said of the row."""

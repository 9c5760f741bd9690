"""Every rule of the sections: what is refused, where, and with which way out."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.pipeline.definition_files import GOOD, HEAD, SOURCE, TARGET, loaded, refused

from lancewood.pipeline.definition.model import (
    AcceptedCheck,
    NotNullCheck,
    ReferenceCheck,
    RowsCheck,
    SchemaCheck,
    SchemaRule,
    SqlCheck,
    UniqueCheck,
)


@pytest.mark.parametrize(
    ("lines", "key", "told"),
    [
        ('[sources."a b"] #!\ntable = "t"', '"a b"', "frame name 'a b' is not allowed"),
        ('[sources.1a] #!\ntable = "t"', "1a", "has to begin with a letter"),
        ('[sources.Select] #!\ntable = "t"', "Select", "it is a word of SQL"),
        (f'[sources.{"x" * 61}] #!\ntable = "t"', "x" * 61, "60 are allowed"),
        ("[sources.s] #!", "s", "takes one of format, table, uri, sql"),
        ('[sources.s] #!\npath = "x"', "s", "a path needs a format"),
        ('[sources.s]\ntable = "t"\nuri = "u" #!', "s.uri", "does not go with table"),
        ('[sources.s]\ntable = "t" #!\nformat = "csv"\npath = "p"', "s.table", "with format"),
        ('[sources.s]\nformat = "lance" #!', "s.format", 'uri = "…"'),
        ('[sources.s]\nformat = "c s v" #!', "s.format", "is no format"),
        ('[sources.s] #!\nformat = "csv"', "s", "the key 'path' is missing"),
        ('[sources.s]\nformat = "csv"\npath = "a"\npaths = ["b"] #!', "s.paths", "put all of"),
        ('[sources.s]\nformat = "csv"\npaths = [] #!', "s.paths", "got an empty list"),
        ('[sources.s]\nformat = "csv"\npaths = ["a",\n"a"] #!', "s.paths[1]", "twice"),
        ('[sources.s]\nformat = "csv"\npaths = ["~/a"] #!', "s.paths[0]", "'~'"),
        ('[sources.s]\nformat = "csv"\npath = "p"\nrevision = "v1" #!', "s.revision", "format"),
        ('[sources.s]\ntable = "a b" #!', "s.table", "table name 'a b' is not allowed"),
        ('[sources.s]\ntable = "t"\noptions = {} #!', "s.options", "does not go with table"),
        ('[sources.s]\nsql = "SELECT 1"\nincremental = true #!', "s.incremental", "with sql"),
        ('[sources.s]\nsql = "SELECT 1"\ncolumns = ["a"] #!', "s.columns", "with sql"),
        ('[sources.s]\nformat = "jdbc"\nincremental = true #!', "s.incremental", "of files"),
        ('[sources.s]\nformat = "jdbc"\nfile_time = "at" #!', "s.file_time", "jdbc is none"),
        ('[sources.s]\ntable = "t"\nfile_time = "at" #!', "s.file_time", "with table"),
        ('[sources.s]\ntable = "t"\nincremental = "yes" #!', "s.incremental", "true or false"),
        ('[sources.s]\ntable = "t"\nreject = {} #!', "s.reject", "two brackets"),
        ('[sources.s]\ntable = "t"\nreject = [{ where = "a" }] #!', "s.reject[0]", "'reason'"),
        ('[sources.s]\ntable = "t"\nreject = [{ reason = "a" }] #!', "s.reject[0]", "'where'"),
        (
            '[sources.s]\ntable = "t"\nreject = [{ where = "a", reson = "b" }] #!',
            "s.reject[0].reson",
            "did you mean 'reason'?",
        ),
        (
            '[sources.s]\ntable = "t"\n[[sources.s.reject]]\nreason = "r"\n'
            'where = "id IN (SELECT id FROM u)" #!',
            "s.reject[0].where",
            "join the table in a step",
        ),
        ('[sources.s]\nformt = "csv" #!', "s.formt", "did you mean 'format'?"),
        ('[sources.s]\nformat = "csv"\npath = "p"\noptions.a = [1] #!', "s.options.a", "a text, a"),
        (
            '[sources.s]\nformat = "csv"\npath = "p"\n[sources.s.options]\n"a.b" = 1\na.b = 2 #!',
            "s.options.a",
            "'a.b' is said twice",
        ),
    ],
)
def test_a_wrong_source_is_refused(tmp_path: Path, lines: str, key: str, told: str) -> None:
    assert told in refused(tmp_path, f"{GOOD}{lines}\n", f"sources.{key}")


def test_the_folder_of_the_file_has_no_wild_cards(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]*"
    folder.mkdir()
    (source,) = loaded(folder, GOOD.replace('"animals"', '"*.csv"', 1)).sources
    assert source.paths == (f"{tmp_path}/a\\[b\\]\\*/*.csv",)


def test_sources_of_every_kind_are_read(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        HEAD
        + """
[sources.db]
format = "jdbc"
options = { url = "jdbc:x", fetchsize = 100, "a.b" = 1.5, c.d = false }
schema = "id LONG"
columns = ["id"]
bad = "why"
reject = [{ where = "id < 0", reason = "negative" }, { where = "id IS NULL", reason = "none" }]
[sources.mine]
table = "animals"
revision = "v1"
incremental = true
[sources.both]
sql = "SELECT * FROM db JOIN Mine USING (id)"
"""
        + TARGET.replace("animals", "both"),
    )
    db, mine, both = found.sources
    assert (db.format, db.schema, db.columns, db.bad) == ("jdbc", "id LONG", ("id",), "why")
    assert db.options == {"url": "jdbc:x", "fetchsize": "100", "a.b": "1.5", "c.d": "false"}
    assert [(each.where, each.reason) for each in db.rejects] == [
        ("id < 0", "negative"),
        ("id IS NULL", "none"),
    ]
    assert (mine.table, mine.revision, mine.incremental) == ("animals", "v1", True)
    assert both.sql == "SELECT * FROM db JOIN Mine USING (id)"


@pytest.mark.parametrize(
    ("lines", "key", "told"),
    [
        ("[steps.s] #!", "steps.s", "takes either sql or python"),
        ('[steps.s] #!\nsql = "SELECT 1"\npython = "a:b"', "steps.s", "either sql or python"),
        ('[steps.s]\nsql = "SELECT 1"\ninputs = ["animals"] #!', "steps.s.inputs", "with python"),
        ('[steps.s]\nsql = "SELECT 1"\narguments = {} #!', "steps.s.arguments", "with python"),
        ('[steps.s] #!\npython = "a:b"', "steps.s", "the key 'inputs' is missing"),
        ('[steps.s]\npython = "a.b" #!\ninputs = ["animals"]', "steps.s.python", "module:function"),
        ('[steps.s]\npython = "a:b"\ninputs = ["animal"] #!', "steps.s.inputs[0]", "'animals'?"),
        ('[steps.s]\npython = "a:b"\ninputs = "animals" #!', "steps.s.inputs", "a list of texts"),
        (
            '[steps.s]\npython = "a:b"\ninputs = ["animals"]\narguments = { "a-b" = 1 } #!',
            "steps.s.arguments.a-b",
            "no name of an argument",
        ),
        ('[steps.Animals] #!\nsql = "SELECT 1"', "steps.Animals", "same name as sources.animals"),
        ('[steps.s]\nsql = "SELECT * FROM nimals" #!', "steps.s.sql", "did you mean 'animals'?"),
        ('[steps.s]\nsql = "SELECT * FROM zzz" #!', "steps.s.sql", "there are animals, s"),
        ('[steps.s]\nsql = "SELECT * FROM b.animals" #!', "steps.s.sql", "'b.animals'"),
        ('[steps.s]\nsql = "SELECT 1; SELECT 2" #!', "steps.s.sql", "found 2 statements"),
        ('[steps.s]\nsql = "-- none" #!', "steps.s.sql", "found nothing"),
        ('[steps.s]\nsql = "DROP TABLE animals" #!', "steps.s.sql", "is something else"),
        ('[steps.s]\nsql = "INSERT INTO animals SELECT 1" #!', "steps.s.sql", "something else"),
        ('[steps.s]\nsql = "SELECT FROM WHERE" #!', "steps.s.sql", "as SQL"),
        ('[steps.s]\nsql = "SELECT \'a" #!', "steps.s.sql", "is not closed"),
        ('[steps.s] #!\nsql = "SELECT * FROM s"', "steps.s", "needs itself: s needs s"),
        (
            '[steps.a] #!\nsql = "SELECT * FROM b, animals"\n[steps.b]\npython = "m:f"\n'
            'inputs = ["c"]\n[steps.c]\nsql = "SELECT * FROM a"',
            "steps.a",
            "needs itself: a needs b needs c needs a",
        ),
        (
            '[sources.x] #!\nsql = "SELECT * FROM y"\n[sources.y]\nsql = "SELECT * FROM x"',
            "sources.x",
            "x needs y needs x",
        ),
        (
            '[sources.x]\nsql = "SELECT * FROM s" #!\n[steps.s]\nsql = "SELECT 1"',
            "sources.x.sql",
            "there is no source or step 's'",
        ),
        ('[functions.f] #!\nreturns = "int"', "functions.f", "the key 'python' is missing"),
        ('[functions.f] #!\npython = "m:f"', "functions.f", "the key 'returns' is missing"),
        ('[functions."f.g"] #!\npython = "m:f"', 'functions."f.g"', "function name 'f.g'"),
        (
            '[functions.f]\npython = "m:f"\nreturns = "int"\n[functions.F] #!\npython = "m:f"',
            "functions.F",
            "the same name as 'f' to SQL",
        ),
    ],
)
def test_a_wrong_step_or_function_is_refused(
    tmp_path: Path, lines: str, key: str, told: str
) -> None:
    assert told in refused(tmp_path, f"{GOOD}{lines}\n", key)


def test_steps_may_be_in_any_order_and_have_arguments(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        GOOD
        + """
[steps.last]
python = "zoo.steps:last"
inputs = ["animals", "first"]
arguments = { size = 3, day = 2026-01-31, names = ["a"], more = { x = 1.5 } }
[steps.first]
sql = "SELECT upper(name) FROM ANIMALS"
bad = "why"
[functions.thumb]
python = "zoo:thumb"
returns = "binary"
""",
    )
    last, first = found.steps
    assert last.inputs == ("animals", "first")
    assert last.arguments == {
        "size": 3,
        "day": dt.date(2026, 1, 31),
        "names": ["a"],
        "more": {"x": 1.5},
    }
    assert first.bad == "why"
    assert (found.functions[0].python, found.functions[0].returns) == ("zoo:thumb", "binary")


MERGE = '[[targets]]\ntable = "t"\nfrom = "animals"\nmode = "merge"\non = ["id"]\n'
ADD = '[[targets]]\ntable = "t"\nmode = "add-columns"\n'


@pytest.mark.parametrize(
    ("lines", "key", "told"),
    [
        ("[[targets]] #!", "", "the key 'table' is missing"),
        ('[[targets]]\ntable = "-t" #!', ".table", "table name '-t' is not allowed"),
        ('[[targets]] #!\ntable = "t"', "", "the key 'mode' is missing"),
        ('[[targets]]\ntable = "t"\nmode = "upsert" #!', ".mode", "there are add-columns, append"),
        ('[[targets]]\ntable = "t"\nmode = "add_columns" #!', ".mode", "mean 'add-columns'?"),
        ('[[targets]] #!\ntable = "t"\nmode = "append"', "", "'from' is missing: mode append"),
        ('[[targets]]\ntable = "t"\nmode = "append"\nfrom = "x" #!', ".from", "there are animals"),
        (
            '[[targets]]\ntable = "t"\nmode = "append"\nfrom = "Animals" #!',
            ".from",
            "did you mean 'animals'?",
        ),
        (
            '[[targets]]\ntable = "t"\nmode = "append"\nfrom = "animals"\non = ["a"] #!',
            ".on",
            "does not go with mode append, only with merge",
        ),
        (MERGE.replace("[[targets]]", "[[targets]] #!").replace('on = ["id"]\n', ""), "", "'on'"),
        (MERGE + 'matched = "replace" #!', ".matched", "there are delete, ignore, update"),
        (MERGE + 'not_matched = "delete" #!', ".not_matched", "there are ignore, insert"),
        (MERGE + 'not_matched_by_source = "drop" #!', ".not_matched_by_source", "delete, keep"),
        (MERGE + 'leave_out = ["op", "id"] #!', ".leave_out[1]", "'id' is a key"),
        (MERGE + 'matched = "ignore"\ndeleted = "op" #!', ".deleted", "with matched = 'ignore'"),
        (MERGE + 'deleted = "a, b" #!', ".deleted", "takes one expression"),
        (MERGE + 'deleted = "a FROM t" #!', ".deleted", "takes one expression"),
        (MERGE + 'columns = { a = "b" } #!', ".columns", "only with add-columns"),
        (MERGE + "overwrite = true #!", ".overwrite", "only with add-columns"),
        (MERGE + 'types = { a = "vector" } #!', ".types.a", "type 'vector' is not known"),
        (MERGE + 'types = { a = "int64" } #!\nleave_out = ["a"]', ".types.a", "is left out"),
        (MERGE + "partitions = 0 #!", ".partitions", "from 1 to 100,000"),
        (MERGE + "max_rows_per_file = 9 #!", ".max_rows_per_file", "only with append, overwrite"),
        (
            TARGET + "max_rows_per_file = 0 #!",
            ".max_rows_per_file",
            "from 1 to 2,147,483,647",
        ),
        (ADD + 'columns = { a = "b" }\npartitions = 1 #!', ".partitions", "with mode add-columns"),
        (ADD.replace("]]", "]] #!"), "", "the key 'columns' is missing"),
        (ADD + 'columns = { a = "b" }\nfrom = "animals" #!', ".from", "does not go with mode add"),
        (ADD + 'columns = { a = "b" }\non = ["id"] #!', ".on", "only with merge"),
        (MERGE + 'keep = "newest" #!\norder_by = ["at"]', ".keep", "'newest' is not known"),
        (MERGE + 'keep = "last" #!', ".keep", "needs order_by"),
        (MERGE + 'order_by = ["at"] #!', ".order_by", 'needs keep: "first" or "last"'),
        (MERGE + 'keep = "last"\norder_by = "at" #!', ".order_by", "takes a list of texts"),
        (ADD + 'columns = { a = "b" }\nkeep = "last" #!', ".keep", "only with merge"),
        (ADD + "columns = {} #!", ".columns", "at least one column"),
        (ADD + 'columns = { a = "(SELECT 1)" } #!', ".columns.a", "reads a table"),
        (ADD + 'columns = { a = " " } #!', ".columns.a", "an empty one"),
        (
            ADD + 'columns = { a = "b" }\ntypes = { b = "int64" } #!',
            ".types.b",
            "none of the new columns",
        ),
        (MERGE + 'on_conflict = "their" #!', ".on_conflict", "did you mean 'theirs'?"),
        (MERGE + "on_conflict = true #!", ".on_conflict", "takes a text"),
        (MERGE + "on_conflict = {} #!", ".on_conflict", "at least one column"),
        (MERGE + "on_conflict = { a = 1 } #!", ".on_conflict.a", "takes a text"),
        (MERGE + 'on_conflict = { a = "ours.a, 1" } #!', ".on_conflict.a", "takes one expression"),
        (
            MERGE.replace("merge", "overwrite").replace('on = ["id"]', 'on_conflict = "ours" #!'),
            ".on_conflict",
            "does not go with mode overwrite, only with append, merge, add-columns",
        ),
        (
            MERGE.replace('"t"', '"animals"') + 'on_conflict = "ours" #!',
            ".on_conflict",
            "another target of table 'animals' does not say the same",
        ),
        (
            MERGE + 'on_conflict = "ours" #!\n' + MERGE,
            ".on_conflict",
            "another target of table 't' does not say the same",
        ),
        (MERGE + "index = {} #!", ".index", "two brackets"),
        (MERGE + 'index = [{ kind = "BTREE" }] #!', ".index[0]", "the key 'column' is missing"),
        (MERGE + 'index = [{ column = "a", knd = "x" }] #!', ".index[0].knd", "mean 'kind'?"),
        (MERGE + 'index = [{ column = "a", kind = "x" }] #!', ".index[0].kind", "BTREE, BITMAP"),
        (MERGE + 'index = [{ column = "a", partitions = 0 }] #!', ".index[0].partitions", "from 1"),
        (MERGE + 'index = [{ column = "a", options = 1 }] #!', ".index[0].options", "a table"),
        (
            MERGE + 'index = [{ column = "a", options = { b = 2026-01-31 } }] #!',
            ".index[0].options.b",
            "true, false or a list",
        ),
        (
            MERGE + 'index = [{ column = "a" },\n{ column = "a", kind = "BITMAP" }] #!',
            ".index[1].column",
            "there is an index 'a_idx' already",
        ),
        (
            MERGE + 'index = [{ column = "a" },\n{ column = "b", name = "a_idx" }] #!',
            ".index[1].name",
            "there is an index 'a_idx' already",
        ),
        (
            MERGE.replace('"t"', '"animals"')
            + 'index = [{ column = "a" }]\n'
            + ADD.replace('"t"', '"animals"')
            + 'columns = { b = "a" }\n[[targets.index]] #!\ncolumn = "a"\nkind = "BITMAP"',
            None,
            "another target of table 'animals' says something else of index 'a_idx'",
        ),
        (MERGE.replace('"t"', '"Animals" #!'), ".table", "same name as 'animals' to SQL"),
        (MERGE.replace('"t"', '"animals"') + 'uri = "x" #!', ".uri", "is at two places"),
        (MERGE.replace('"t"', '"quarantine" #!'), ".table", "is kept for bad rows"),
    ],
)
def test_a_wrong_target_is_refused(tmp_path: Path, lines: str, key: str | None, told: str) -> None:
    where = "targets[2].index[0]" if key is None else f"targets[1]{key}"
    assert told in refused(tmp_path, f"{GOOD}{lines}\n", where)


def test_two_tables_are_not_at_one_place(tmp_path: Path) -> None:
    text = HEAD + SOURCE + TARGET + 'uri = "x/../t"\n' + MERGE + 'uri = "t" #!\n'
    assert "is table 'animals' already" in refused(tmp_path, text, "targets[1].uri")


def test_the_table_of_seen_files_is_no_target(tmp_path: Path) -> None:
    source = SOURCE + "incremental = true\n"
    text = HEAD + source + TARGET.replace('"animals"', '"zoo_animals_files" #!', 1)
    assert "that sources.animals has seen" in refused(tmp_path, text, "targets[0].table")


def test_what_decides_conflicts_is_said_by_table(tmp_path: Path) -> None:
    rules = '{ views = "ours.views + theirs.views - base.views", "*" = "theirs" }'
    text = (
        f"{GOOD}{MERGE}on_conflict = {rules}\n"
        + f'{ADD}columns = {{ a = "b" }}\non_conflict = {rules}\n'
        + MERGE.replace('"t"', '"u"')
        + 'on_conflict = "theirs"\n'
        + MERGE.replace('"t"', '"v"')
        + 'on_conflict = "fail"\n'
    )
    found = loaded(tmp_path, text)
    assert [each.on_conflict for each in found.targets[::4]] == ["fail", "fail"]
    views = {"views": "ours.views + theirs.views - base.views", "*": "theirs"}
    assert found.on_conflict == {"t": views, "u": "theirs"}
    (fresh,) = (each for each in found.targets if each.table == "u")
    anew = replace(found, targets=(*found.targets[:-2], replace(fresh, is_anew=True)))
    assert anew.on_conflict == {"t": views}


def test_indices_are_read_and_part_of_what_the_file_says(tmp_path: Path) -> None:
    said = """
index = [
  { column = "id", kind = "btree" },
  { column = "v", kind = "search", name = "near", metric = "cosine", partitions = 4 },
  { column = "t", kind = "fts", options = { with_position = true, custom_stop_words = ["a"] } },
]
"""
    found = loaded(tmp_path, GOOD + said + MERGE + 'index = [{ column = "id", kind = "BTREE" }]\n')
    first, near, words = found.targets[0].indices
    assert (first.name, first.column, first.kind) == ("id_idx", "id", "BTREE")
    assert (near.name, near.kind, near.metric, near.partitions) == ("near", "search", "cosine", 4)
    assert (words.kind, words.options) == (
        "INVERTED",
        {"with_position": True, "custom_stop_words": ["a"]},
    )
    assert found.targets[1].indices == (first,)
    assert loaded(tmp_path, GOOD).targets[0].indices == ()
    digests = [loaded(tmp_path, each).digest for each in (GOOD, GOOD + said)]
    assert digests[0] != digests[1]


def test_targets_of_every_mode_are_read(tmp_path: Path) -> None:
    text = (
        GOOD
        + "max_rows_per_file = 10\n"
        + MERGE
        + 'deleted = "op = \'d\'"\nleave_out = ["op"]\nnot_matched = "ignore"\n'
        + 'types = { v = "fixed_size_list<float>[16]" }\npartitions = 4\n'
        + ADD
        + 'columns = { thumb = "thumb(image)" }\noverwrite = true\n'
    )
    append, merge, add = loaded(tmp_path, text).targets
    assert (merge.on, merge.deleted, merge.columns_left_out) == (("id",), "op = 'd'", ("op",))
    assert (merge.matched, merge.not_matched, merge.not_matched_by_source) == (
        "update",
        "ignore",
        "keep",
    )
    assert merge.types == {"v": "fixed_size_list<float>[16]"}
    assert (append.max_rows_per_file, merge.partitions) == (10, 4)
    assert (add.source, add.columns, add.overwrite) == (None, {"thumb": "thumb(image)"}, True)


@pytest.mark.parametrize(
    ("lines", "key", "told"),
    [
        ("[[checks]] #!", "", "takes one of sql, not_null, unique"),
        ('[[checks]]\nsql = "SELECT 1"\nunique = ["a"] #!', ".unique", "make two checks of it"),
        ('[[checks]]\nsql = "SELECT 1"\ntable = "t" #!', ".table", "does not go with sql"),
        ('[[checks]] #!\nunique = ["a"]', "", "the key 'table' is missing: unique needs it"),
        ('[[checks]]\ntable = "t"\nunique = [] #!', ".unique", "an empty list"),
        ('[[checks]]\ntable = "t"\nunique = ["a"]\ncolumn = "b" #!', ".column", "with unique"),
        ('[[checks]] #!\ntable = "t"\naccepted = ["a"]', "", "'column' is missing"),
        ('[[checks]]\ntable = "t"\ncolumn = "c"\naccepted = "a" #!', ".accepted", "a list of"),
        ('[[checks]]\ntable = "t"\ncolumn = "c"\naccepted = [nan] #!', ".accepted[0]", "number"),
        ('[[checks]]\ntable = "t"\ncolumn = "c"\naccepted = [[]] #!', ".accepted[0]", "empty list"),
        ('[[checks]]\ntable = "t"\nrows = {} #!', ".rows", "at least one of min, max"),
        ('[[checks]]\ntable = "t"\nrows = { least = 1 } #!', ".rows.least", "there is no such"),
        ('[[checks]]\ntable = "t"\nrows = { min = 2, max = 1 } #!', ".rows.max", "less than min"),
        (
            '[[checks]]\ntable = "t"\nrows = { least_change = 0.1, most_change = "5 %" } #!',
            ".rows.most_change",
            "0.05 is less than 0.1",
        ),
        ('[[checks]]\ntable = "t"\nrows = { most_change = 5 } #!', ".rows.most_change", '"5 %"'),
        ('[[checks]]\ntable = "t"\nrows = { most_change = "x" } #!', ".rows.most_change", "text"),
        ('[[checks]]\ntable = "t"\nrows.least_change = "-101 %" #!', ".rows.least_change", "-1 to"),
        ('[[checks]]\ntable = "t"\nrows = { least_change = nan } #!', ".rows.least_change", "nan"),
        ('[[checks]]\ntable = "t"\nrows.least_change = true #!', ".rows.least_change", "true"),
        ('[[checks]]\ntable = "t"\nschema = "same" #!', ".schema", "unchanged, widened"),
        ('[[checks]]\ntable = "t"\nschema = "widend" #!', ".schema", "did you mean 'widened'?"),
        ('[[checks]] #!\ntable = "t"\nreferences = {}', "", "'columns' is missing"),
        (
            '[[checks]]\ntable = "t"\ncolumns = ["a"]\nreferences = { table = "u" } #!',
            ".references",
            "'columns' is missing",
        ),
        (
            '[[checks]]\ntable = "t"\ncolumns = ["a"]\n'
            'references = { table = "u", columns = ["a", "b"] } #!',
            ".references.columns",
            "has 2 columns, and the check's own has 1",
        ),
        ('[[checks]]\nsql = "SELECT 1"\nname = "a/b" #!', ".name", "it has a '/'"),
        ('[[checks]]\nname = " a" #!\nsql = "SELECT 1"', ".name", "begins or ends with a space"),
        (f'[[checks]]\nname = "{"é" * 101}" #!\nsql = "SELECT 1"', ".name", "longer than"),
        ('[[checks]]\nname = "a\\tb" #!\nsql = "SELECT 1"', ".name", "not printed"),
        ('[[checks]]\nsql = "SELECT * FROM a.t" #!', ".sql", "published.<table>"),
        ('[[checks]]\nsql = "SELECT * FROM `-t`" #!', ".sql", "table name '-t'"),
        ('[[checks]]\nsql = "VALUES (1)" #!', ".sql", "is something else"),
        ('[[checks]]\nwarn = 1 #!\nsql = "SELECT 1"', ".warn", "true or false"),
    ],
)
def test_a_wrong_check_is_refused(tmp_path: Path, lines: str, key: str, told: str) -> None:
    assert told in refused(tmp_path, f"{GOOD}{lines}\n", f"checks[0]{key}")


@pytest.mark.parametrize("second", ['"a"', '"A"'])
def test_two_checks_do_not_have_one_name(tmp_path: Path, second: str) -> None:
    text = f'[[checks]]\nname = "a"\nsql = "SELECT 1"\n[[checks]]\nname = {second} #!\n'
    told = refused(tmp_path, f'{GOOD}{text}sql = "SELECT 2"\n', "checks[1].name")
    assert "give one of them another name" in told


def test_two_checks_without_names_do_not_look_at_one_thing(tmp_path: Path) -> None:
    twice = '[[checks]]\ntable = "t"\nnot_null = ["a"]'
    told = refused(tmp_path, f"{GOOD}{twice}\n{twice} #!\n", "checks[1].not_null")
    assert "there is a check 't.a not null' already" in told


def test_checks_of_every_kind_are_read(tmp_path: Path) -> None:
    text = """
[[checks]]
name = "no ghosts"
warn = true
sql = "SELECT * FROM animals JOIN published.`my-table` USING (id)"
[[checks]]
table = "t"
not_null = ["a", "b"]
[[checks]]
table = "t"
unique = ["a"]
[[checks]]
table = "t"
column = "kind/of"
accepted = ["cat", 1, 1.5, true, 2026-01-31]
[[checks]]
table = "t"
rows = { min = 1, max = 10, least_change = "-10 %", most_change = "1000 %" }
[[checks]]
table = "t"
schema = "widened"
[[checks]]
table = "t"
columns = ["a", "b"]
references = { table = "u", columns = ["x", "y"] }
"""
    checks = loaded(tmp_path, GOOD + text).checks
    assert [each.name for each in checks] == [
        "no ghosts",
        "t.a+b not null",
        "t.a unique",
        "t.kind_of accepted 4",
        "t rows",
        "t schema",
        "t.a+b references u",
    ]
    assert [each.is_warning for each in checks] == [True, *[False] * 6]
    sql, not_null, unique, accepted, rows, schema, references = checks
    assert isinstance(sql, SqlCheck)
    assert isinstance(not_null, NotNullCheck)
    assert not_null.columns == ("a", "b")
    assert isinstance(unique, UniqueCheck)
    assert isinstance(accepted, AcceptedCheck)
    assert accepted.values == ("cat", 1, 1.5, True, dt.date(2026, 1, 31))
    assert isinstance(rows, RowsCheck)
    assert (rows.least, rows.most, rows.least_change, rows.most_change) == (1, 10, -0.1, 10.0)
    assert isinstance(schema, SchemaCheck)
    assert schema.rule is SchemaRule.WIDENED
    assert isinstance(references, ReferenceCheck)
    assert (references.other, references.other_columns) == ("u", ("x", "y"))


@pytest.mark.parametrize(
    ("lines", "key", "told"),
    [
        ('[quarantine]\ntable = "a b" #!', "quarantine.table", "table name 'a b'"),
        ("[quarantine]\nmost_rows = -1 #!", "quarantine.most_rows", "from 0 to"),
        ("[quarantine]\nmost_share = 1.5 #!", "quarantine.most_share", "from 0 to 1"),
        ('[quarantine]\nmost_share = "101 %" #!', "quarantine.most_share", "at most 100 %"),
        ('[quarantine]\nmost_share = "-1 %" #!', "quarantine.most_share", "takes a share"),
        ("[quarantine]\nmost = 1 #!", "quarantine.most", "there is no such key"),
        ('[stream] #!\ntrigger = "1 second"', "stream", "the key 'source' is missing"),
        ('[stream]\nsource = "x" #!', "stream.source", "there are animals"),
        ('[stream] #!\nsource = "animals"', "stream", "the key 'trigger' is missing"),
        ('[stream]\nsource = "animals"\ntrigger = "now" #!', "stream.trigger", "no length of"),
        ('[stream]\nsource = "animals"\ntrigger = "once" #!', "stream.trigger", "'available-now'"),
        (
            '[stream]\nsource = "animals"\ntrigger = "availableNow" #!',
            "stream.trigger",
            "is written",
        ),
        ('[sources.x]\nsql = "SELECT 1"\n[stream]\nsource = "x" #!', "stream.source", "still"),
        ("[spark]\nmaster = 1 #!", "spark.master", "takes a text"),
        ('[spark] #!\nsql.x = "1"', "spark", "'sql.x' is no setting"),
        ('[spark] #!\nspark.master = "local"', "spark", "said by master="),
        ("[spark]\nspark.x = [1] #!", "spark.spark.x", "takes a text, a number"),
    ],
)
def test_the_small_sections_are_checked(tmp_path: Path, lines: str, key: str, told: str) -> None:
    assert told in refused(tmp_path, f"{GOOD}{lines}\n", key)


def test_what_is_new_is_said_by_the_stream_or_by_the_source(tmp_path: Path) -> None:
    text = HEAD + SOURCE + "incremental = true #!\n" + TARGET
    text += '[stream]\nsource = "animals"\ntrigger = "available-now"\n'
    assert "does not go with [stream]" in refused(tmp_path, text, "sources.animals.incremental")


def test_batches_of_a_stream_do_not_decide_conflicts(tmp_path: Path) -> None:
    text = GOOD + 'on_conflict = "theirs" #!\n'
    text += '[stream]\nsource = "animals"\ntrigger = "available-now"\n'
    assert "A batch begins anew instead" in refused(tmp_path, text, "targets[0].on_conflict")


@pytest.mark.parametrize(
    ("lines", "rows", "share"),
    [
        ("", 0, None),
        ('table = "bad"', 0, None),
        ("most_rows = 10", 10, None),
        ("most_share = 0.5", None, 0.5),
        ('most_share = "2.5 %"', None, 0.025),
        ("most_share = 1", None, 1.0),
        ('most_rows = 10\nmost_share = "100 %"', 10, 1.0),
    ],
)
def test_a_quarantine_without_limits_lets_nothing_pass(
    tmp_path: Path, lines: str, rows: int | None, share: float | None
) -> None:
    found = loaded(tmp_path, f"{GOOD}[quarantine]\n{lines}\n").quarantine
    assert (found.most_rows, found.most_share) == (rows, share)


def test_settings_of_spark_and_streams_are_read(tmp_path: Path) -> None:
    text = GOOD + '[spark]\nmaster = "local[2]"\nspark.ui.enabled = true\n"spark.x" = 2\n'
    text += '[stream]\nsource = "animals"\ntrigger = "available-now"\n'
    found = loaded(tmp_path, text)
    assert found.spark == {"master": "local[2]", "spark.ui.enabled": "true", "spark.x": "2"}
    assert found.stream is not None
    assert found.stream.trigger == "available-now"
    assert found.stream.checkpoint == f"{found.repository}/lancewood/streams/zoo"
    assert found.stream.options == {}
    more = loaded(tmp_path, text + "options = { maxFilesPerTrigger = 1, latestFirst = true }\n")
    assert more.stream is not None
    assert more.stream.options == {"maxFilesPerTrigger": "1", "latestFirst": "true"}


def test_a_stream_reads_one_path_and_every_batch_has_its_tag(tmp_path: Path) -> None:
    stream = '[stream]\nsource = "animals"\ntrigger = "available-now"\n'
    both = HEAD + '[sources.animals]\nformat = "csv"\npaths = ["a", "b"]\n' + TARGET
    told = refused(tmp_path, both + stream.replace("\ntrigger", " #!\ntrigger"), "stream.source")
    assert "has 2 paths" in told
    tagged = HEAD + 'tag = "v-{date}" #!\n' + SOURCE + TARGET + stream
    assert "put {run}" in refused(tmp_path, tagged, "pipeline.tag")
    assert loaded(tmp_path, tagged.replace("{date}", "{run}")).tag == "v-{run}"

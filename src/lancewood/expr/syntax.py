"""From a text to its checked syntax: one expression of DuckDB's, the columns and parameters that it
names, and nothing in it that is refused.

DuckDB parses; its tree is walked once. A node, a member of a node or a function that is not listed
here is refused by name, never passed over. Which columns there are, and which types, is not known
here. Values for ``$name``, ``$1`` and ``?`` become constants of DuckDB's.

A text has to mean the same rows whenever a job runs it again, so a function has to give one value
for one row: scalar, and independent of the clock, of chance, the session, files and the system.
What DuckDB says of its functions does not suffice: ``age`` with one argument and
``current_localtime`` are called consistent. So every name was looked at, and ``ALLOWED`` is the
list.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.expr.database import MAX_DEPTH, parsed

MAX_LENGTH = 100_000
"""The longest text, in characters. A longer list of values belongs in a parameter."""

_SELECT = "SELECT ("
_NEWLINE = "\n)"  # a comment at the end of the text ends before the parenthesis
_STATEMENTS = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "FROM")
_EVERYWHERE = frozenset({"class", "type", "alias", "query_location", "query_location_length"})
_MEMBERS = {
    "COLUMN_REF": {"column_names"},
    "CONSTANT": {"literal"},
    "PARAMETER": {"identifier"},
    "COMPARISON": {"left", "right"},
    "BETWEEN": {"input", "lower", "upper"},
    "CONJUNCTION": {"children"},
    "OPERATOR": {"children"},
    "CASE": {"case_checks", "else_expr"},
    "CAST": {"child", "try_cast", "type_expr"},
    "TYPE": {"type_name", "children", "qualified_name", "catalog", "schema"},
    "FUNCTION": {
        *("function_name", "arguments", "qualified_name", "order_bys", "is_operator"),
        *("catalog", "schema"),
    },
    "LAMBDA": {"lhs", "expr", "syntax_type"},
}
"""What is understood of each kind of node; other members have to be empty."""
_OPERATORS = """
    OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF
    OPERATOR_TRY COMPARE_IN COMPARE_NOT_IN ARRAY_EXTRACT ARRAY_SLICE STRUCT_EXTRACT
    ARRAY_CONSTRUCTOR
"""
_WITH_LAMBDAS = ("apply", "filter", "reduce", "transform")
_REFUSED = {
    "SUBQUERY": "a subquery reads other rows; compute it first and give its result as a parameter",
    "WINDOW": "a window function looks at other rows; use it in a query",
    "STAR": "* stands for several columns; name one",
    "POSITIONAL_REFERENCE": "a column has to be named",
    "COLLATE": "collations differ between systems; compare lower(…) or strip_accents(…)",
}


@dataclass(frozen=True, slots=True)
class Syntax:
    """One checked expression."""

    text: str
    node: dict[str, Any] = field(repr=False)
    """DuckDB's tree."""
    names: tuple[tuple[str, ...], ...]
    """The dotted names as they are written, without those of lambdas."""
    parameters: tuple[tuple[str, int, int], ...]
    """Each use of a parameter: its name, and where it stands in the UTF-8 bytes of the text."""

    @property
    def select(self) -> str:
        """The query for the expression's value, to which FROM can be added."""
        return f"{_SELECT}{self.text}{_NEWLINE}"


def shorten(sql: str, limit: int = 120) -> str:
    """``sql`` quoted for a message, shortened in the middle if it is long."""
    if len(sql) > limit:
        sql = f"{sql[: limit * 2 // 3]} … {sql[-limit // 4 :]}"
    return repr(sql)


def check_text(sql: str, what: str, most: int) -> None:
    """Raise InvalidInputError for what is no text, too long, not Unicode, or holds a NUL."""
    if not isinstance(sql, str):
        raise InvalidInputError(f"{what} is SQL text, not {type(sql).__name__}")
    if len(sql) > most:
        raise InvalidInputError(
            f"{what} has {len(sql):,} characters, {most:,} are allowed; "
            "pass long lists of values as a parameter: x IN $values"
        )
    try:
        sql.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"{shorten(sql)} holds half a character", sql=sql) from cause
    if "\0" in sql:
        raise InvalidInputError(f"{shorten(sql)} holds a NUL: leave it out", sql=sql)


@functools.lru_cache(maxsize=256)
def parse(sql: str) -> Syntax:
    """The syntax of one expression.

    Raises InvalidInputError for what is empty, too long, too deep, not Unicode, not SQL, more than
    one expression, and for every part of SQL that is refused.
    """
    check_text(sql, "the expression", MAX_LENGTH)
    if not sql.strip():
        raise InvalidInputError("the expression is empty; give a condition or value", sql=sql)
    try:
        return _Walk(sql).syntax(_tree(sql))
    except RecursionError:
        raise too_deep(sql) from None


def too_deep(sql: str) -> InvalidInputError:
    """The error for a text that nests too deeply."""
    return InvalidInputError(
        f"{shorten(sql)} nests too deeply: {MAX_DEPTH} levels are allowed", sql=sql
    )


def _tree(sql: str) -> dict[str, Any]:
    import duckdb

    try:
        answer = parsed(f"{_SELECT}{sql}{_NEWLINE}")
        if answer["error"]:
            raise duckdb.ParserException(answer["error_message"])
        duckdb.SQLExpression(sql)  # raises for what closes our parenthesis, as "a) OR (b"
    except duckdb.Error as cause:
        if "Max expression depth" in str(cause):
            raise too_deep(sql) from cause
        _not_sql(sql, str(cause), cause)
    (statement,) = answer["statements"]
    (node,) = statement["node"]["select_list"]
    if statement["node"]["from_table"]["type"] != "EMPTY" or node["alias"]:
        _not_sql(sql, "it is more than one expression", None)
    return dict(node)


def _not_sql(sql: str, reason: str, cause: Exception | None) -> NoReturn:
    reason = reason.split("\n", 1)[0].removeprefix("Parser Error: ")
    if "single expression" in reason:
        reason = "it is more than one expression"
    word = (sql.split(None, 1) or [""])[0].upper()
    if word in _STATEMENTS:
        reason = f"a whole {word} statement is not an expression; give only the condition or value"
    elif ";" in sql:
        reason += "; one expression is taken, not several statements"
    elif colon := re.search(r":([A-Za-z_]\w*)", sql):
        reason += f"; a parameter is written ${colon[1]}, not {colon[0]}"
    raise InvalidInputError(f"cannot read {shorten(sql)} as SQL: {reason}", sql=sql) from cause


class _Walk:
    """One walk through DuckDB's tree."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._names: dict[tuple[str, ...], None] = {}
        self._parameters: list[tuple[str, int, int]] = []

    def syntax(self, node: dict[str, Any]) -> Syntax:
        """The syntax of the text, whose tree is ``node``."""
        self._visit(node, frozenset())
        return Syntax(self._sql, node, tuple(self._names), tuple(self._parameters))

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidInputError(f"{shorten(self._sql)} is refused: {reason}", sql=self._sql)

    def _visit(self, node: dict[str, Any], bound: frozenset[str]) -> None:
        """Check a node and what is below it; ``bound`` are the parameters of lambdas around it."""
        kind = node["class"]
        known = _MEMBERS.get(kind)
        if known is None:
            self._refuse(_REFUSED.get(kind, f"{kind} has no place in an expression"))
        for name, value in node.items():
            if value and name not in known and name not in _EVERYWHERE:
                self._refuse(f"{name.replace('_', ' ')} has no place in an expression")
        match kind:
            case "COLUMN_REF":
                names = tuple(node["column_names"])
                if names[0].lower() not in bound:
                    self._names[names] = None
            case "CONSTANT" if node["literal"]["kind"] == "NUMERIC":
                if math.isinf(float(node["literal"]["text"].replace("_", ""))):
                    self._refuse(f"{node['literal']['text']} is too large for a DOUBLE")
            case "PARAMETER":
                start = node["query_location"] - len(_SELECT)
                end = start + node["query_location_length"]
                self._parameters.append((node["identifier"], start, end))
            case "FUNCTION":
                self._function(node, bound)
            case "LAMBDA" if node["syntax_type"] == "SINGLE_ARROW":  # reaches into JSON
                self._visit_all((node["lhs"], node["expr"]), bound)
            case "LAMBDA":
                self._visit(node["expr"], bound | self._lambda_names(node["lhs"]))
            case "CASE":
                for check in node["case_checks"]:
                    self._visit_all((check["when_expr"], check["then_expr"]), bound)
                self._visit(node["else_expr"], bound)
            case "OPERATOR" if node["type"] not in _OPERATORS.split():
                self._refuse(f"{node['type']} has no place in an expression")
            case "TYPE" if len(node["qualified_name"]["path"]) != 1:
                self._refuse(f"the type {'.'.join(node['qualified_name']['path'])} is unknown")
            case _:
                below = [node.get(name) for name in ("left", "right", "input", "lower", "upper")]
                below += [node.get("child"), node.get("type_expr"), *node.get("children", ())]
                self._visit_all([each for each in below if each], bound)

    def _visit_all(self, nodes: Sequence[dict[str, Any]], bound: frozenset[str]) -> None:
        for node in nodes:
            self._visit(node, bound)

    def _function(self, node: dict[str, Any], bound: frozenset[str]) -> None:
        path, name = node["qualified_name"]["path"], node["function_name"].lower()
        if len(path) != 1:
            self._refuse(f"write {path[-1]}({'.'.join(path[:-1])}), not {'.'.join(path)}()")
        if name not in ALLOWED:
            if name in CHANGING:
                self._refuse(f"{name} gives another value at each run, and {SAME_VALUE}")
            self._refuse(
                f"{name} is not a function for conditions and expressions: allowed are DuckDB's "
                "scalar functions whose value depends on the row alone (docs/where.md lists them)"
            )
        if name == "age" and len(node["arguments"]) == 1:
            self._refuse(f"age with one argument counts from today, and {SAME_VALUE}")
        if node["order_bys"]["orders"]:
            self._refuse("ORDER BY has no place in an expression")
        below = [each["expression"] for each in node["arguments"]]
        if name.endswith(_WITH_LAMBDAS) and any(
            each["class"] == "LAMBDA" and each["syntax_type"] == "SINGLE_ARROW" for each in below
        ):
            self._refuse(f"{name} takes a lambda as DuckDB 2 writes it: lambda x: x + 1")
        self._visit_all(below, bound)

    def _lambda_names(self, node: dict[str, Any]) -> frozenset[str]:
        """The parameters on the left of a lambda: one name, or several as a row."""
        parts = [each["expression"] for each in node.get("arguments", ())] or [node]
        names = [each.get("column_names", ()) for each in parts]
        if any(len(each) != 1 for each in names):
            self._refuse("the parameters of a lambda are plain names")
        return frozenset(each[0].lower() for each in names)


Parameters: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Values for ``$name`` (a mapping), or for ``?`` and ``$1`` (a sequence)."""

_MOST_WRITTEN = 100
"""How many values of a list are written as constants."""

_SCALARS = (bool, int, float, str, bytes, Decimal, date, time, timedelta, UUID)
_MOST_DIGITS = 38
_INT32, _INT64 = 1 << 31, 1 << 63


def kept(parameters: Parameters) -> Parameters:
    """The parameters as plain Python values; raises InvalidInputError for what are none, and for a
    value that DuckDB has no constant for."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {name: _plain(value, str(name)) for name, value in parameters.items()}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidInputError(
            "parameters are a mapping for $name, or a list for $1 and ?, not "
            f"{type(parameters).__name__}"
        )
    return tuple(_plain(value, str(at)) for at, value in enumerate(parameters, 1))


def given_values(syntax: Syntax, parameters: Parameters) -> dict[str, Any]:
    """The value of every parameter that a text names, as DuckDB takes it.

    A mapping may hold others too. Raises InvalidInputError for one that is missing, and for values
    left over in a list.
    """
    names = list(dict.fromkeys(name for name, _, _ in syntax.parameters))
    known = dict(parameters) if isinstance(parameters, Mapping) else {}
    if isinstance(parameters, Sequence):
        known = {str(number): value for number, value in enumerate(parameters, 1)}
        most = max((int(name) for name in names if name.isdecimal()), default=0)
        if len(known) > most and (most or not names):
            raise InvalidInputError(
                f"{len(known)} parameters are given, the text names {most}", sql=syntax.text
            )
    for name in names:
        if name not in known:
            given = f"given are {', '.join(map(repr, known))}" if known else "none is given"
            way = "" if name.isdecimal() or isinstance(parameters, Mapping | None) else " by name"
            raise InvalidInputError(
                f"there is no parameter {name!r}: {given}{way}", sql=syntax.text
            )
    return {name: known[name] for name in names}


def written(syntax: Syntax, values: Mapping[str, Any]) -> str | None:
    """The text with constants in the place of its parameters, but for long lists, which stay
    parameters of a known type; None where a value has no constant."""
    text = syntax.text.encode()
    for name, start, end in sorted(syntax.parameters, key=lambda each: -each[1]):
        value = values[name]
        is_long = isinstance(value, list) and len(value) > _MOST_WRITTEN
        constant = None if is_long else _constant(value)
        if is_long:
            kinds = {type(each) for each in value} - {type(None)}
            kind = "HUGEINT" if kinds == {int} else "VARCHAR" if kinds == {str} else None
            constant = None if kind is None else f"CAST(${name} AS {kind}[])"
        if constant is None or text[start:end] not in (b"?", f"${name}".encode()):
            return None
        text = text[:start] + constant.encode() + text[end:]
    return text.decode()


def _constant(value: Any) -> str | None:
    import duckdb

    if isinstance(value, list):
        found = [_constant(each) for each in value]
        return None if any(each is None for each in found) else f"[{', '.join(map(str, found))}]"
    if isinstance(value, dict) or (isinstance(value, str) and not value.isprintable()):
        return None
    try:
        constant = str(duckdb.ConstantExpression(value))
    except (duckdb.Error, TypeError, ValueError):
        return None
    if type(value) is int and -_INT64 <= value < _INT64:
        # As a parameter it has a type; a number that is written takes that of what it meets.
        is_small = -_INT32 <= value < _INT32
        return f"CAST({constant} AS {'INTEGER' if is_small else 'BIGINT'})"
    return constant


def _plain(value: Any, name: str) -> Any:
    """A value as Python's own: scalars and arrays of pyarrow and numpy are taken apart."""
    try:
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        elif isinstance(value, pa.Array | pa.ChunkedArray):
            value = value.to_pylist()
        elif hasattr(value, "dtype") and hasattr(value, "tolist"):
            value = value.tolist()
        elif isinstance(value, tuple | range):
            value = list(value)
    except (pa.ArrowException, ValueError, OverflowError, MemoryError) as cause:
        raise InvalidInputError(f"parameter {name!r} has no value in Python: {cause}") from cause
    if isinstance(value, list):
        return [_plain(each, name) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each, name) for key, each in value.items()}
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as cause:
            raise InvalidInputError(f"parameter {name!r} holds half a character") from cause
    if isinstance(value, int) and not -(1 << 127) <= value < 1 << 127:
        raise InvalidInputError(f"parameter {name!r} is a number of more than 128 bits: {value}")
    if isinstance(value, Decimal) and value.is_finite():
        _, digits, exponent = value.as_tuple()
        if max(len(digits) + int(exponent), len(digits), -int(exponent)) > _MOST_DIGITS:
            raise InvalidInputError(f"parameter {name!r} has more than 38 digits: {value}")
    if value is not None and not isinstance(value, _SCALARS):
        raise InvalidInputError(
            f"parameter {name!r} is a value of type {type(value).__name__}, which cannot be a SQL "
            "constant"
        )
    return value


_FUNCTIONS = """
    + - * / // % ** ^ & | ~ << >> || @ !__postfix ~~ !~~ ~~* !~~* ~~~ ^@ && @> <@ <-> <=> -> ->>
    abs acos acosh add asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot
    degrees divide even exp factorial fdiv floor fmod gamma gcd greatest_common_divisor hex isfinite
    isinf isnan lcm least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow
    power radians round round_even roundbankers sign signbit sin sinh sqrt subtract tan tanh to_base
    to_binary to_hex trunc xor
    greatest least if nullif typeof
    array_to_string ascii bar base64 bit_length char_length character_length chr concat concat_ws
    contains damerau_levenshtein decode editdist3 encode ends_with format format_bytes
    formatreadabledecimalsize formatreadablesize from_base64 from_binary from_hex get_bit hamming
    ilike_escape instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme
    length length_grapheme levenshtein like_escape lower lpad ltrim md5 md5_number md5_number_lower
    md5_number_upper mismatches nfc_normalize not_ilike_escape not_like_escape octet_length ord
    overlay parse_formatted_bytes position prefix printf regexp_escape regexp_extract
    regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array repeat
    replace reverse right right_grapheme rpad rtrim sha1 sha256 split split_part starts_with
    str_split str_split_regex string_split string_split_regex string_to_array strip_accents strlen
    strpos substr substring substring_grapheme suffix to_base64 translate trim ucase unbin unhex
    unicode upper url_decode url_encode
    bit_position bitstring set_bit
    age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc
    day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us
    era hour isodow isoyear julian last_day make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns make_timestamptz microsecond millennium millisecond minute month monthname
    nanosecond normalized_interval quarter second strftime strptime time_bucket timezone
    timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
    to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
    to_years try_strptime week weekday weekofyear year yearweek
    apply array_cross_product array_length array_pop_back array_pop_front array_push_back
    array_push_front filter flatten generate_series grade_up len list_any_value list_avg
    list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_count list_element
    list_entropy list_first list_histogram list_kurtosis list_kurtosis_pop list_last list_mad
    list_max list_median list_min list_mode list_pack list_product list_sem list_skewness
    list_stddev_pop list_stddev_samp list_string_agg list_sum list_var_pop list_var_samp range
    reduce
    cardinality element_at map map_concat map_contains map_contains_entry map_contains_value
    map_entries map_extract map_extract_value map_from_entries map_keys map_values row struct_concat
    struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
    struct_keys struct_pack struct_position struct_update struct_values
    array_to_json json_array json_array_length json_contains json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch
    json_object json_quote json_structure json_type json_valid json_value row_to_json to_json
    uuid_extract_timestamp uuid_extract_version
"""
_LISTS_AND_ARRAYS = """
    append apply cat concat contains cosine_distance cosine_similarity distance distinct
    dot_product extract filter grade_up has has_all has_any indexof inner_product intersect
    negative_dot_product negative_inner_product position prepend reduce resize reverse
    reverse_sort select slice sort transform unique value where zip
"""
"""What follows ``list_`` in the name of one function, and ``array_`` in that of another."""

ALLOWED = frozenset(
    [
        *_FUNCTIONS.split(),
        *(kind + name for name in _LISTS_AND_ARRAYS.split() for kind in ("list_", "array_")),
    ]
)
"""The names, in lower case: of signs, numbers, choices, texts, bits, moments, lists, structs and
maps, JSON."""

_CHANGING = """
    ago current_date current_localtime current_localtimestamp current_time current_timestamp
    gen_random_uuid get_current_time get_current_timestamp localtime localtimestamp now random
    setseed today transaction_timestamp txid_current uuid uuidv4 uuidv7
"""
CHANGING = frozenset(_CHANGING.split())
"""Functions whose value depends on the clock or on chance."""

SAME_VALUE = (
    "a text has to mean the same rows when a job runs it again; give the value as a parameter"
)


def unknown_hint(name: str) -> str:
    """What to say of a name that is no column; empty if there is nothing to add."""
    if name.lower() in CHANGING:
        return f"; {name} would give another value at each run, and {SAME_VALUE}."
    return ""

"""The functions of DuckDB that a condition or expression may call.

A text has to mean the same rows whenever a job runs it again, so a function has to give one value
for one row: scalar, and independent of the clock, of chance, the session, files and the system.
What DuckDB says of its functions does not suffice: ``age`` with one argument and
``current_localtime`` are called consistent. So every name was looked at, and this is the list.
"""

from __future__ import annotations

_OPERATORS = """
    + - * / // % ** ^ & | ~ << >> || @ !__postfix ~~ !~~ ~~* !~~* ~~~ ^@ && @> <@ <-> <=> -> ->>
"""
_NUMBERS = """
    abs acos acosh add asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot
    degrees divide even exp factorial fdiv floor fmod gamma gcd greatest_common_divisor hex isfinite
    isinf isnan lcm least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow
    power radians round round_even roundbankers sign signbit sin sinh sqrt subtract tan tanh to_base
    to_binary to_hex trunc xor
"""
_CHOICES = "greatest least if nullif typeof"
_TEXTS = """
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
"""
_BITS = "bit_position bitstring set_bit"
_MOMENTS = """
    age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc
    day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us
    era hour isodow isoyear julian last_day make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns make_timestamptz microsecond millennium millisecond minute month monthname
    nanosecond normalized_interval quarter second strftime strptime time_bucket timezone
    timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
    to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
    to_years try_strptime week weekday weekofyear year yearweek
"""
_LISTS = """
    apply array_cross_product array_length array_pop_back array_pop_front array_push_back
    array_push_front filter flatten generate_series grade_up len list_any_value list_avg
    list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_count list_element
    list_entropy list_first list_histogram list_kurtosis list_kurtosis_pop list_last list_mad
    list_max list_median list_min list_mode list_pack list_product list_sem list_skewness
    list_stddev_pop list_stddev_samp list_string_agg list_sum list_var_pop list_var_samp range
    reduce
"""
_LISTS_AND_ARRAYS = """
    append apply cat concat contains cosine_distance cosine_similarity distance distinct
    dot_product extract filter grade_up has has_all has_any indexof inner_product intersect
    negative_dot_product negative_inner_product position prepend reduce resize reverse
    reverse_sort select slice sort transform unique value where zip
"""
"""What follows ``list_`` in the name of one function, and ``array_`` in that of another."""
_STRUCTS_AND_MAPS = """
    cardinality element_at map map_concat map_contains map_contains_entry map_contains_value
    map_entries map_extract map_extract_value map_from_entries map_keys map_values row struct_concat
    struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
    struct_keys struct_pack struct_position struct_update struct_values
"""
_JSON_AND_UUIDS = """
    array_to_json json_array json_array_length json_contains json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_keys json_merge_patch
    json_object json_quote json_structure json_type json_valid json_value row_to_json to_json
    uuid_extract_timestamp uuid_extract_version
"""

ALLOWED = frozenset(
    " ".join(
        (
            *(_OPERATORS, _NUMBERS, _CHOICES, _TEXTS, _BITS, _MOMENTS, _LISTS),
            *(f"list_{name} array_{name}" for name in _LISTS_AND_ARRAYS.split()),
            *(_STRUCTS_AND_MAPS, _JSON_AND_UUIDS),
        )
    ).split()
)
"""The names, in lower case."""

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


def refusal(name: str) -> str:
    """Why a function that is not allowed is refused."""
    if name in CHANGING:
        return f"{name} gives another value at each run, and {SAME_VALUE}"
    return (
        f"{name} is not a function for conditions and expressions: allowed are DuckDB's scalar "
        "functions whose value depends on the row alone (docs/where.md lists them)"
    )


def unknown_hint(name: str) -> str:
    """What to say of a name that is no column; empty if there is nothing to add."""
    if name.lower() in CHANGING:
        return f"; {name} would give another value at each run, and {SAME_VALUE}."
    return ""

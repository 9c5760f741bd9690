"""The sections ``[steps.<name>]`` and ``[functions.<name>]``: what is computed.

Knows how SQL and Python functions are named. Imports no function and analyses no SQL.
"""

from __future__ import annotations

from lancewood.pipeline.definition.model import Function, Step
from lancewood.pipeline.definition.names import checked_frame, checked_function, checked_python
from lancewood.pipeline.definition.queries import parsed_query
from lancewood.pipeline.definition.refusal import told_at, wrong
from lancewood.pipeline.definition.rejects import read_rejects
from lancewood.pipeline.definition.section import Section

STEP_KEYS = ("sql", "python", "inputs", "arguments", "bad", "reject")
FUNCTION_KEYS = ("python", "returns")


def read_steps(top: Section) -> tuple[Step, ...]:
    """Every step, in the order of the file."""
    above = top.needed_table("steps", None)
    return tuple(_step(name, above) for name in above.names())


def read_functions(top: Section) -> tuple[Function, ...]:
    """Every function, in the order of the file; SQL does not tell upper and lower case apart."""
    above = top.needed_table("functions", None)
    seen: dict[str, str] = {}
    found = []
    for name in above.names():
        spot = above.spot.at(name)
        with told_at(spot):
            checked_function(name)
        if seen.setdefault(name.casefold(), name) != name:
            raise wrong(spot, f"is the same name as {seen[name.casefold()]!r} to SQL")
        section = above.needed_table(name, FUNCTION_KEYS)
        found.append(Function(name, section.spot, _python(section), section.needed_text("returns")))
    return tuple(found)


def _step(name: str, above: Section) -> Step:
    with told_at(above.spot.at(name)):
        checked_frame(name)
    section = above.needed_table(name, STEP_KEYS)
    if ("sql" in section) == ("python" in section):
        raise wrong(section.spot, "takes either sql or python")
    bad, rejects = section.text("bad"), read_rejects(section)
    if "sql" in section:
        for key in ("inputs", "arguments"):
            if key in section:
                raise section.wrong(key, "goes with python: SQL names its frames itself")
        sql = section.needed_sql("sql")
        with told_at(section.spot.at("sql")):
            parsed_query(sql)
        return Step(name, section.spot, sql=sql, bad=bad, rejects=rejects)
    if "inputs" not in section:
        raise wrong(section.spot, "the key 'inputs' is missing: the frames that python gets")
    return Step(
        name,
        section.spot,
        python=_python(section),
        inputs=section.texts("inputs"),
        arguments=_arguments(section),
        bad=bad,
        rejects=rejects,
    )


def _python(section: Section) -> str:
    found = section.needed_text("python")
    with told_at(section.spot.at("python")):
        return checked_python(found)


def _arguments(section: Section) -> dict[str, object]:
    found = section.table("arguments", None)
    if found is None:
        return {}
    for name in found.names():
        if not name.isidentifier():
            raise found.wrong(name, "is no name of an argument in Python")
    return {name: found.value(name) for name in found.names()}

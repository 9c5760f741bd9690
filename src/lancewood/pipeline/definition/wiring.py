"""Which frame needs which: every name leads to a frame, and none leads back to itself.

Knows the names in SQL and in the keys ``from`` and ``inputs``. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Source, Spot, Step, Target
from lancewood.pipeline.definition.queries import parsed_query, qualified_name, tables_in
from lancewood.pipeline.definition.refusal import near, told_at, wrong


def check_wiring(
    sources: Sequence[Source], steps: Sequence[Step], targets: Sequence[Target]
) -> None:
    """Raises InvalidInputError for the first name that leads nowhere, or in a circle."""
    frames: list[Source | Step] = [*sources, *steps]
    _check_twice(frames)
    source_names = [each.name for each in sources]
    names = [*source_names, *(each.name for each in steps)]
    needs: dict[str, tuple[str, ...]] = {}
    for source in sources:
        needs[source.name] = _in_sql(source.sql, source.spot, source_names)
    for step in steps:
        needs[step.name] = _in_sql(step.sql, step.spot, names) + step.inputs
        for index, name in enumerate(step.inputs):
            _check_known(name, names, step.spot.at("inputs", index))
    _check_circles(needs, {each.name: each.spot for each in frames})
    for target in targets:
        if target.source is not None:
            _check_known(target.source, names, target.spot.at("from"))


def frames_in(sql: str, names: Iterable[str]) -> tuple[str, ...]:
    """The frames that a query reads, each as often as it stands there, spelt as they are known:
    SQL does not tell upper and lower case apart.

    Raises InvalidInputError for what is not one SELECT, and for a name that is none of the frames:
    also for one with a qualifier, which would be a table of Spark's catalog.
    """
    known = {each.casefold(): each for each in names}
    found = []
    for table in tables_in(parsed_query(sql)):
        name = qualified_name(table)
        if table.db or name.casefold() not in known:
            raise InvalidInputError(
                f"there is no source or step {name!r} that this SQL could read: "
                f"{near(name, known.values())} (a table of the repository needs a source of its "
                "own, with the key table)"
            )
        found.append(known[name.casefold()])
    return tuple(found)


def _in_sql(sql: str | None, spot: Spot, names: Iterable[str]) -> tuple[str, ...]:
    if sql is None:
        return ()
    with told_at(spot.at("sql")):
        return frames_in(sql, names)


def _check_known(name: str, names: Sequence[str], spot: Spot) -> None:
    if name not in names:
        raise wrong(spot, f"there is no source or step {name!r}: {near(name, names)}")


def _check_twice(frames: Sequence[Source | Step]) -> None:
    seen: dict[str, Spot] = {}
    for each in frames:
        first = seen.setdefault(each.name.casefold(), each.spot)
        if first is not each.spot:
            raise wrong(each.spot, f"is the same name as {first.key} to SQL: take another")


def _check_circles(needs: Mapping[str, tuple[str, ...]], spots: Mapping[str, Spot]) -> None:
    done: set[str] = set()
    for start in needs:
        stack = [(start, iter(needs[start]))] if start not in done else []
        path = [start]
        while stack:
            name, rest = stack[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif following in path:
                circle = [*path[path.index(following) :], following]
                raise wrong(
                    spots[following], f"needs itself: {' needs '.join(circle)}; break the circle"
                )
            else:
                path.append(following)
                stack.append((following, iter(needs[following])))

"""Whether operations can be in one transaction, as consecutive versions.

All of them were built on one version. A later one therefore has a fragment's state from before the
earlier ones, and would undo what they did to it. Staged operations were each built on the one
before, and count as such a list if none names what an earlier one made. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lancewood.errors import InvalidInputError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import ManifestHead
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Restore,
    Rewrite,
    Update,
    operation_name,
)
from lancewood.proto import table_pb2
from lancewood.rules.numbering import next_fragment_id
from lancewood.rules.overlaps import touched_fragments


def check_list(operations: Sequence[Operation]) -> None:
    """Raise InvalidInputError if two of the operations change the same fragment."""
    found = _both_change(operations)
    if found is not None:
        first, second, number = found
        raise InvalidInputError(
            f"{operation_name(first)} and {operation_name(second)} of one "
            f"transaction both change fragment {number}, as it was before either; commit "
            "the first, and build the second on the version after it",
            fragment=number,
        )


def dependence(base: ManifestHead, operations: Sequence[Operation]) -> str | None:
    """Why operations, each built on the state that the one before made of ``base``, could not all
    have been built on ``base``; None if they could."""
    found = _both_change(operations)
    if found is not None:
        first, second, number = found
        names = f"{operation_name(first)} and {operation_name(second)}"
        return f"{names} both change fragment {number}"
    known, file_roots = next_fragment_id(base), {each.id for each in base.base_paths}
    for each in operations:
        name = operation_name(each)
        made = max(_named_fragments(each), default=-1)
        if made >= known:
            return f"{name} rests on fragment {made}, which an earlier step made"
        if isinstance(each, Restore) and each.version > base.version:
            return f"{name} goes back to version {each.version}, which is an earlier step"
        for file in _new_files(each):
            if file.HasField("base_id") and file.base_id not in file_roots:
                return (
                    f"{name} keeps files at base path {file.base_id}, which an earlier step added"
                )
    return None


def _both_change(
    operations: Sequence[Operation],
) -> tuple[Operation, Operation, FragmentId] | None:
    """Two operations that change the same fragment."""
    if len(operations) < 2:
        return None
    changed: dict[FragmentId, int] = {}
    for at, each in enumerate(operations):
        for number in _changed_fragments(each):
            first = changed.setdefault(number, at)
            if first != at:
                return operations[first], each, number
    return None


def _changed_fragments(operation: Operation) -> frozenset[FragmentId]:
    if isinstance(operation, Merge):
        return frozenset(each.id for each in operation.fragments)
    return touched_fragments(operation)


def _named_fragments(operation: Operation) -> Iterator[int]:
    """Fragments that must exist before the operation, or whose ids must have been reserved."""
    yield from _changed_fragments(operation)
    if isinstance(operation, Rewrite):
        yield from (each.id for group in operation.groups for each in group.new_fragments)
    elif isinstance(operation, CreateIndex):
        yield from (each.fragments.max() for each in operation.new_indices if each.fragments)


def _new_files(operation: Operation) -> Iterator[table_pb2.DataFile]:
    fragments: Iterable[Fragment] = ()
    match operation:
        case Append(fragments=new) | Overwrite(fragments=new) | Merge(fragments=new):
            fragments = new
        case Delete(updated_fragments=changed):
            fragments = changed
        case Update(updated_fragments=changed, new_fragments=new):
            fragments = (*changed, *new)
        case Rewrite(groups=groups):
            fragments = (each for group in groups for each in group.new_fragments)
        case DataReplacement(replacements=replacements):
            yield from (each.new_file.message for each in replacements)
    for fragment in fragments:
        yield from fragment.message.files

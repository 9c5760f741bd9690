"""What the work on a branch comes to: its first version beside its head, fragment by fragment.

Fragments are compared as bytes, and only those that differ are decoded. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lancewood.jobs.publishing.work import MARKS
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import Manifest, ManifestHead, decode_fragment
from lancewood.model.rowids import FIRST_VERSION, RowVersions
from lancewood.rules.three_way import same_fields


@dataclass(frozen=True, slots=True)
class Changed:
    """A fragment that both versions have, and that is another one now."""

    then: Fragment
    now: Fragment


@dataclass(frozen=True, slots=True)
class Net:
    """Fragments that came, changed and went; sorted by id."""

    added: Sequence[Fragment]
    changed: Sequence[Changed]
    removed: Sequence[Fragment]

    def with_marks(self, marks: dict[FragmentId, RowVersions]) -> Net:
        """The same with other versions that last changed the rows of some fragments; a fragment
        that is then as it was has not changed."""

        def marked(fragment: Fragment) -> Fragment:
            found = marks.get(fragment.id)
            return fragment if found is None else fragment.stamped(found)

        changed = [Changed(each.then, marked(each.now)) for each in self.changed]
        return replace(
            self,
            added=[marked(each) for each in self.added],
            changed=[each for each in changed if not _is_same(each)],
        )


def find_net(first: Manifest, head: Manifest) -> Net:
    """What became of the fragments of ``first`` in ``head``."""
    before, after = set(first.message.fragments), set(head.message.fragments)
    old = {
        each.id: each
        for raw in first.message.fragments
        if raw not in after
        for each in [Fragment(decode_fragment(raw, first.name))]
    }
    new = [
        Fragment(decode_fragment(raw, head.name))
        for raw in head.message.fragments
        if raw not in before
    ]
    live = frozenset(FieldId(each.id) for each in head.fields)
    changed = [Changed(old.pop(each.id), each) for each in new if each.id in old]
    known = {each.now.id for each in changed}
    return Net(
        added=[each for each in new if each.id not in known],
        changed=[each for each in changed if each.now != each.then.without_dead_files(live)],
        removed=list(old.values()),
    )


def is_head_same(first: ManifestHead, head: ManifestHead) -> bool:
    """Whether all but the fragments is what it was: schema, maps, indices, base paths."""
    one, other = first.message, head.message
    return (
        same_fields(first.fields, head.fields)
        and one.schema_metadata == other.schema_metadata
        and one.table_metadata == other.table_metadata
        and open_config(first) == open_config(head)
        and [each.message for each in first.indices] == [each.message for each in head.indices]
        and len(one.base_paths) == len(other.base_paths)
    )


def open_config(head: ManifestHead) -> dict[str, str]:
    """The configuration without what says who may write, which is the branch's alone."""
    return {key: value for key, value in head.config.items() if key not in MARKS}


def _is_same(changed: Changed) -> bool:
    """Whether nothing but the encoding of marks differs."""
    then, now = changed.then, changed.now
    if then.files != now.files or then.deletion_file != now.deletion_file:
        return False
    if then.lineage("row_ids") != now.lineage("row_ids"):
        return False
    if then.lineage("created_at_versions") != now.lineage("created_at_versions"):
        return False
    return updated_at(then) == updated_at(now)


def updated_at(fragment: Fragment) -> RowVersions:
    """The version that last changed each row, spelled out where a writer left it out."""
    found = fragment.last_updated_at
    return RowVersions.uniform(FIRST_VERSION, fragment.physical_rows) if found is None else found

"""Whether the work on a branch goes together with what happened on its target since the fork.

Every operation of the one is judged by every operation of the other, by the rules of any commit. A
conflict is told with both operations and versions. Reads nothing.
"""

from __future__ import annotations

from pyroaring import BitMap

from lancewood.errors import ConflictError, IncompatibleConflictError, RetryableConflictError
from lancewood.jobs.merge_into.keys import primary_key
from lancewood.jobs.publish.branch_work import (
    BranchStep,
    BranchWork,
    held_in,
    in_common,
    only_marks,
)
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.refs import called
from lancewood.model.transaction import (
    Clone,
    DataReplacement,
    Merge,
    MissingTransaction,
    Operation,
    Overwrite,
    Project,
    Restore,
    Transaction,
    UnknownOperation,
    Update,
    operation_name,
    operation_text,
)
from lancewood.rules import overlaps
from lancewood.rules.columns import (
    ColumnWatch,
    DroppedColumns,
    IdReuse,
    RowsBornAgain,
    given_fields,
)
from lancewood.rules.conflicts import RULES, judge_operations
from lancewood.rules.moves import moves_files
from lancewood.rules.overlaps import COMPATIBLE, Outcome, Verdict, severest
from lancewood.rules.three_way import common_part


class OperationJudge:
    """Sees the target's versions since the fork, the oldest first."""

    def __init__(self, work: BranchWork) -> None:
        self._work = work
        self._last = work.first.manifest.max_fragment_id
        operations = [each.operation for each in work.steps]
        self._columns = ColumnWatch(work.first.manifest.fields, operations)
        self.reuse = IdReuse(work.first.manifest.fields, operations)
        self._dropped = DroppedColumns(work.first.manifest.fields, work.head.manifest.fields)
        self._is_keyed = bool(primary_key(work.first.schema))
        self._born_again = RowsBornAgain(operations), RowsBornAgain()
        """What the branch did, and what the target did."""
        self._mine: dict[type, list[BranchStep]] = {}
        for each in work.steps:
            step = BranchStep(each.version, common_part(each.operation, self._last))
            self._mine.setdefault(type(step.operation), []).append(step)
        self.rewritten: set[FragmentId] = set()
        """Fragments of which the target has written columns anew."""
        self.given: set[FieldId] | None = set()
        """Columns in which the target gave rows other values; None where it does not say."""
        self.has_merged = False
        """Whether columns of any fragment may come from other files on the target now."""
        self.has_seen = False
        """Whether the target moved at all."""

    @property
    def replaces_all(self) -> BranchStep | None:
        """The step of the branch after which nothing is as it was, if there is one."""
        for each in self._work.steps:
            if isinstance(each.operation, Overwrite | Restore):
                return each
        return None

    def see(self, theirs: Transaction, version: Version) -> None:
        """Raises ConflictError if the work does not go together with that version."""
        self.has_seen = True
        twice = in_common(self._work.held, held_in(theirs))
        if twice is not None:
            raise IncompatibleConflictError(
                f"{self._refused()}: version {version} of the target holds work of "
                f"{called(twice.branch)} up to version {twice.until} already, and it would be "
                "there twice; bring over what is missing with branches.merge()",
                branch=self._work.branch,
                version=version,
            )
        for operation in theirs.operations:
            if only_marks(operation):
                continue
            self._check_understood(operation, version)
            self._look(common_part(operation, self._last), version)
            columns = severest(
                (
                    self._columns.see(operation),
                    self.reuse.see(operation),
                    self._see_born_again(operation),
                )
            )
            if columns.outcome is not Outcome.COMPATIBLE:
                raise self._refusal(None, operation, version, columns)
            lost = self._dropped.see(operation)
            if lost.outcome is not Outcome.COMPATIBLE:
                steps = (each for each in self._work.steps if self._dropped.is_by(each.operation))
                raise self._refusal(next(steps, None), operation, version, lost)
            self._note(operation)

    def conflict(self, newest: Version, conflict: ConflictError) -> ConflictError:
        """A conflict that only a look at fragments told, in the words of a refusal."""
        return type(conflict)(
            f"{self._refused()}: the target's changes up to version {newest} and its own do not "
            f"go together: {conflict.message}; {self._way_out(newest)}",
            **{**conflict.facts, "version": newest, "branch": self._work.branch},
        )

    def _see_born_again(self, theirs: Operation) -> Verdict:
        if not self._is_keyed:
            return COMPATIBLE
        ours, others = self._born_again
        others.see(theirs)
        verdict = others.judge(self._dropped)
        if verdict is COMPATIBLE and isinstance(theirs, Merge | Project):
            verdict = ours.judge(DroppedColumns(self._work.first.manifest.fields, theirs.fields))
        return verdict

    def _check_understood(self, theirs: Operation, version: Version) -> None:
        because = ""
        if isinstance(theirs, MissingTransaction | UnknownOperation):
            because = judge_operations(theirs, theirs).reason
        elif isinstance(theirs, Clone):
            because = "the target was begun anew there"
        elif self.replaces_all is not None:
            because = "what replaces the whole table can only follow the version it is based on"
        if because:
            verdict = Verdict(Outcome.INCOMPATIBLE, because)
            raise self._refusal(self.replaces_all, theirs, version, verdict)

    def _look(self, theirs: Operation, version: Version) -> None:
        for kind, steps in self._mine.items():
            is_fine = RULES.get((kind, type(theirs))) is overlaps.fine
            if is_fine and not moves_files(theirs) and kind is not Update:
                continue
            for each in steps:
                verdict = judge_operations(each.operation, theirs)
                if verdict.outcome in (Outcome.RETRY, Outcome.INCOMPATIBLE):
                    raise self._refusal(each, theirs, version, verdict)

    def _note(self, theirs: Operation) -> None:
        if isinstance(theirs, Merge):
            self.has_merged = True
        if moves_files(theirs):
            return
        given = given_fields(theirs)
        self.given = None if self.given is None or given is None else self.given | given
        if isinstance(theirs, Update) and theirs.rewrites_columns:
            self.rewritten.update(each.id for each in theirs.updated_fragments)
        if isinstance(theirs, DataReplacement):
            self.rewritten.update(each.fragment_id for each in theirs.replacements)

    def _refusal(
        self, mine: BranchStep | None, theirs: Operation, version: Version, verdict: Verdict
    ) -> ConflictError:
        own = "its work" if mine is None else _told(mine.operation, mine.version)
        kind = (
            IncompatibleConflictError
            if verdict.outcome is Outcome.INCOMPATIBLE
            else RetryableConflictError
        )
        return kind(
            f"{self._refused()}: {own} meets {_told(theirs, version)} of the target: "
            f"{verdict.reason}; {self._way_out(version)}",
            branch=self._work.branch,
            branch_version=None if mine is None else mine.version,
            version=version,
            operation=operation_name(theirs),
        )

    def _refused(self) -> str:
        work = self._work
        return f"{called(work.branch)} cannot be published onto {called(work.parent)}"

    @staticmethod
    def _way_out(version: Version) -> str:
        return f"make the change again on a fresh branch of version {version} or later"


def rewritten_rows(work: BranchWork, fragment: FragmentId, rows: int) -> BitMap:
    """The rows of a fragment in which the branch wrote columns anew, as far as that is known; all
    where it is not."""
    found = BitMap()
    for each in work.steps:
        operation = each.operation
        if moves_files(operation):
            continue
        if isinstance(operation, DataReplacement):
            if any(group.fragment_id == fragment for group in operation.replacements):
                return BitMap(range(rows))
        elif (
            isinstance(operation, Update)
            and operation.rewrites_columns
            and any(image.id == fragment for image in operation.updated_fragments)
        ):
            offsets = operation.updated_offsets.get(fragment)
            if offsets is None:
                return BitMap(range(rows))
            found |= offsets
    return found


def _told(operation: Operation, version: Version) -> str:
    return f"{operation_text(operation)} in version {version}"

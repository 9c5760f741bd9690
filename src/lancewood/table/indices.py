"""The indices of a table: ``Table.indices``."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import Runner
from lancewood.model.index import Index
from lancewood.table.handle import Handle, runner_or_threads

if TYPE_CHECKING:
    from lancewood.jobs.index.listing import IndexInfo

H = TypeVar("H", bound=Handle)


class IndexVerbs(Handle):
    """The indices of a table."""

    @property
    def indices(self) -> Indices[Self]:
        """The segments of all indices, and the verbs on them; ``list`` sums them up by index."""
        return Indices(self)


class Indices(Sequence[Index], Generic[H]):
    """The segments of a table's indices, in the order of the manifest. Made by ``Table.indices``.

    An index covers fragments, and a scan reads the others; so an index is right even if it is old.
    Segments are built in tasks, beside other writers, and committed at once.
    """

    def __init__(self, table: H) -> None:
        self._table = table
        self._segments = table._snapshot.manifest.indices

    @overload
    def __getitem__(self, at: int) -> Index: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Index, ...]: ...

    def __getitem__(self, at: int | slice) -> Index | tuple[Index, ...]:
        return self._segments[at]

    def __len__(self) -> int:
        return len(self._segments)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Indices):
            return self._segments == other._segments
        return self._segments == other if isinstance(other, tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Indices {', '.join(dict.fromkeys(each.name for each in self)) or 'none'}>"

    def list(self) -> builtins.list[IndexInfo]:
        """Every index with its column, kind, size and coverage, from the manifest alone."""
        from lancewood.jobs.index.listing import list_indices

        return list_indices(self._table._snapshot)

    def create(
        self,
        column: str,
        kind: str | None = None,
        *,
        name: str | None = None,
        replace: bool = False,
        metric: str | None = None,
        partitions: int | None = None,
        sub_vectors: int | None = None,
        options: Mapping[str, Any] | None = None,
        runner: Runner | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> H:
        """Build an index on a column, dotted for a field inside a struct; the handle after it.

        ``kind`` is BTREE, BITMAP, ZONEMAP or BLOOMFILTER for plain values, LABEL_LIST for lists of
        them, INVERTED or NGRAM for texts, and for vectors IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ,
        IVF_HNSW_FLAT, IVF_HNSW_PQ or IVF_HNSW_SQ. ``"lookup"`` and ``"search"`` choose by the type
        of the column what finds values, or words and neighbours; None is what finds values where
        the type has that. ``name`` is by default ``<column>_idx``; ``replace`` builds an index of
        that name on the same column anew, in the same commit: without a ``kind`` as it was built
        before, but for what is said here.

        ``metric`` (l2, cosine, dot; hamming for bytes), ``partitions`` and ``sub_vectors`` are for
        vectors; ``options`` are further ones of the engine, such as ``with_position`` of INVERTED,
        ``rows_per_zone`` of ZONEMAP or ``sample_rate`` of a model.

        One segment is built for each task of the ``runner``, and they are merged where the kind
        allows it. Other writers are not blocked: rows that they write are left to ``extend``, and
        after a compaction by them only what it changed is built again. In a transaction of a
        repository rows that it wrote are left out. ``counts`` has segments, fragments, rows and
        bytes.

        Raises, before anything is built, InvalidInputError for what does not fit the column and for
        a table without rows, AlreadyExistsError for a name that is taken, with ``replace`` by an
        index of another column, and for a second index on the same vectors, UnsupportedError for a
        table in memory.
        """
        from lancewood.jobs.index.changing import BuildIndex
        from lancewood.jobs.index.choosing import IndexRequest

        request = IndexRequest(
            column, kind, name, replace, metric, partitions, sub_vectors, options or {}
        )
        commit_options = CommitOptions.of(commit, message)
        job = BuildIndex(request, runner_or_threads(runner))
        return self._table._run(job, commit_options, dry_run=dry_run)

    def extend(
        self,
        name: str | None = None,
        *,
        runner: Runner | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> H:
        """Cover what an index, or every index, does not cover yet; the handle after it.

        New rows become a segment of their own, built with the options and the model of the index.
        Segments that may hold an old value of a changed row are merged with it (BTREE, BITMAP) or
        built anew together with it (LABEL_LIST, INVERTED, ZONEMAP, BLOOMFILTER). If everything is
        covered there is no new version.

        Raises NotFoundError for an unknown index, UnsupportedError for one of a kind that is not
        built here; without a name such ones are left alone.
        """
        from lancewood.jobs.index.changing import CoverRest

        commit_options = CommitOptions.of(commit, message)
        job = CoverRest(name, runner_or_threads(runner))
        return self._table._run(job, commit_options, dry_run=dry_run)

    def optimize(
        self,
        name: str | None = None,
        *,
        runner: Runner | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> H:
        """Cover what an index, or every index, does not cover yet, and leave one segment of each.

        Segments are merged where the kind allows it. Product and RaBitQ codes are made anew with
        the same model, and so are scalar codes and indices that hold old values of changed rows:
        that reads the whole column. If there is nothing to gain there is no new version.
        """
        from lancewood.jobs.index.changing import CoverRest

        commit_options = CommitOptions.of(commit, message)
        job = CoverRest(name, runner_or_threads(runner), is_optimized=True)
        return self._table._run(job, commit_options, dry_run=dry_run)

    def drop(
        self,
        name: str,
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> H:
        """Remove an index; its files stay for older versions until ``cleanup``.

        Raises NotFoundError.
        """
        from lancewood.jobs.index.changing import DropIndex

        commit_options = CommitOptions.of(commit, message)
        return self._table._run(DropIndex(name), commit_options, dry_run=dry_run)

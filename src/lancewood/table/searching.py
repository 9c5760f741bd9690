"""Verbs on a table: rows by likeness, in vectors and texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancewood.engine.schema import Columns, Parameters
from lancewood.engine.searching import VectorOptions, plan_search
from lancewood.table.handle import Handle


class SearchVerbs(Handle):
    """Verbs on a table: rows by likeness."""

    def search(
        self,
        *,
        vector: Any = None,
        text: str | None = None,
        like: int | None = None,
        column: str | None = None,
        text_column: str | None = None,
        k: int = 10,
        where: str | None = None,
        parameters: Parameters = None,
        columns: Columns = None,
        metric: str | None = None,
        refine: int | None = None,
        nprobes: int | None = None,
        use_index: bool = True,
    ) -> pa.Table:
        """The ``k`` rows that are nearest to a vector, or that match a text best, best first.

        ``vector`` is a list, a numpy or an Arrow array; several at once, in two dimensions, give a
        column ``query_index``. ``like`` is a row id: its vector is searched for. ``text`` are
        words, of which a row has at least one, or a phrase in double quotes. The answer has the
        columns of ``columns``, given as for ``scan``, and ``_distance`` or ``_score``. By vector
        and text, ``_score`` is that of both ranks fused: the sum of 1 / (60 + rank). Equal rows are
        in the order of the table.

        ``column`` may be left out if there is one that can be meant: the only one of its kind, or
        the only one with an index. By vector and text it is the vector's, and ``text_column`` the
        other. ``where`` is a condition in SQL with ``parameters``, and says which rows are
        searched: the ``k`` best of them are found, and if they are up to 2,000 all are compared.

        Vectors need no index: without one, or with ``use_index=False``, all of them are compared
        and the answer is exact. With one it is approximate, and rows that it does not cover are
        compared all the same. Of several on a column the first one answers. Distances are those of
        its ``metric``, l2 (squared), cosine, dot or hamming; without an index l2, if nothing else
        is asked for. Of an index that keeps codes instead of vectors, ``refine`` times ``k`` rows
        are compared by their vectors, 10 if it is not given. ``nprobes`` says how many partitions
        of an index are searched. Words are found by an index of kind INVERTED if there is one, and
        else in all texts.

        Raises InvalidInputError for what does not fit the column, or for another metric than that
        of the index, and UnsupportedError for a table that is in memory only.
        """
        options = VectorOptions(metric=metric, refine=refine, nprobes=nprobes, use_index=use_index)
        return plan_search(
            self._snapshot,
            vector=vector,
            like=like,
            text=text,
            column=column,
            text_column=text_column,
            k=k,
            where=where,
            parameters=parameters,
            columns=columns,
            options=options,
        ).table()

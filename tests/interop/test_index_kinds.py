"""Which kind an index is, from the manifest alone: pylance builds one of each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import FormatError, InvalidInputError
from lancewood.jobs.index.choosing import named_kind
from lancewood.model.index import (
    IVF_FLAT,
    KINDS,
    Index,
    kind_of,
    metric_of,
    vector_details,
)
from lancewood.proto import table_pb2

ROWS = 300
COLUMN = {
    "LABEL_LIST": "labels",
    "INVERTED": "text",
    "NGRAM": "text",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("kinds") / "t")
    vectors = np.random.default_rng(7).random(ROWS * 8, dtype=np.float32)
    rows = {
        "id": pa.array(range(ROWS)),
        "labels": pa.array([["a", "b"]] * ROWS),
        "text": pa.array([f"word{each % 7} other" for each in range(ROWS)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
    }
    lance.write_dataset(pa.table(rows), where)
    return where


@pytest.mark.parametrize("kind", KINDS)
def test_the_manifest_says_which_kind_an_index_is(root: str, kind: str) -> None:
    dataset = lance.dataset(root)
    column = COLUMN.get(kind, "id")
    if kind.startswith("IVF"):
        settings = {"metric": "cosine", "num_partitions": 2}
        if "PQ" in kind:
            settings["num_sub_vectors"] = 2
        dataset.create_index("vector", kind, name=kind, **settings)
    else:
        dataset.create_scalar_index(column, kind, name=kind)
    (index,) = (each for each in lw.open(root).indices if each.name == kind)
    found = kind_of(index)
    assert found is KINDS[kind]
    assert str(found) == kind
    if found.is_vector:
        assert vector_details(index).metric == vector_details(index).COSINE


def test_a_kind_is_found_by_its_name_in_any_case() -> None:
    assert named_kind("ivf_flat") is IVF_FLAT
    assert named_kind("Search") is None
    with pytest.raises(
        InvalidInputError, match=r"no index of kind 'RTREE': choose lookup or search.* BTREE"
    ):
        named_kind("RTREE")


def test_a_kind_that_we_do_not_know_is_none_and_broken_details_are_an_error() -> None:
    message = table_pb2.IndexMetadata(name="i")
    message.index_details.type_url = "/lance.index.pb.RTreeIndexDetails"
    assert kind_of(Index(message)) is None
    message.index_details.type_url = "/lance.index.pb.VectorIndexDetails"
    assert kind_of(Index(message)) is None
    message.index_details.value = b"\xff\xff"
    with pytest.raises(FormatError, match="details of index 'i'"):
        kind_of(Index(message))


def test_a_metric_that_nobody_knows_is_a_format_error() -> None:
    message = table_pb2.IndexMetadata(name="i")
    message.index_details.type_url = "/lance.index.pb.VectorIndexDetails"
    message.index_details.value = b"\x08\x09"
    with pytest.raises(FormatError, match="index 'i' compares by metric 9, and known are l2"):
        metric_of(Index(message))

"""One commit over two tables."""

from __future__ import annotations

from tests.repo.scene import ONE, TWO, Scene


def test_two_tables_move_in_one_commit(scene: Scene) -> None:
    scene.both(4, 5)
    assert scene.counts("main~1") == (3, 3)
    assert scene.counts() == (5, 5)
    assert scene.values(ONE) == scene.values(TWO) == [1, 2, 3, 4, 5]

"""Two tables that always move together, and pylance beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from tests.repo.locations import Where

import lancewood as lw
from lancewood.repo.outcome import Committed
from lancewood.repo.repository import Repository

ONE, TWO = "photos", "labels"
FIRST = pa.table({"id": [1, 2, 3]})


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@dataclass
class Scene:
    """A repository with the two tables."""

    repo: Repository
    where: Where

    @classmethod
    def at(cls, where: Where) -> Scene:
        """The scene in a repository that is there."""
        return cls(Repository.open(where.root, storage_options=where.options), where)

    @property
    def path(self) -> Path:
        return self.repo.path

    def again(self) -> Repository:
        """The repository as another process opens it."""
        return Repository.open(self.where.root, storage_options=self.where.options)

    def begin(self) -> None:
        with self.repo.transaction("main", message="begin") as changes:
            changes.create_table(ONE, FIRST)
            changes.create_table(TWO, FIRST)

    def uri(self, name: str = ONE) -> str:
        return f"{self.repo.uri}/tables/{name}.lance"

    def both(self, *values: int, branch: str = "main", repo: Repository | None = None) -> Committed:
        """One commit that appends the same rows to both tables."""
        told = f"both get {values}"
        with (repo or self.repo).transaction(branch, message=told) as changes:
            changes.table(ONE).append(rows(*values))
            changes.table(TWO).append(rows(*values))
        return changes.result

    def without(self, where: str, branch: str = "main") -> None:
        """One commit that deletes the same rows of both tables."""
        with self.repo.transaction(branch, message=f"both without {where}") as changes:
            changes.table(ONE).delete(where)
            changes.table(TWO).delete(where)

    def counts(self, revision: str = "main") -> tuple[int, int]:
        """How many rows both have, as the repository says."""
        view = self.again().at(revision)
        return view.table(ONE).count_rows(), view.table(TWO).count_rows()

    def landed(self) -> tuple[int, int]:
        """How many rows both have, as pylance says."""
        found = [self.dataset(name).count_rows() for name in (ONE, TWO)]
        return found[0], found[1]

    def dataset(self, name: str = ONE) -> Any:
        """What pylance opens, unchecked."""
        return lance.dataset(self.uri(name), storage_options=self._options)

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self.where.options is None else dict(self.where.options)

    def pylance(self, name: str = ONE) -> Any:
        """pylance's dataset on the newest version of main."""
        found = self.dataset(name)
        found.validate()
        return found

    def values(self, name: str = ONE) -> list[int]:
        """What pylance sees, sorted."""
        return sorted(self.pylance(name).to_table()["id"].to_pylist())

    def outside(self, *values: int, name: str = ONE, mode: str = "append") -> None:
        """pylance appends, or writes over what is there."""
        options = self._options
        lance.write_dataset(rows(*values), self.uri(name), mode=mode, storage_options=options)

    def seen(self, revision: str = "main", name: str = ONE) -> list[int]:
        """What the repository sees, sorted."""
        table = self.again().at(revision).table(name).to_arrow()
        return sorted(table["id"].to_pylist())

    def table(self, name: str = ONE) -> lw.Table:
        """The table itself, as somebody opens it who does not know the repository."""
        return lw.open(self.uri(name), access=lw.Access(storage_options=self.where.options))

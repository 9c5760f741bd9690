"""A pipeline file in a folder, an empty repository, and the frames of a run on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.frames.frames import Frames
from lancewood.repo.repository import Repository
from lancewood.spark.tasks import arrow_of


@dataclass
class Scene:
    """One pipeline in one folder. ``published`` stands for what runs have left."""

    spark: Any
    folder: Path
    states: dict[str, Any] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.repository = Repository.init(self.folder / ".lancewood" / "zoo")

    def frames(
        self,
        text: str,
        *,
        environment: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Frames:
        """The frames of the next run; ``text`` is the file without its head."""
        self.runs += 1
        file = self.folder / "zoo.toml"
        file.write_text(f'[pipeline]\nname = "zoo"\n{text}', encoding="utf-8")
        pipeline = load(file, parameters or {}, environment or {})
        base = self.repository.branches.list().get("main")
        context = RunContext(self.repository, pipeline, f"r{self.runs}", base)
        return Frames(self.spark, pipeline, context, self.states, overrides)

    def publish(self, frames: Frames) -> None:
        """What a run does with states and files, once it has loaded its targets."""
        self.states = frames.states()
        with self.repository.transaction("main", "a run") as changes:
            for name, rows in frames.file_tables():
                if name in changes.tables:
                    changes.table(name).append(arrow_of(rows))
                else:
                    changes.create_table(name, arrow_of(rows))

    def write(self, path: str, text: str) -> Path:
        at = self.folder / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text, encoding="utf-8")
        return at


def target(source: str, table: str = "animals") -> str:
    return f'[[targets]]\ntable = "{table}"\nfrom = "{source}"\nmode = "append"\n'


def values(frame: Any, column: str = "id") -> list[Any]:
    return sorted(row[column] for row in frame.select(column).collect())

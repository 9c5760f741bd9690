"""Pages taken apart again, and facts with a text of the caller's in every place that holds one."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

from lancewood.pipeline.report.facts import (
    CheckFacts,
    Ending,
    PastRun,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    TargetFacts,
)

VOID = {"meta", "link"}
CELLS = {"th", "td"}


class Parsed(HTMLParser):
    """What a program that knows only HTML finds in a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.skeleton: list[str] = []
        """Tags with the names of their attributes, and ends of tags, in order."""
        self.open: list[str] = []
        self.text = ""
        """All that stands between tags, but for the style."""
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        """The cells of each table by its caption, without the head."""
        self._caption: str | None = None
        self._row: list[str] | None = None
        self.feed(page)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":  # where a path may be broken, and nothing else
            assert not attrs
            return
        self.skeleton.append(f"{tag} {' '.join(name for name, _ in attrs)}")
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "caption":
            self._caption = ""
        if tag == "tr" and "tbody" in self.open:
            assert self._caption is not None
            self._row = []
            self.tables.setdefault(self._caption, []).append(self._row)
        if tag in CELLS and self._row is not None:
            self._row.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.skeleton.append(f"/{tag}")
        if tag == "tr":
            self._row = None

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if self.open and self.open[-1] == "caption":
            self._caption = (self._caption or "") + data
        if self._row is not None and any(each in CELLS for each in self.open):
            self._row[-1] += data


def with_texts(text: Callable[[str], str], ending: Ending) -> RunFacts:
    """Facts whose texts are all made by ``text``, which is told the name of the place.

    Hashes are hashes, because only their beginnings are shown.
    """
    return RunFacts(
        pipeline=text("pipeline"),
        run=text("run"),
        repository=text("repository"),
        branch=text("branch"),
        run_branch=text("run_branch"),
        started=text("started"),
        file=text("file"),
        ending=ending,
        parameters={text("parameter"): text("value")},
        sources=[
            SourceFacts(text("source"), text("kind"), text("where"), rows=1, since=text("since"))
        ],
        targets=[
            TargetFacts(
                text("table"),
                text("mode"),
                columns_added=(text("column"),),
                indices_created=(text("index"),),
            )
        ],
        checks=[
            CheckFacts(
                text("check"),
                text("check_kind"),
                text("check_table"),
                False,
                asked=text("asked"),
                found=text("found"),
                columns=(text("sample_column"),),
                sample=((text("sample_value"),),),
                kept_at=text("kept_at"),
            ),
            CheckFacts(
                text("passed"), "sql", None, True, asked=text("held"), found=text("found_good")
            ),
        ],
        quarantine=QuarantineFacts(
            text("quarantine"),
            rows=3,
            limit="no row",
            by_reason=((text("origin"), text("reason"), 3),),
            sample=(
                (text("its origin"), text("its reason"), text("its file"), "7", text("its row")),
            ),
        ),
        stages=[StageFacts(text("stage"), 1.0)],
        graph=[f"* 0123456 - {text('subject')}"],
        past=[PastRun("before", "0" * 64, 0, {text("table"): 5})],
        tag=text("tag"),
        versions={text("program"): text("version")},
        error=text("error"),
        what_next=[text("command")],
        folder=text("folder"),
    )

"""Facts of runs as real ones have them, for tests of the report and for its picture."""

from __future__ import annotations

from dataclasses import replace

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

COMMIT = "3f9c1d7ae52b88c0d4d5c1f0a7be91b6e2f4470a6b1d9e83c5a0f7d2b4986e11"
BASE = "b71e04c95d3a6f2288e1970bd04c5e7f61a92d830c4fb5e6d7281f90a3c4be52"
RUN = "20261115T201502Z-4be1a7"
_DAY = 86_400
_FIRST_DAY = 1_793_577_600


def published() -> RunFacts:
    """A run that went well: photos and labels came in, thumbnails were computed."""
    folder = f"/data/library/lancewood/runs/photos/{RUN}"
    return RunFacts(
        pipeline="photos",
        run=RUN,
        repository="/data/library",
        branch="main",
        run_branch=f"run/{RUN}",
        started="2026-11-15T20:15:02+00:00",
        file="pipelines/photos.toml",
        ending=Ending.PUBLISHED,
        seconds=48.37,
        parameters={"day": "2026-11-15", "drop": "/data/drops/2026-11-15", "size": "160"},
        sources=[
            SourceFacts(
                "images",
                "binaryFile",
                "/data/drops/2026-11-15/*.jpg",
                rows=2_418,
                files=2_418,
                bytes=1_206_845_112,
                since="2026-11-14 20:14 UTC",
            ),
            SourceFacts("labels", "csv", "/data/drops/2026-11-15/labels.csv", 9_311, 1, 412_604),
            SourceFacts("cameras", "lance table", "cameras at main", rows=38),
        ],
        targets=[
            TargetFacts(
                "photos", "merge", 18_204, 20_508, 2_304, 97, 0, (), 3, 1_190_220_800, 41, 14.2
            ),
            TargetFacts(
                "labels", "merge", 71_992, 80_870, 9_021, 290, 143, (), 2, 398_112, 38, 5.6
            ),
            TargetFacts(
                "photos",
                "add-columns",
                20_508,
                20_508,
                0,
                2_401,
                0,
                ("thumbnail", "embedding"),
                3,
                61_920_330,
                43,
                16.9,
            ),
        ],
        checks=[
            CheckFacts(
                "ids of photos",
                "unique",
                "photos",
                True,
                False,
                "photos.id is never twice",
                "0 of 20,508 rows",
                seconds=0.61,
            ),
            CheckFacts(
                "photos have a file name",
                "not null",
                "photos",
                True,
                False,
                "photos.id, photos.name are never null",
                "0 of 20,508 rows",
                seconds=0.32,
            ),
            CheckFacts(
                "labels belong to photos",
                "references",
                "labels",
                True,
                False,
                "every labels.photo is a photos.id",
                "0 of 80,870 rows",
                seconds=0.88,
            ),
            CheckFacts(
                "known words",
                "accepted",
                "labels",
                True,
                False,
                "labels.word is cat, dog, owl, fox or hare",
                "0 of 80,870 rows",
                seconds=0.41,
            ),
            CheckFacts(
                "not suddenly empty",
                "rows",
                "photos",
                True,
                False,
                "photos has at most 10 % fewer rows than before, at most 50 % more",
                "20,508 rows, 12.7 % more than before",
                seconds=0.02,
            ),
            CheckFacts(
                "columns",
                "schema",
                "photos",
                True,
                False,
                "the columns of photos are the same, or more",
                "2 columns more: thumbnail, embedding",
                seconds=0.01,
            ),
            CheckFacts(
                "taken in the past",
                "sql",
                None,
                True,
                False,
                "SELECT id, taken FROM photos\nWHERE taken > current_date()",
                "no rows",
                seconds=0.54,
            ),
        ],
        quarantine=QuarantineFacts(
            "quarantine",
            rows=17,
            limit="at most 50 rows",
            by_reason=(
                ("images", "not a JPEG: cannot identify image file", 11),
                ("images", "truncated: 0 of 48,211 bytes after the header", 4),
                ("labels", "photo is not a number", 2),
            ),
            sample=(
                (
                    "images",
                    "not a JPEG: cannot identify image file",
                    "/data/drops/2026-11-15/IMG_0042.jpg",
                    "",
                    '{"path": "file:/data/drops/2026-11-15/IMG_0042.jpg", "length": 48211, '
                    '"content": "48,211 bytes"}',
                ),
                (
                    "labels",
                    "photo is not a number",
                    "/data/drops/2026-11-15/labels.csv",
                    "218",
                    '{"text": "IMG_0042,owl,ines@example.org"}',
                ),
            ),
        ),
        stages=[
            StageFacts("read", 3.11, 11_767, 1_207_257_716, 2_420, begun=0.64),
            StageFacts("load photos", 14.2, 2_401, 1_190_220_800, 3, begun=3.9),
            StageFacts("load labels", 5.6, 9_454, 398_112, 2, begun=18.3),
            StageFacts("add columns to photos", 16.9, 2_401, 61_920_330, 3, begun=24.1),
            StageFacts("quarantine", 1.2, 17, 8_204, 1, begun=41.2),
            StageFacts("check", 2.9, begun=42.5),
            StageFacts("publish", 1.6, begun=45.6),
            StageFacts("tidy", 0.9, begun=47.3),
        ],
        base_commit=BASE,
        commit=COMMIT,
        tag="photos-2026-11-15",
        graph=[
            "* 3f9c1d7ae52b (HEAD -> main, tag: photos-2026-11-15) photos: 2026-11-15",
            "*   b71e04c95d3a Merge relabel-owls",
            "|\\",
            "| * 90ad1be27c44 (relabel-owls) Owls that were called cats",
            "* | c22f7b1e0d98 (tag: photos-2026-11-14) photos: 2026-11-14",
            "|/",
            "* 5b0e6f3a9c17 (tag: photos-2026-11-13) photos: 2026-11-13",
            "* e84d20b7f165 cameras: the first thirty-eight",
        ],
        past=[
            PastRun(
                f"2026-11-{number + 3:02}",
                f"{number:064x}",
                _FIRST_DAY + number * _DAY,
                {"photos": photos, "labels": labels},
            )
            for number, (photos, labels) in enumerate(_GROWTH)
        ],
        versions={"Lancewood": "0.7.0", "Spark": "4.3.0", "Python": "3.11.7"},
        what_next=[
            "lw log --graph --oneline",
            "lw table head /data/library/tables/photos.lance",
            "git -C /data/library show photos-2026-11-15 -- tables/photos.json",
        ],
        folder=folder,
    )


_GROWTH = (
    (6_120, 21_004), (7_300, 26_850), (8_044, 30_117), (9_980, 36_412), (11_201, 43_008),
    (11_190, 42_870), (12_904, 50_655), (14_377, 55_020), (15_002, 60_341), (16_718, 65_903),
    (17_455, 69_120), (18_204, 71_992),
)  # fmt: skip


def failed_checks() -> RunFacts:
    """The same run, with labels of photos that are not there."""
    good = published()
    missing = CheckFacts(
        "labels belong to photos",
        "references",
        "labels",
        False,
        False,
        "every labels.photo is a photos.id",
        "214 of 80,870 rows",
        failing_rows=214,
        columns=("id", "photo", "word", "by"),
        sample=tuple(
            (str(71_992 + at), str(990_000 + 7 * at), word, "ines@example.org")
            for at, word in enumerate(("cat", "cat", "owl", "hare", "fox"))
        ),
        kept_at=f"{good.folder}/failures/labels-belong-to-photos.lance",
        seconds=0.88,
    )
    late = CheckFacts(
        "taken in the past",
        "sql",
        None,
        False,
        True,
        "SELECT id, taken FROM photos\nWHERE taken > current_date()",
        "3 rows",
        failing_rows=3,
        columns=("id", "taken"),
        sample=(("18920", "2062-01-01"), ("18921", "2062-01-01"), ("19007", "2027-04-02")),
        kept_at=f"{good.folder}/failures/taken-in-the-past.lance",
        seconds=0.54,
    )
    by_name = {missing.name: missing, late.name: late}
    return replace(
        good,
        ending=Ending.CHECKS_FAILED,
        checks=[by_name.get(each.name, each) for each in good.checks],
        stages=good.stages[:6],
        seconds=45.6,
        commit=None,
        tag=None,
        graph=good.graph[1:],
        what_next=[
            f"lw -C /data/library diff main run/{RUN}",
            f"lw table head {missing.kept_at}",
            "lw run pipelines/photos.toml",
        ],
    )


def broken() -> RunFacts:
    """A run that an error ended, early."""
    good = published()
    return replace(
        good,
        ending=Ending.FAILED,
        seconds=4.02,
        targets=[],
        checks=[],
        quarantine=None,
        stages=good.stages[:1],
        commit=None,
        tag=None,
        past=[],
        graph=good.graph[1:],
        error="pipelines/photos.toml line 31: sources.labels.path: "
        "/data/drops/2026-11-15/labels.csv is not there\n"
        "What there is: labels-1.csv, labels-2.csv",
        what_next=["lw run pipelines/photos.toml --param drop=/data/drops/2026-11-14"],
    )


def large(text: str, *, is_passed: bool) -> RunFacts:
    """A run with far more of everything than a person reads."""
    rows = {f"{text}{at}": at for at in range(500)}
    return replace(
        published(),
        sources=[SourceFacts(f"{text}{at}", "csv", text, 1, 1, 1) for at in range(500)],
        targets=[TargetFacts(each, "append", 1, 2, 1, 0, 0) for each in rows],
        checks=[
            CheckFacts(
                f"{text}{at}",
                "sql",
                text,
                is_passed,
                asked=text,
                found=text,
                failing_rows=50,
                columns=(text,) * 50,
                sample=((text,) * 50,) * 50,
                kept_at=text,
            )
            for at in range(1_000)
        ],
        stages=[StageFacts(f"{text}{at}", 1.0) for at in range(1_000)],
        graph=[f"* {at:07x} {text}" for at in range(1_000)],
        past=[PastRun(str(at), "0" * 64, at, rows) for at in range(300)],
        parameters={f"{text}{at}": text for at in range(1_000)},
        what_next=[text] * 1_000,
        error=text * 1_000,
    )

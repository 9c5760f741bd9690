"""A process that lets Spark's own client fetch a package, and prints where the jars are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lancewood.spark as lws


def main(package: str, ivy: str) -> None:
    conf = {"spark.jars.packages": package, "spark.jars.ivy": ivy}
    spark = lws.session("local[1]", conf=conf)
    jars = spark.sparkContext.getConf().get("spark.jars") or ""
    paths = [unquote(urlsplit(each).path) for each in jars.split(",") if each]
    spark.stop()
    missing = [each for each in paths if not Path(each).is_file()]
    if missing or not paths:
        raise SystemExit(f"Spark's client named no jars, or one that is not there: {missing}")
    print(json.dumps(paths))


if __name__ == "__main__":
    main(*sys.argv[1:])

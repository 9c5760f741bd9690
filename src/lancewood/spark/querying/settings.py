"""What of a session decides how SQL text is read there. Knows no query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewood.query.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASE = "spark.sql.caseSensitive"
_ZONE = "spark.sql.session.timeZone"
_TIMESTAMP = "spark.sql.timestampType"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
_REGEX_NAMES = "spark.sql.parser.quotedRegexColumnNames"


def session_settings(spark: SparkSession) -> Settings:
    """Those of a session."""
    conf: Any = spark.conf

    def is_on(name: str) -> bool:
        return str(conf.get(name, "false")).lower() == "true"

    return Settings(
        case_sensitive=is_on(_CASE),
        zone=str(conf.get(_ZONE)),
        timestamps_have_zones=str(conf.get(_TIMESTAMP, "TIMESTAMP_LTZ")) == "TIMESTAMP_LTZ",
        double_quotes_name=is_on(_ANSI) and is_on(_DOUBLE_QUOTES),
        names_are_patterns=is_on(_REGEX_NAMES),
    )

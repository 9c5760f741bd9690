"""What of a session decides how SQL text is read. Knows no query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASE = "spark.sql.caseSensitive"
_ZONE = "spark.sql.session.timeZone"
_TIMESTAMP = "spark.sql.timestampType"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
_REGEX_NAMES = "spark.sql.parser.quotedRegexColumnNames"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a session, as far as they matter here; the defaults are Spark's."""

    case_sensitive: bool = False
    zone: str = "UTC"
    timestamps_have_zones: bool = True
    """Whether ``TIMESTAMP '…'`` is a moment, not a reading of a clock."""
    double_quotes_name: bool = False
    """Whether ``"x"`` is a name, not a text."""
    names_are_patterns: bool = False
    """Whether a name in backticks may be a regular expression over columns."""

    def folded(self, name: str) -> str:
        """A name in the form in which two are compared."""
        return name if self.case_sensitive else name.lower()


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

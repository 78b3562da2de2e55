"""Write Spark DataFrames to Kafka: `df.write.format("ottla")`, `df.writeStream.format("ottla")`.

`write(df, options)` and `writeStream.foreachBatch(foreach_batch(options))` do the same from PySpark 3.5 on.

Public are the names in `__all__` of this package and of `ottla_spark.exactly_once` and `ottla_spark.atomic`. All other
modules are private: they may change in any version.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla_spark.data_source_api import HAS_DATA_SOURCES, INSTEAD, PYSPARK
from ottla_spark.errors import InvalidWriteError, WriteError

if TYPE_CHECKING:
    from ottla_spark.calls import MicroBatchSink, foreach_batch, write
    from ottla_spark.exactly_once import write_once
    from ottla_spark.sink.report import WriteReport, last_report
    from ottla_spark.source import OttlaDataSource, register

__version__ = "0.1.0"

__all__ = [
    "InvalidWriteError",
    "MicroBatchSink",
    "OttlaDataSource",
    "WriteError",
    "WriteReport",
    "__version__",
    "foreach_batch",
    "last_report",
    "register",
    "write",
    "write_once",
]


_log = logging.getLogger(__name__)

if not HAS_DATA_SOURCES:
    _log.info('%s has no data sources in Python, so format("ottla") does not exist: %s', PYSPARK, INSTEAD)

_IMPORTED_LATE: Final = {
    "MicroBatchSink": "calls",
    "OttlaDataSource": "source",
    "WriteReport": "sink.report",
    "foreach_batch": "calls",
    "last_report": "sink.report",
    "register": "source",
    "write": "calls",
    "write_once": "exactly_once",
}
"""The modules of the other names: each of Spark's Python processes imports this package, and needs few of them."""


def __getattr__(name: str) -> Any:
    if name in _IMPORTED_LATE:
        return getattr(import_module(f"{__name__}.{_IMPORTED_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

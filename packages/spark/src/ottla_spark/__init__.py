"""Write Spark DataFrames to Kafka: `df.write.format("ottla")`, `df.writeStream.format("ottla")`.

`write(df, options)` and `writeStream.foreachBatch(foreach_batch(options))` do the same from PySpark 3.5 on.

Public are the names in `__all__` of this package and of `ottla_spark.exactly_once` and `ottla_spark.atomic`. All other
modules are private: they may change in any version.
"""

from typing import TYPE_CHECKING, Any

from ottla_spark.calls import MicroBatchSink, foreach_batch, write
from ottla_spark.errors import InvalidWriteError, WriteError
from ottla_spark.sink.report import WriteReport, last_report
from ottla_spark.source import OttlaDataSource, register

if TYPE_CHECKING:
    from ottla_spark.exactly_once import write_once

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


def __getattr__(name: str) -> Any:
    # Lazy: this import takes a fifth of the whole package's import time, in each of Spark's Python processes.
    if name == "write_once":
        from ottla_spark.exactly_once import write_once

        return write_once
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Base classes of Spark's data sources in Python, as far as this PySpark has them.

PySpark 3.5 has none of them, and 4.0 none for streams that get Arrow batches. A missing class is `object` here, so that
all modules can be imported; Spark never calls the classes that are made of it. `ottla_spark.calls` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyspark

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
else:
    try:
        from pyspark.sql import datasource as _found
    except ImportError:
        _found = None
    DataSource = getattr(_found, "DataSource", object)
    DataSourceArrowWriter = getattr(_found, "DataSourceArrowWriter", object)
    DataSourceStreamArrowWriter = getattr(_found, "DataSourceStreamArrowWriter", object)
    WriterCommitMessage = getattr(_found, "WriterCommitMessage", object)

__all__ = [
    "HAS_ARROW_STREAMS",
    "HAS_DATA_SOURCES",
    "INSTEAD",
    "PYSPARK",
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceStreamArrowWriter",
    "WriterCommitMessage",
]

PYSPARK: Final = f"PySpark {pyspark.__version__}"

HAS_DATA_SOURCES: Final = bool(vars(DataSourceArrowWriter).get("write"))
"""Whether `format("ottla")` can exist: from PySpark 4.0 on."""

HAS_ARROW_STREAMS: Final = bool(vars(DataSourceStreamArrowWriter).get("write"))
"""Whether `writeStream.format("ottla")` can exist: from PySpark 4.1 on."""

INSTEAD: Final = (
    "call ottla_spark.write(df, options) for a batch, and pass ottla_spark.foreach_batch(options) to "
    "writeStream.foreachBatch for a stream"
)
"""What to do where Spark has no data sources in Python, for messages."""

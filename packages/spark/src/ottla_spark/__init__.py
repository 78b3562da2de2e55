"""Write Spark DataFrames to Kafka: `df.write.format("ottla")`."""

from ottla_spark.errors import WriteFailed, WriteRefused
from ottla_spark.report import WriteReport, last_report
from ottla_spark.source import OttlaDataSource, register

__version__ = "0.1.0"

__all__ = ["OttlaDataSource", "WriteFailed", "WriteRefused", "WriteReport", "__version__", "last_report", "register"]

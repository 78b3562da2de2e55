"""Found by PySpark for its name: `format("ottla")` works wherever this package is installed."""

from ottla_spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""PySpark finds this module by its name: `format("ottla")` works where this package is installed."""

from ottla_spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

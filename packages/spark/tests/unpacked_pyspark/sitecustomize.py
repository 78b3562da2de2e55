"""Leave the packed PySpark out, if Python starts with this folder in `PYTHONPATH` (`spark_java.unpack_pyspark`).

Spark puts `pyspark.zip` before the installed package for its Python processes. No compiled code is kept for modules in
such a file, so each process would compile them, which is half of what it does until it runs the first rows.

Nor do Spark's workers find pandas: pyarrow imports it with the first array that is made of a list, if it is installed,
and neither ottla nor the jobs of the tests use it. That would be a quarter of what a worker does until then.
"""

import sys

PACKED = ("/python/lib/pyspark.zip", "-src.zip")
WORKERS = ("pyspark.daemon", "pyspark.worker")


class WithoutPandas:
    """Fails the import of pandas, as where it is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing. Raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.path[:] = [entry for entry in sys.path if not entry.endswith(PACKED)]
if not set(WORKERS).isdisjoint(sys.orig_argv):
    sys.meta_path.insert(0, WithoutPandas)

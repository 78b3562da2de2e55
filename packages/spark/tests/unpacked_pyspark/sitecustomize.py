"""Leave the packed PySpark out, if Python starts with this folder in `PYTHONPATH` (`spark_java.unpack_pyspark`).

Spark puts `pyspark.zip` before the installed package for its Python processes. No compiled code is kept for modules in
such a file, so each process would compile them, which is half of what it does until it runs the first rows.
"""

import sys

PACKED = ("/python/lib/pyspark.zip", "-src.zip")

sys.path[:] = [entry for entry in sys.path if not entry.endswith(PACKED)]

"""The Python that Spark starts on the driver for data sources, and whether it has this package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from ottla import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS: Final = 30.0
_LACKS: Final = 3
_PROGRAM: Final = f"""
import importlib.util, sys
sys.exit({_LACKS} if importlib.util.find_spec("ottla_spark") is None else 0)
"""


def check_python_of_spark(spark: SparkSession) -> None:
    """Raise OttlaError if the Python that Spark starts here is another one, without this package.

    A session of Spark Connect starts none here. A Python that is not on this machine is left to Spark.
    """
    named: str | None = getattr(getattr(spark, "_sc", None), "pythonExec", None)
    found = shutil.which(named) if named else None
    if named is None or found is None or os.path.abspath(found) == os.path.abspath(sys.executable):
        return
    try:
        ended = subprocess.run([found, "-c", _PROGRAM], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    if ended.returncode == _LACKS:
        raise OttlaError(
            f"Spark starts {found} for data sources, which has no ottla-spark, and not {sys.executable}, which runs "
            'this program: set os.environ["PYSPARK_PYTHON"] = sys.executable before the session is made, or activate '
            "the environment"
        )

"""Options with which Spark's processes start quickly in tests: an archive of classes, and PySpark's compiled modules.

Half of a short driver's work is loading, verifying and compiling classes. The archive is recorded on first use, which
takes half a minute, and is kept in PySpark's folder. Without it, Spark starts as it always does. Spark's Python
processes import the installed PySpark, except in the long forms, where they import `pyspark.zip`, as Spark has them do.

    python spark_java.py PROGRAM [ARGUMENT]...

runs a Python program with these options.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.class_archive import ClassArchive
from ottla_testkit.java.runtime import java_command

QUICK_START: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # such a JVM runs for seconds
WARM_UP: Final = Path(__file__).with_name("spark_warm_up.py")
UNPACKED: Final = str(Path(__file__).with_name("unpacked_pyspark"))
WITHIN: Final = 300.0  # seconds

_log = logging.getLogger(__name__)


def start_spark_quickly() -> None:
    """Give these options to every driver that this process or a child of it starts; repeating it changes nothing."""
    if "SPARK_SUBMIT_OPTS" not in os.environ:
        os.environ["SPARK_SUBMIT_OPTS"] = quick_options()  # for drivers
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(QUICK_START))  # for the Java that prints a driver's command
    unpack_pyspark()


def unpack_pyspark() -> None:
    """Have Spark's Python processes import the installed PySpark, whose compiled modules are kept."""
    folders = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if UNPACKED not in folders and not os.environ.get("OTTLA_SOAK"):
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, UNPACKED])


@cache
def quick_options() -> str:
    """Return options for a JVM of Spark whose configuration folder is empty or absent; others ignore the archive."""
    try:
        return " ".join((*QUICK_START, *_archive_options(java_command())))
    except (KafkaUnavailableError, OSError, subprocess.SubprocessError) as error:
        _log.debug("Spark starts without a class archive: %s", error)
        return " ".join(QUICK_START)


def _archive_options(java: str) -> Sequence[str]:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        return ()
    kept = Path(spark.origin).with_name(f"classes-of-{version('pyspark')}")
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-spark-classes-") as scratch:
        archive = ClassArchive(java, jars=kept, scratch=Path(scratch))
        with _locked(kept):
            if archive.wanted:
                _warm_up(archive.recording, folder=scratch)
                archive.keep()
        return archive.options


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock of all processes: while one records an archive, the others wait for it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _warm_up(options: Sequence[str], *, folder: str) -> None:
    environment = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": " ".join((*QUICK_START, *options)),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, str(WARM_UP), folder]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=WITHIN)


def main(*command: str) -> None:
    """Continue as the Python program that the command names."""
    start_spark_quickly()
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main(*sys.argv[1:])

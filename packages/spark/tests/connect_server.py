"""A Spark Connect server of the pip-installed PySpark: a process on 127.0.0.1, with cores of its own and no cluster."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from ottla_testkit.errors import ClusterError, tail
from ottla_testkit.java.runtime import java_command
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.processes.process import Process
from spark_java import quick_options, unpack_pyspark

READY_WITHIN: Final = 180.0  # seconds; a busy machine may need two minutes
LOOK_EVERY: Final = 0.05
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address for clients, while the server runs; it prints into `server.log` in *folder*.

    Raises `KafkaUnavailableError` without Java (the same Java runs brokers), else `ClusterError`.
    """
    java_command()
    unpack_pyspark()
    (port,) = free_ports(1)
    process = Process("the Connect server", command=_command(folder, port), log_file=folder / "server.log")
    process.start()
    try:
        _wait(process, port)
        yield f"sc://{HOST}:{port}"
    finally:
        process.kill()


def _command(folder: Path, port: int) -> list[str]:
    home = Path(pyspark.__file__).parent
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "none"),  # no user's own settings
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
    }
    given = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    configured = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    submit = [str(home / "bin/spark-submit"), "--class", SERVER, "--master", "local[2]", *configured]
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *submit]


def _wait(process: Process, port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while True:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        if not process.running or time.monotonic() > deadline:
            raise ClusterError(f"the Connect server does not serve; it printed:\n{tail(process.log)}")
        time.sleep(LOOK_EVERY)

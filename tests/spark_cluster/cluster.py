"""A standalone Spark cluster from the pip-installed PySpark: a master and workers as processes on 127.0.0.1.

Decides what the cluster consists of, and finds its executors so that a test can end one. The driver is the
process that asks for a session; which job runs there is the test's business.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import psutil
import pyspark
from pyspark.sql import SparkSession

from ottla_testkit.errors import ClusterError, tail
from ottla_testkit.java.runtime import java_command
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.processes.interrupts import interrupts_deferred
from ottla_testkit.processes.process import Process
from spark_java import quick_options
from spark_kit import SHARED_SPARK

READY_WITHIN: Final = 180.0  # seconds; a busy machine may need two minutes
LOOK_EVERY: Final = 0.05
HOSTS: Final = (HOST, "localhost")
"""Two names of one machine: Spark runs a task a second time (speculation) only on another host."""

EXECUTOR: Final = "CoarseGrainedExecutorBackend"
PYTHON_WORKERS: Final = "pyspark.daemon"
PYTHONS: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class SparkCluster:
    """`workers` workers with `cores` cores each. Entering returns when all of them are registered.

    Raises `KafkaUnavailableError` without Java (the same Java runs brokers), else `ClusterError`.
    """

    def __init__(self, *, workers: int = 2, cores: int = 1, executor_memory: str = "512m") -> None:
        self.workers = workers
        self.cores = cores
        self.executor_memory = executor_memory
        self._folder: Path | None = None
        self._processes: list[Process] = []
        self._port = 0

    def __enter__(self) -> Self:
        java_command()
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
        try:
            self._launch(self._folder)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def master_url(self) -> str:
        """The address that a session names as its master."""
        return f"spark://{HOST}:{self._port}"

    @contextlib.contextmanager
    def session(self, **config: str) -> Iterator[SparkSession]:
        """A session of this process on all workers; settings by Spark's names, `_` standing for `.`.

        There may be no other session in the process, but for the shared Spark, which ends. Its executors run the Python
        that runs this.
        """
        SHARED_SPARK.end()
        settings: dict[str, bool | float | int | str | None] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": str(self.cores),
            "spark.executor.extraJavaOptions": quick_options(),
            "spark.sql.shuffle.partitions": str(self.workers * self.cores),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        builder = SparkSession.builder.master(self.master_url).appName("ottla").config(map=settings)
        with _this_python():
            session = builder.getOrCreate()
        try:
            if session.sparkContext.master != self.master_url:
                raise ClusterError(f"this process has a session on {session.sparkContext.master} already; stop it")
            yield session
        finally:
            session.stop()

    @property
    def folder(self) -> Path:
        """The folder of the cluster's files, while it exists."""
        if self._folder is None:
            raise ClusterError("the cluster is not running; it does so inside `with`")
        return self._folder

    def executors(self) -> list[psutil.Process]:
        """The executors that are alive, in the order of their workers."""
        return [process for process in self._below() if _runs(process, EXECUTOR)]

    def wait_for_executors(self, count: int | None = None, *, without: psutil.Process | None = None) -> None:
        """Until so many executors (one for each worker) are alive, *without* not being one; else `ClusterError`."""
        wanted = self.workers if count is None else count

        def there() -> bool:
            found = self.executors()
            return len(found) >= wanted and without not in found

        self._wait(f"there are not {wanted} executors", there)

    def python_workers(self) -> list[psutil.Process]:
        """The Python processes in which tasks run, without the daemons that fork them."""
        return python_workers(self._below())

    def kill_executor(self, number: int = 0) -> psutil.Process:
        """End an executor with -9, as a lost machine would, and return the process that it was."""
        executor = self.executors()[number]
        executor.kill()
        return executor

    def close(self) -> None:
        """End every process and remove every file; done by leaving the `with` block."""
        with interrupts_deferred():
            below = self._below()
            for process in self._processes:
                process.kill()
            for left in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    left.kill()
            psutil.wait_procs(below, timeout=READY_WITHIN)
            self._processes = []
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _launch(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        master = self._daemon("master", folder, "--host", HOST, "--port", str(self._port), "--webui-port", "0")
        master.start()
        self._wait("the master does not serve", lambda: "I have been elected leader" in master.log)
        for number in range(1, self.workers + 1):
            host = HOSTS[number % len(HOSTS) - 1]
            size = ("--cores", str(self.cores), "--memory", "2g", "--work-dir", str(folder / f"work{number}"))
            place = ("--host", host, "--webui-port", "0")
            self._daemon("worker", folder, *place, *size, self.master_url, number=number).start()
        registered = re.compile(r"Registering worker ")
        self._wait("the workers are not registered", lambda: len(registered.findall(master.log)) >= self.workers)

    def _daemon(self, kind: str, folder: Path, *arguments: str, number: int = 0) -> Process:
        home = Path(pyspark.__file__).parent
        settings: dict[str, bool | float | int | str | None] = {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder / "none"),  # no user's own settings
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": quick_options(),
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        command = ["env", *(f"{name}={value}" for name, value in settings.items()), str(home / "bin/spark-class")]
        name = f"{kind}{number or ''}"
        main = f"org.apache.spark.deploy.{kind}.{kind.title()}"
        process = Process(name, command=[*command, main, *arguments], log_file=folder / f"{name}.log")
        self._processes.append(process)
        return process

    def _below(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in self._processes:
            if process.running:
                found += psutil.Process(process.pid).children(recursive=True)
        return found

    def _wait(self, trouble: str, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not look():
            ended = [process.name for process in self._processes if not process.running]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{process.name} printed:\n{tail(process.log)}" for process in self._processes)
                raise ClusterError(f"{trouble} (ended: {', '.join(ended) or 'none'})\n{logs}")
            time.sleep(LOOK_EVERY)


def python_workers(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that are Python workers of Spark, without the daemons that fork them."""
    daemons = [process for process in processes if _runs(process, PYTHON_WORKERS)]
    pids = {process.pid for process in daemons}
    return [process for process in daemons if _parent(process) in pids]


@contextlib.contextmanager
def _this_python() -> Iterator[None]:
    # A context reads it once, when it is made.
    before = {name: os.environ.get(name) for name in PYTHONS}
    os.environ.update(dict.fromkeys(PYTHONS, sys.executable))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _runs(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import spark_java
from ottla_testkit.errors import KafkaUnavailableError
from spark_java import QUICK_START, UNPACKED, quick_options, start_spark_quickly, unpack_pyspark


@pytest.fixture(autouse=True)
def forgotten() -> None:
    quick_options.cache_clear()


def test_options_that_are_set_already_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_java, "quick_options", lambda: "-Dquick=true")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=true")
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    start_spark_quickly()

    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=true"
    assert os.environ["SPARK_LAUNCHER_OPTS"] == " ".join(QUICK_START)


def test_without_a_java_spark_gets_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise KafkaUnavailableError("there is no `java`")

    monkeypatch.setattr(spark_java, "java_command", missing)

    assert quick_options() == " ".join(QUICK_START)
    quick_options.cache_clear()


def test_an_archive_is_recorded_once_by_processes_that_start_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded: list[str] = []
    start = threading.Barrier(8)

    def options(_number: int) -> tuple[str, ...]:
        start.wait(60)
        return tuple(spark_java._archive_options(sys.executable))

    def record(options: Sequence[str], *, folder: str) -> None:
        [archive] = [option.partition("=")[2] for option in options if "ArchiveClassesAtExit" in option]
        threading.Event().wait(0.1)  # for the others to find no archive either, if they may
        Path(archive).write_bytes(bytes(1_000))
        recorded.append(folder)

    monkeypatch.setattr(spark_java, "_warm_up", record)
    monkeypatch.setattr(spark_java, "find_spec", lambda _name: ModuleSpec("pyspark", None, origin=str(tmp_path / "x")))
    # Each thread opens the folder for itself, as a process does.
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(options, range(8)))

    [archive] = tmp_path.glob("classes-of-*/*.jsa")
    assert len(recorded) == 1
    assert [f"-XX:SharedArchiveFile={archive}" in each for each in found] == [True]


def test_a_recording_that_fails_leaves_no_archive_and_no_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_options: Sequence[str], *, folder: str) -> None:
        raise subprocess.CalledProcessError(1, folder)

    monkeypatch.setattr(spark_java, "_warm_up", fail)
    monkeypatch.setattr(spark_java, "find_spec", lambda _name: ModuleSpec("pyspark", None, origin=str(tmp_path / "x")))
    monkeypatch.setattr(spark_java, "java_command", lambda: sys.executable)
    for _ in range(2):
        quick_options.cache_clear()
        assert quick_options() == " ".join(QUICK_START)

    quick_options.cache_clear()
    assert not list(tmp_path.glob("classes-of-*/*"))


@pytest.mark.parametrize("before", ["", "/mine"])
def test_processes_of_spark_import_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    monkeypatch.setenv("PYTHONPATH", before)
    monkeypatch.delenv("OTTLA_SOAK", raising=False)
    unpack_pyspark()
    unpack_pyspark()
    packed = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*packed, os.environ["PYTHONPATH"]])}
    command = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    found = json.loads(subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True).stdout)

    assert not set(packed) & set(found)
    assert [folder for folder in found if folder in ("/mine", UNPACKED)] == [*filter(None, [before]), UNPACKED]


@pytest.mark.parametrize(("command", "found"), [(["-m", "pyspark.daemon"], "False"), (["program.py"], "True")])
def test_workers_of_spark_do_without_pandas(command: list[str], found: str, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark/__init__.py").touch()
    for module in ("pyspark/daemon.py", "program.py"):
        (tmp_path / module).write_text(
            "import pyarrow as pa; pa.array([1]); import sys; print('pandas' in sys.modules)"
        )
    environment = {**os.environ, "PYTHONPATH": UNPACKED}
    command = [sys.executable, *command]
    ended = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )

    assert ended.stdout == f"{found}\n"


def test_long_forms_import_the_packed_pyspark_as_spark_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("OTTLA_SOAK", "1")
    unpack_pyspark()

    assert os.environ["PYTHONPATH"] == "/mine"


def test_a_program_runs_with_these_options(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, sys; print(os.environ['SPARK_SUBMIT_OPTS'], sys.argv[1:])")
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": "-Dmine=true"}
    command = [sys.executable, spark_java.__file__, str(program), "--stream"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)

    assert ended.stdout == "-Dmine=true ['--stream']\n"

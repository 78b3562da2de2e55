"""`register` refuses a Python of Spark without the package, because the error of a write would not name the cause."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ottla_spark
from ottla import OttlaError
from ottla_spark.data_source_api import HAS_DATA_SOURCES

pytestmark = pytest.mark.skipif(not HAS_DATA_SOURCES, reason="this PySpark has no data sources in Python")


class Session:
    """A session that starts this Python; it notes what is registered."""

    def __init__(self, python: str | None) -> None:
        self.registered: list[object] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)
        self._sc = SimpleNamespace(pythonExec=python)

    def createDataFrame(self, _rows: Any, _schema: str) -> None: ...


def python(folder: Path, options: str) -> str:
    """A Python with these options, under a name of its own."""
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
    path.chmod(0o755)
    return str(path)


def registered(session: Session) -> int:
    ottla_spark.register(session)  # type: ignore[arg-type]
    return len(session.registered)


def test_a_python_of_spark_without_the_package_is_refused_with_the_remedy(tmp_path: Path) -> None:
    bare = python(tmp_path, "-I -S")
    session = Session(bare)

    with pytest.raises(OttlaError, match="has no ottla-spark") as refused:
        ottla_spark.register(session)  # type: ignore[arg-type]

    assert bare in str(refused.value)
    assert 'set os.environ["PYSPARK_PYTHON"] = sys.executable before the session is made' in str(refused.value)
    assert session.registered == []


def test_another_python_with_the_package_is_taken(tmp_path: Path) -> None:
    assert registered(Session(python(tmp_path, ""))) == 1


def test_a_python_that_cannot_be_asked_is_left_to_spark(tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    broken.write_text("not a program")
    broken.chmod(0o755)

    assert [registered(Session(each)) for each in (str(broken), "./environment/bin/python", None)] == [1, 1, 1]


def test_the_python_of_the_program_is_not_started() -> None:
    assert registered(Session(sys.executable)) == 1

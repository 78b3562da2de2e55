"""Files that settings name are read only if they are regular and small, and opening one never waits."""

from __future__ import annotations

import ast
import functools
import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from ottla.config.regular_files import FileTooLargeError, read_regular_file, reason_of

PLUGINS: Final = (
    "ottla_authenticator_sasl",
    "ottla_opentelemetry",
    "ottla_reporter_prometheus",
    "ottla_serializer_schema_registry",
    "ottla_transport_plaintext",
    "ottla_transport_ssl",
)

OPENING: Final = {"open", "read_text", "read_bytes"}

ELSEWHERE: Final = {
    "system_store.py": "the authorities of the system, whose kind it checks",
}
"""Modules of plugins that open files which no setting names."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_a_file_is_read_up_to_its_limit(folder: Path) -> None:
    assert read_regular_file(str(folder / "file"), max_bytes=7) == b"content"
    with pytest.raises(FileTooLargeError, match="it is larger than 6 bytes"):
        read_regular_file(str(folder / "file"), max_bytes=6)


@pytest.mark.parametrize("name", ["pipe", "folder", "/dev/zero"])
def test_another_kind_of_file_is_refused_and_left_closed(folder: Path, name: str) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_regular_file(str(folder / name), max_bytes=9)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("path", "said"), [("/no/such/file", "No such file or directory"), ("a\0b", "embedded null "), ("", "No such")]
)
def test_the_reason_of_an_unreadable_file_leaves_out_its_name(path: str, said: str) -> None:
    with pytest.raises((OSError, ValueError)) as caught:
        read_regular_file(path, max_bytes=9)
    assert said in reason_of(caught.value)


# The source


@functools.cache
def opening() -> Sequence[str]:
    """Calls in plugins that open a file by its name, by module and line."""
    return list(_opening())


def _opening() -> Iterator[str]:
    for plugin in PLUGINS:
        for file in sorted(Path(str(importlib.import_module(plugin).__file__)).parent.rglob("*.py")):
            if "conformance" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call) and _called(node.func) in OPENING:
                    yield f"{file.name}:{node.lineno}"


def _called(function: ast.expr) -> str:
    """The name of a function that opens files; a method `open` of another object is none."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        of_os = isinstance(function.value, ast.Name) and function.value.id in ("os", "io")
        return function.attr if function.attr != "open" or of_os else ""
    return ""


@pytest.mark.unmeasured
def test_plugins_open_no_file_that_a_setting_names() -> None:
    assert {place.partition(":")[0] for place in opening()} == set(ELSEWHERE)

"""Compiled code reads exactly the slots that the core names, and refuses a core that names others."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from pkgutil import resolve_name
from typing import NamedTuple

import pytest

import ottla
import ottla_accel
from ottla import RecordMetadata, interfaces
from ottla.recordbatch import native_layout
from ottla_accel import layout


def test_it_is_compiled_for_the_names_and_the_order_of_the_core() -> None:
    assert layout.VERSION == native_layout.VERSION
    assert layout.SLOTS == native_layout.SLOTS
    assert layout.METADATA_ITEMS == native_layout.METADATA_ITEMS
    layout.check()


@pytest.mark.parametrize(("slot", "offset"), list(zip(native_layout.SLOTS, layout.offsets(), strict=True)))
def test_each_offset_is_where_the_interpreter_keeps_the_attribute(slot: str, offset: int) -> None:
    path, _, attribute = slot.rpartition(".")
    cls, thing = resolve_name(path), object()
    owner = cls.__new__(cls)
    object.__setattr__(owner, attribute, thing)

    assert offset + ctypes.sizeof(ctypes.c_void_p) <= cls.__basicsize__
    assert ctypes.c_void_p.from_address(id(owner) + offset).value == id(thing)


def test_a_tuple_made_in_memory_equals_one_of_its_class() -> None:
    layout.check_tuples(RecordMetadata)


class Pair(NamedTuple):
    """A tuple of two."""

    a: object
    b: object


class Derived(Pair):
    """A tuple whose class may have added attributes."""


def swapped(cls: type[Pair], a: object, b: object) -> Pair:
    return tuple.__new__(cls, (b, a))


@pytest.mark.parametrize(
    ("cls", "what"),
    [(Derived, "the layout of Derived is not that of a tuple"), (Pair, "a Pair made in memory is another one than in")],
)
def test_tuples_of_another_layout_are_refused(
    cls: type[tuple[object, ...]], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pair, "__new__", swapped)

    with pytest.raises(ImportError, match=rf"^ottla-accel \S+ does not know the objects of \S+ \S+: {what}") as raised:
        layout.check_tuples(cls)

    assert str(raised.value).endswith("; try: pip install --upgrade ottla-accel, or set record.encoder=python")


def remedy() -> str:
    return f"try: pip install --upgrade ottla-accel ottla=={ottla.__version__}"


@pytest.mark.parametrize(
    ("changed", "there"),
    [
        ({"VERSION": 7}, "7"),
        ({"SLOTS": native_layout.SLOTS[::-1]}, f"{native_layout.VERSION} with other names"),
        ({"METADATA_ITEMS": ("topic",)}, f"{native_layout.VERSION} with other names"),
    ],
)
def test_another_layout_is_refused_with_the_command_that_helps(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], there: str
) -> None:
    for name, value in changed.items():
        monkeypatch.setattr(native_layout, name, value)

    with pytest.raises(ImportError) as raised:
        layout.check()

    assert str(raised.value) == (
        f"ottla-accel {ottla_accel.__version__} is compiled for layout {layout.VERSION} of the core's objects, "
        f"and that of ottla {ottla.__version__} is {there}; {remedy()}"
    )


def test_a_core_without_a_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ottla.recordbatch.native_layout")
    monkeypatch.setitem(sys.modules, "ottla.recordbatch.native_layout", None)

    with pytest.raises(ImportError, match=r"that of ottla \S+ is none; try: pip install --upgrade ottla-accel"):
        layout.check()


def test_the_plugin_is_refused_before_anything_compiled_uses_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_layout, "VERSION", 7)
    for name in ("plugin", "columns", "sending"):
        monkeypatch.delitem(sys.modules, f"ottla_accel.{name}", raising=False)

    with pytest.raises(ImportError, match="compiled for layout"):
        importlib.import_module("ottla_accel.plugin")

    assert "ottla_accel.columns" not in sys.modules


def test_a_core_that_lacks_names_of_the_plugin_is_refused_for_its_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_layout, "VERSION", 7)
    monkeypatch.delattr(interfaces, "SupportsHashes")
    monkeypatch.delitem(sys.modules, "ottla_accel.plugin", raising=False)

    with pytest.raises(ImportError, match="compiled for layout"):
        importlib.import_module("ottla_accel.plugin")


PROGRAM = """
import logging
from ottla import InvalidPluginError, Producer
from ottla.recordbatch import native_layout
native_layout.VERSION = 7
logging.basicConfig(format="%(levelname)s %(message)s")
for _ in range(2):
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        print(type(producer._engine.plugins.encoder).__name__, "send" in vars(producer))
try:
    Producer(bootstrap_servers="127.0.0.1:1", record_encoder="native")
except InvalidPluginError as error:
    print(error)
try:
    import ottla_accel.columns
except ImportError as error:
    print(error)
import ottla_accel.crc32c
"""


def test_a_producer_warns_and_encodes_in_python_unless_native_is_set() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)

    chosen, error, of_extension = done.stdout.splitlines()[:2], *done.stdout.splitlines()[2:]
    warnings = [line for line in done.stderr.splitlines() if "is left out: " in line]
    assert chosen == ["ObjectEncoder False"] * 2
    assert len(warnings) == 2
    assert all(line.startswith("WARNING ") for line in warnings)
    for line in (*warnings, error):
        assert "encoder 'native' of ottla-accel" in line
        assert "is compiled for layout" in line
        assert line.endswith(remedy())
    assert of_extension.endswith(remedy())

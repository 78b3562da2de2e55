"""Without the GIL the compiled code is not loaded, and the core encodes in Python."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import ottla_accel

PROGRAM = """
import logging
import sys
sys._is_gil_enabled = lambda: False
from ottla import InvalidPluginError, Producer
logging.basicConfig(format="%(levelname)s %(message)s")
with Producer(bootstrap_servers="127.0.0.1:1") as producer:
    print(type(producer._engine.plugins.encoder).__name__)
try:
    Producer(bootstrap_servers="127.0.0.1:1", record_encoder="native")
except InvalidPluginError as error:
    print(error)
print([name for name in sys.modules if name.startswith("ottla_accel.") and name != "ottla_accel.gil"])
"""


def test_without_the_gil_the_import_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)

    with pytest.raises(ImportError, match="needs the GIL, and this Python runs without it, so the core encodes"):
        importlib.reload(ottla_accel)


def test_without_the_gil_a_producer_warns_and_encodes_in_python() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)

    encoder, error, compiled = done.stdout.splitlines()
    [warning] = [line for line in done.stderr.splitlines() if "is left out: " in line]
    assert (encoder, compiled) == ("ObjectEncoder", "[]")
    assert warning.startswith("WARNING ")
    for line in (warning, error):
        assert "encoder 'native' of ottla-accel" in line
        assert "cannot be imported: ImportError: ottla-accel needs the GIL" in line
        assert line.endswith("record.encoder=python avoids this message")

"""The choice of the code that computes the checksums of batches."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ottla.recordbatch import checksum

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import ottla.recordbatch.parse
from ottla.recordbatch.checksum import crc32c
print(crc32c(b"123456789"), crc32c(b"6789", crc32c(b"12345")), "crc32c" in sys.modules)
"""


def printed(*missing: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing)], capture_output=True, text=True, check=True, timeout=60
    )
    return ended.stdout.strip()


def test_the_crc32c_package_is_used_if_nothing_is_compiled() -> None:
    assert printed("ottla_accel", "ottla_accel.crc32c") == f"{0xE3069283} {0xE3069283} True"


def test_the_crc32c_package_is_not_imported_if_ottla_accel_is_used() -> None:
    pytest.importorskip("ottla_accel.crc32c", exc_type=ImportError)

    assert printed() == f"{0xE3069283} {0xE3069283} False"
    assert printed("crc32c") == f"{0xE3069283} {0xE3069283} False"  # it may be missing


def test_a_compiled_package_that_cannot_be_loaded_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ImportError(f"{name}: undefined symbol")

    monkeypatch.setattr(checksum, "import_module", fail)

    assert checksum.find_checksum()(b"123456789") == 0xE3069283

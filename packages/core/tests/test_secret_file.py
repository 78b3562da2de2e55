"""A key that OpenSSL reads from a path is in memory, or for a moment in a file of this user's alone."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from ottla.config import secret_file as module
from ottla.config.secret_file import secret_file


def test_the_file_can_be_read_repeatedly_and_is_gone_afterwards() -> None:
    with secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert Path(path).read_bytes() == b"secret"
        identity = os.stat(path).st_ino

    assert not os.path.exists(path) or os.stat(path).st_ino != identity


@pytest.mark.skipif(sys.platform != "linux", reason="memory files are Linux's")
def test_on_linux_the_file_is_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with secret_file(b"secret") as path:
        assert os.readlink(path).startswith("/memfd:")
        assert list(tmp_path.iterdir()) == []


def test_on_other_systems_only_its_owner_may_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with module._on_disk(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    assert list(tmp_path.iterdir()) == []


def test_the_file_is_removed_when_the_block_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="x"), module._on_disk(b"secret"):
        raise RuntimeError("x")

    assert list(tmp_path.iterdir()) == []

"""The system's authorities are read before the first connection, and again when their folder has changed."""

from __future__ import annotations

import errno
import os
import re
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.config import ConfigDraft
from ottla_transport_ssl import TlsLayer, context_reload, system_store
from ottla_transport_ssl.context_reload import Setups
from ottla_transport_ssl.keys import KEYS, read
from ottla_transport_ssl.system_store import trust_system
from tls_peers import HANG_GUARD, Peer, shake, tcp_pair, transport


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder of authorities, and no file of them."""
    made = tmp_path / "certs"
    made.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(made))
    return made


def setups() -> Setups:
    values = ConfigDraft.read({"bootstrap.servers": "b:9093"}).claim(KEYS, plugin="ssl")
    return Setups(read(values), client_id="shop")


def trusted() -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust_system(context)
    return context.cert_store_stats()["x509_ca"]


@pytest.mark.rule("security.tls.system-store")
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_store_read_with_too_many_open_files_is_an_error(
    folder: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Else no authority would be trusted until the folder changes."""
    ca.cert_pem.write_to_path(str(folder / "0a1b2c3d.0"))

    def refused(_file: str) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system_store, "_read", refused)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        trusted()


@pytest.mark.rule("security.tls.system-store")
def test_an_authority_that_may_not_be_read_is_skipped(
    folder: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        (ca if number else trustme.CA()).cert_pem.write_to_path(str(folder / f"0a1b2c3d.{number}"))
    read_file = system_store._read

    def first_refused(file: str) -> bytes:
        if file.endswith(".0"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read_file(file)

    monkeypatch.setattr(system_store, "_read", first_refused)
    assert trusted() == 1


@pytest.mark.rule("security.tls.system-store")
def test_a_folder_of_authorities_is_read_before_any_handshake(folder: Path, ca: trustme.CA) -> None:
    ca.cert_pem.write_to_path(str(folder / "0a1b2c3d.0"))
    made = setups()

    assert made.current().context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.rule("security.tls.system-store")
def test_a_hanging_folder_delays_no_connection(folder: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    ca.cert_pem.write_to_path(str(folder / "0a1b2c3d.0"))
    made = setups()
    first = made.current()
    asked, answers, listed = threading.Event(), threading.Event(), os.listdir

    def hang(path: Any) -> list[str]:
        asked.set()
        assert answers.wait(HANG_GUARD), "the test has not let it answer"
        return listed(path)

    monkeypatch.setattr(os, "listdir", hang)
    monkeypatch.setattr(context_reload, "FILES_TIMEOUT", 0.01)
    trustme.CA().cert_pem.write_to_path(str(folder / "0a1b2c3d.1"))
    os.utime(folder, (1, 1))

    assert made.current() is first
    assert asked.wait(HANG_GUARD)
    assert made.current() is first
    answers.set()
    for thread in threading.enumerate():
        if thread.name == "ottla-tls-files":
            thread.join(HANG_GUARD)
    assert made.current().context.cert_store_stats()["x509_ca"] == 2


@pytest.mark.rule("security.tls.system-store")
def test_an_added_authority_is_trusted_by_the_next_connection(
    folder: Path, ca: trustme.CA, server_context: ssl.SSLContext
) -> None:
    made = transport({})
    new = folder / "0a1b2c3d.0"
    ca.cert_pem.write_to_path(str(new))
    os.utime(folder, (1, 1))
    ours, theirs = tcp_pair()
    layer, peer = made.open(ours, "localhost", 9093), Peer(theirs, server_context)
    assert isinstance(layer, TlsLayer)

    shake(layer, peer)
    layer.close()
    theirs.close()


def test_files_that_openssl_would_not_read_are_skipped(folder: Path, ca: trustme.CA) -> None:
    for name in ("authority.pem", "0a1b2c3d", "0A1B2C3D.0", "0a1b2c3d.r0", "0a1b2c3d.0.bak"):
        ca.cert_pem.write_to_path(str(folder / name))
    (folder / "11111111.0").write_text("no certificate")
    (folder / "22222222.0").symlink_to(folder / "missing")
    os.mkfifo(folder / "33333333.0")
    (folder / "44444444.0").mkdir()
    assert trusted() == 0
    ca.cert_pem.write_to_path(str(folder / "55555555.0"))

    assert trusted() == 1


def test_several_folders_and_a_file_are_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more").mkdir()
    for place in (folder / "0a1b2c3d.0", tmp_path / "more" / "0a1b2c3d.0", tmp_path / "file.pem"):
        trustme.CA().cert_pem.write_to_path(str(place))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "file.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", f"{folder}{os.pathsep}{tmp_path / 'none'}{os.pathsep}{tmp_path / 'more'}")

    assert trusted() == 3


def test_without_variables_the_default_paths_of_openssl_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    whole = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    whole.load_default_certs()

    assert trusted() >= whole.cert_store_stats()["x509_ca"]

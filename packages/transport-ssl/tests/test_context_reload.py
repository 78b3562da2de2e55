"""Files are checked for each new connection: new ones are used, broken ones ignored, and expiry is logged in time."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from authority_kit import Authority

from ottla.config import ConfigDraft
from ottla.errors import ConfigError
from ottla_transport_ssl import TlsLayer, TlsTransport, context_reload
from ottla_transport_ssl.context_reload import SOON, Setups
from ottla_transport_ssl.keys import KEYS, read
from tls_peers import HANG_GUARD, Peer, shake, tcp_pair, transport

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Day:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def setups(written: dict[str, Any], clock: Callable[[], datetime]) -> Setups:
    values = ConfigDraft.read({"bootstrap.servers": "b:9093", **written}).claim(KEYS, plugin="ssl")
    return Setups(read(values), client_id="shop", clock=clock)


def replace(file: Path, content: bytes) -> None:
    """As those do it who renew certificates: a new file takes the old one's name."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, file)


def written(leaf: trustme.LeafCert) -> bytes:
    return leaf.private_key_and_cert_chain_pem.bytes()


@pytest.fixture
def demanding(server_context: ssl.SSLContext, ca: trustme.CA) -> ssl.SSLContext:
    ca.configure_trust(server_context)
    server_context.verify_mode = ssl.CERT_REQUIRED
    return server_context


def shown(made: TlsTransport, context: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection shows."""
    ours, theirs = tcp_pair()
    layer, peer = made.open(ours, "localhost", 9093), Peer(theirs, context)
    assert isinstance(layer, TlsLayer)
    shake(layer, peer)
    layer.close()
    theirs.close()
    certificate: Any = peer.tls.getpeercert()
    return str(certificate["subjectAltName"][0][1])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings, all of which begin with the client id."""
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in found if not line.startswith(("shop: ", "producer: "))] == []
    return found


def test_a_new_certificate_is_used_by_new_connections_only(
    trusting: dict[str, Any], demanding: ssl.SSLContext, ca: trustme.CA, tmp_path: Path
) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("first.example.com")))
    made = transport({**trusting, "ssl.keystore.location": str(file)})
    ours, theirs = tcp_pair()
    layer, peer = made.open(ours, "localhost", 9093), Peer(theirs, demanding)
    assert isinstance(layer, TlsLayer)

    replace(file, written(ca.issue_cert("second.example.com")))

    shake(layer, peer)  # begun before
    assert (peer.tls.getpeercert() or {})["subjectAltName"] == (("DNS", "first.example.com"),)
    assert shown(made, demanding) == "second.example.com"
    layer.close()
    theirs.close()


def test_new_authorities_are_trusted(
    server_context: ssl.SSLContext, ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "authorities.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    clock = Day()
    made = setups({"ssl.truststore.location": str(file)}, clock)
    first = made.current()
    assert made.current() is first, "nothing changed: nothing is read"

    replace(file, ca.cert_pem.bytes())

    assert made.current() is not first
    assert made.current().context is not first.context
    [(_source, authority)] = made.current().given
    assert "Test authority" in authority.subject
    assert "shop: the TLS files have changed; new connections use them" in caplog.messages


@pytest.mark.parametrize("broken", [b"", b"hello", b"-----BEGIN CERTIFICATE-----", None])
def test_invalid_new_files_change_nothing_and_are_logged_once(
    ca: trustme.CA, tmp_path: Path, broken: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("first.example.com")))
    made = setups({"ssl.keystore.location": str(file)}, Day())
    first = made.current()

    if broken is None:
        file.unlink()
    else:
        replace(file, broken)
    assert [made.current() for _ in range(3)] == [first] * 3
    assert len(warnings(caplog)) == 1
    assert f"the old ones stay in use: the configuration cannot be used: ssl.keystore.location={file}" in caplog.text

    replace(file, written(ca.issue_cert("second.example.com")))
    assert made.current() is not first
    assert len(warnings(caplog)) == 1


def test_a_key_written_before_its_certificate_waits_for_it(ca: trustme.CA, tmp_path: Path) -> None:
    file = tmp_path / "ours.pem"
    old, new = ca.issue_cert("first.example.com"), ca.issue_cert("second.example.com")
    file.write_bytes(written(old))
    made = setups({"ssl.keystore.location": str(file)}, Day())
    first = made.current()

    replace(file, new.private_key_pem.bytes() + old.cert_chain_pems[0].bytes())
    assert made.current() is first
    replace(file, written(new))
    assert made.current().ours != first.ours


def test_a_file_changed_in_place_is_noticed(ca: trustme.CA, tmp_path: Path) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("first.example.com")))
    made = setups({"ssl.keystore.location": str(file)}, Day())
    first = made.current()

    file.write_bytes(written(ca.issue_cert("a.rather.longer.name.example.com")))

    assert made.current() is not first


def test_a_certificate_that_expires_soon_is_logged_once_in_time(
    ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ours.pem"
    end = NOW + timedelta(days=100)
    file.write_bytes(written(ca.issue_cert("first.example.com", common_name="us", not_after=end)))
    clock = Day()
    made = setups({"ssl.keystore.location": str(file)}, clock)
    clock.now = end - SOON
    made.current()
    assert warnings(caplog) == []

    clock.now = end - SOON + timedelta(seconds=1)
    made.current()
    made.current()

    [said] = warnings(caplog)
    assert said.startswith(f"shop: ssl.keystore.location={file}: the certificate of 'CN=us")
    assert said.endswith("expires on 2026-09-09 00:00 UTC")


def test_an_expired_certificate_is_logged_when_the_producer_is_created(
    ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("x", not_after=NOW - timedelta(days=1))))
    setups({"ssl.keystore.location": str(file)}, Day())

    assert "expired on 2026-05-31 00:00 UTC" in caplog.text


def test_expired_authorities_of_one_file_are_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authorities = [Authority(f"authority {number}", days=number) for number in range(-5, 1)]
    file = tmp_path / "bundle.pem"
    file.write_bytes(b"".join(each.pem for each in [*authorities, Authority("a good one", days=400)]))
    clock = Day()
    clock.now = datetime.now(UTC) - timedelta(days=1, hours=1)
    made = setups({"ssl.truststore.location": str(file)}, clock)
    made.current()

    [said] = warnings(caplog)
    what = "4 certificates have expired, and 2 expire within 30 days"
    assert said.startswith(f"shop: ssl.truststore.location={file}: {what}")
    assert said.count("'CN=authority ") == 3
    assert "'CN=authority -5' on " in said
    assert said.endswith(", and 3 more")


class Hanging:
    """`os.stat` of a file that answers only when a test says so, as on a network file system whose server is gone."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        stat = os.stat

        def hang(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
            if path == str(file):
                self.asked.set()
                assert self.answers.wait(HANG_GUARD), "the test has not let it answer"
            return stat(path, *arguments, **options)

        monkeypatch.setattr(os, "stat", hang)


def reading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ottla-tls-files"]


def test_a_hanging_file_system_delays_no_connection(
    trusting: dict[str, Any],
    demanding: ssl.SSLContext,
    ca: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("first.example.com")))
    made = transport({**trusting, "ssl.keystore.location": str(file)})
    replace(file, written(ca.issue_cert("second.example.com")))
    hanging = Hanging(file, monkeypatch)
    monkeypatch.setattr(context_reload, "FILES_TIMEOUT", 0.01)

    assert shown(made, demanding) == "first.example.com"
    monkeypatch.setattr(context_reload, "FILES_TIMEOUT", 3600.0)
    assert shown(made, demanding) == "first.example.com", "only the first connection waits, for a moment"
    assert hanging.asked.wait(HANG_GUARD)
    assert len(reading()) == 1
    assert warnings(caplog) == []

    monkeypatch.setattr(context_reload, "SLOW", 0.0)
    for _ in range(3):
        shown(made, demanding)
    [said] = warnings(caplog)
    assert "reading the TLS files has not ended for 0 s; new connections use what was read before" in said
    assert str(file) in said

    hanging.answers.set()
    for thread in reading():
        thread.join(HANG_GUARD)
    assert shown(made, demanding) == "second.example.com"


@contextlib.contextmanager
def too_many_open_files() -> Iterator[None]:
    """A block in which this process has as many files open as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("what", ["ssl.truststore.location", "ssl.keystore.location", "ssl.keystore.key", "system"])
def test_too_many_open_files_are_reported_as_that(ca: trustme.CA, tmp_path: Path, what: str) -> None:
    file = tmp_path / "store.pem"
    leaf = ca.issue_cert("x")
    file.write_bytes(written(leaf))
    given = {
        "ssl.keystore.key": {
            "ssl.keystore.key": leaf.private_key_pem.bytes().decode(),
            "ssl.keystore.certificate.chain": leaf.cert_chain_pems[0].bytes().decode(),
            "ssl.truststore.certificates": ca.cert_pem.bytes().decode(),
        },
        "system": {},
    }.get(what, {"ssl.truststore.certificates": ca.cert_pem.bytes().decode(), what: str(file)})
    if what == "ssl.truststore.location":
        given.pop("ssl.truststore.certificates")
    setups(given, Day())

    with too_many_open_files(), pytest.raises(ConfigError) as caught:
        setups(given, Day())

    assert ("the system's authorities" if what == "system" else what) in str(caught.value)
    assert "Too many open files; close unused files and sockets, or raise the limit of open files (ulimit -n" in str(
        caught.value
    )


def test_new_files_are_read_again_after_too_many_were_open(
    ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(ca.cert_pem.bytes())
    made = setups({"ssl.truststore.location": str(file)}, Day())
    first = made.current()
    replace(file, trustme.CA().cert_pem.bytes())

    with too_many_open_files():
        assert made.current() is first
        assert made.current() is first
    [said] = warnings(caplog)
    assert "Too many open files; close unused files and sockets" in said
    assert made.current() is not first


def test_without_files_no_thread_is_started(ca: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    made = setups({"ssl.truststore.certificates": ca.cert_pem.bytes().decode()}, Day())
    monkeypatch.setattr(threading, "Thread", None)

    assert made.current() is made.current()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError(), KeyboardInterrupt()])
def test_if_no_thread_can_start_the_old_files_are_used(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(ca.cert_pem.bytes())
    made = setups({"ssl.truststore.location": str(file)}, Day())
    first = made.current()
    replace(file, trustme.CA().cert_pem.bytes())

    def full(_thread: threading.Thread) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        if isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                made.current()
        else:
            assert made.current() is first
    assert made.current() is not first


def test_an_error_while_files_are_read_is_logged_and_old_ones_are_used(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(ca.cert_pem.bytes())
    made = setups({"ssl.truststore.location": str(file)}, Day())
    first = made.current()
    replace(file, trustme.CA().cert_pem.bytes())

    def fault(_settings: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(context_reload, "make_setup", fault)
        assert made.current() is first
    assert "shop: reading the TLS files failed; new connections use what was read before" in caplog.text
    assert "a fault of ours" in caplog.text
    assert made.current() is not first


def test_a_renewed_certificate_is_watched_too(ca: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ours.pem"
    file.write_bytes(written(ca.issue_cert("x", not_after=NOW + timedelta(days=1))))
    clock = Day()
    made = setups({"ssl.keystore.location": str(file)}, clock)
    replace(file, written(ca.issue_cert("x", not_after=NOW + timedelta(days=365))))
    made.current()
    assert len(warnings(caplog)) == 1

    clock.now += timedelta(days=360)
    made.current()
    assert len(warnings(caplog)) == 2

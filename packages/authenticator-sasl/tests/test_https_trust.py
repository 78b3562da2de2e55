"""The identity server has authorities, a client certificate and a proxy of its own."""

from __future__ import annotations

import base64
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme
from locked_keys import locked_pem

from ottla.errors import ConnectionFailedError, TlsHandshakeError
from ottla_authenticator_sasl.deadline_http import Proxy, proxy_for
from ottla_authenticator_sasl.https_trust import HttpsTrust
from ottla_authenticator_sasl.web_address import Address
from sasl_plugins import mechanism, problem
from token_endpoints import Answer, Listener, TokenServer

CLIENT = {
    "sasl.oauthbearer.client.credentials.client.id": "kafka",
    "sasl.oauthbearer.client.credentials.client.secret": "s3cret-of-the-client",
}
URL = "sasl.oauthbearer.token.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@attrs.frozen
class Pki:
    """An authority that no other test uses, and the files of a client."""

    authority: trustme.CA
    folder: Path

    def client(self, *, password: str | None = None) -> tuple[Path, Path]:
        issued = self.authority.issue_cert("client@example.com")
        certificate, key = self.folder / "client.pem", self.folder / "client.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        if password is not None:
            from cryptography.hazmat.primitives import serialization

            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
            key.write_bytes(
                loaded.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.BestAvailableEncryption(password.encode()),
                )
            )
        return certificate, key

    @property
    def ca(self) -> Path:
        path = self.folder / "ca.pem"
        self.authority.cert_pem.write_to_path(path)
        return path


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(trustme.CA(), tmp_path)


@pytest.fixture
def server(pki: Pki) -> Iterator[TokenServer]:
    """Wants a certificate of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki.authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    pki.authority.configure_trust(context)
    with TokenServer(lambda _asked: Answer.of(access_token="abc", expires_in=3600), tls=context).serving() as serving:
        yield serving


def first(settings: dict[str, Any]) -> bytes:
    """The first message, with a token."""
    made: Any = mechanism("OAUTHBEARER", CLIENT | settings)
    try:
        message: bytes = made.authenticator("kafka", 9092).start()
        return message
    finally:
        made.close()


def test_the_files_name_the_authority_and_the_client_certificate(server: TokenServer, pki: Pki) -> None:
    certificate, key = pki.client()
    files = {"https.ca.location": str(pki.ca), "https.certificate.location": str(certificate)}

    assert b"Bearer abc" in first({URL: server.url(), **files, "https.key.location": str(key)})


def test_an_encrypted_key_is_opened_with_its_password(server: TokenServer, pki: Pki) -> None:
    certificate, key = pki.client(password="s3cret")
    files = {
        "https.ca.location": str(pki.ca),
        "https.certificate.location": str(certificate),
        "https.key.location": str(key),
    }

    assert b"Bearer abc" in first({URL: server.url(), **files, "https.key.password": "s3cret"})
    for password in ({}, {"https.key.password": "wr0ng"}):
        said = problem("OAUTHBEARER", CLIENT | {URL: server.url(), **files, **password})
        assert "https.certificate.* and https.key.* cannot be used for the identity server" in said
        assert "s3cret" not in said
        assert "wr0ng" not in said


def test_texts_work_like_files_and_leave_no_file_behind(
    server: TokenServer, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = pki.client()
    texts = {
        "https.ca.pem": pki.ca.read_text(),
        "https.certificate.pem": certificate.read_text(),
        "https.key.pem": key.read_text(),
    }
    (pki.folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(pki.folder / "tmp"))

    assert b"Bearer abc" in first({URL: server.url(), **texts})
    assert os.listdir(pki.folder / "tmp") == []


def test_options_of_the_java_login_module_are_read(server: TokenServer, pki: Pki) -> None:
    certificate, key = pki.client()
    store = pki.folder / "store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    jaas = (
        f'{MODULE} ssl.truststore.location="{pki.ca}" ssl.truststore.type="PEM" ssl.keystore.location="{store}" '
        "ssl.keystore.type=PEM;"
    )

    assert b"Bearer abc" in first({URL: server.url(), "sasl.jaas.config": jaas})


def test_a_server_of_another_authority_is_refused(server: TokenServer, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")

    with pytest.raises(TlsHandshakeError, match=r"certificate verify failed.*https\.ca\.location"):
        first({URL: server.url(), "https.ca.location": str(tmp_path / "other.pem")})


def test_a_renewed_authority_is_used_by_the_next_connection(server: TokenServer, pki: Pki) -> None:
    certificate, key = pki.client()
    trust = HttpsTrust(ca_file=str(pki.ca), certificate_file=str(certificate), key_file=str(key))
    before = len(trust.context().get_ca_certs())
    trustme.CA().cert_pem.write_to_path(pki.folder / "second.pem")
    (pki.folder / "ca.pem").write_bytes((pki.folder / "ca.pem").read_bytes() + (pki.folder / "second.pem").read_bytes())

    assert len(trust.context().get_ca_certs()) == before + 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"https.ca.location": "/nowhere/ca.pem"}, "https.ca.location cannot be used for the identity server: No such"),
        ({"https.ca.pem": "nothing"}, "https.ca.pem cannot be used for the identity server"),
        ({"https.ca.pem": "a", "https.ca.location": "b"}, "https.ca.location and https.ca.pem are both set"),
        ({"https.key.location": "a"}, "https.key.location or https.key.pem is set without its certificate"),
        ({"https.certificate.pem": "a"}, "https.certificate.pem needs https.key.pem"),
        ({"https.certificate.location": "/nowhere"}, "https.certificate.location cannot be used for the identity"),
        (
            {"sasl.jaas.config": f'{MODULE} ssl.truststore.type="JKS";'},
            "must be PEM, the only type for the identity server",
        ),
        ({"sasl.jaas.config": f'{MODULE} ssl.provider="x";'}, "ssl.provider in sasl.jaas.config is not supported"),
        (
            {"sasl.jaas.config": f'{MODULE} ssl.truststore.location="a";', "https.ca.location": "b"},
            "https.ca.location and ssl.truststore.location in sasl.jaas.config are both given",
        ),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(settings: dict[str, str], said: str) -> None:
    assert said in problem("OAUTHBEARER", CLIENT | {URL: "https://127.0.0.1:1/"} | settings)


@pytest.mark.parametrize("key", ["https.ca.location", "https.certificate.location", "https.key.location"])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_a_special_file_is_refused_without_waiting(pki: Pki, key: str, kind: str) -> None:
    certificate, _ = pki.client()
    os.mkfifo(pki.folder / "pipe")
    files = {"https.certificate.location": str(certificate), key: str(pki.folder / kind)}

    said = problem("OAUTHBEARER", CLIENT | {URL: "https://127.0.0.1:1/"} | files)

    assert f"{key} cannot be used for the identity server: it is not a regular file" in said


def test_a_key_with_too_many_iterations_is_refused_at_once(pki: Pki) -> None:
    certificate, key = pki.client()
    key.write_bytes(locked_pem(2**31 - 1))
    base = CLIENT | {URL: "https://127.0.0.1:1/", "https.key.password": "secret"}
    as_file = {"https.certificate.location": str(certificate), "https.key.location": str(key)}
    as_text = {"https.certificate.pem": certificate.read_text(), "https.key.pem": key.read_text()}

    for setting, more in (("https.key.location", as_file), ("https.key.pem", as_text)):
        said = problem("OAUTHBEARER", base | more)
        assert f"{setting} cannot be used for the identity server: its encryption needs more than 5,000,000" in said


# The proxy


class HttpProxy(Listener):
    """A proxy that connects clients with its password, and keeps the heads of requests."""

    def __init__(self, status: str = "200 OK") -> None:
        super().__init__()
        self.heads: list[bytes] = []
        self._status = status

    def _serve(self, sock: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        self.heads.append(head)
        host, port = head.split()[1].decode().split(":")
        sock.sendall(f"HTTP/1.1 {self._status}\r\nX-Secret: foreign-words\r\n\r\n".encode())
        if not self._status.startswith("200"):
            sock.close()
            return
        behind = socket.create_connection((host, int(port)))
        self._open.append(behind)
        threading.Thread(target=self._copy, args=(behind, sock), daemon=True).start()
        self._copy(sock, behind)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of them has left


def through(proxy: HttpProxy, pki: Pki, server: TokenServer) -> bytes:
    certificate, key = pki.client()
    files = {"https.ca.location": str(pki.ca), "https.certificate.location": str(certificate)}
    return first({URL: server.url(), **files, "https.key.location": str(key)})


def test_the_proxy_of_the_environment_is_used(server: TokenServer, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://alice:p%40ss@127.0.0.1:{proxy.port}")

        assert b"Bearer abc" in through(proxy, pki, server)
    [head] = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"alice:p@ss") + b"\r\n" in head
    assert "Proxy-Authorization" not in server.asked[0].headers


def test_a_host_in_no_proxy_is_connected_to_directly(
    server: TokenServer, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "example.com,127.0.0.1")
    with HttpProxy() as proxy:
        assert b"Bearer abc" in through(proxy, pki, server)


def test_a_refusal_by_a_proxy_is_reported_without_its_text(
    server: TokenServer, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpProxy("407 foreign-words") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://alice:s3cret@127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectionFailedError) as caught:
            through(proxy, pki, server)

    assert f"the proxy 127.0.0.1:{proxy.port} refused the connection, with status 407" in str(caught.value)
    assert "foreign-words" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("written", ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://:1", "http://127.0.0.1:x"])
def test_an_unusable_proxy_is_reported(
    written: str, pki: Pki, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", written)
    with HttpProxy() as proxy, pytest.raises(ConnectionFailedError, match="must be http://host:port"):
        through(proxy, pki, server)


@pytest.mark.parametrize("password", ["9183/s3cret", "9183?s3cret", "9183#s3cret", "hunter@2183#s3cret", "9183//"])
def test_no_part_of_a_password_that_is_not_percent_encoded_is_quoted(
    password: str, pki: Pki, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://alice:{password}@127.0.0.1:1")
    with HttpProxy() as proxy, pytest.raises(ConnectionFailedError, match="are percent-encoded; other") as caught:
        through(proxy, pki, server)

    words = set(re.findall(r"\w+", str(caught.value)))  # ports are words, too, and may have such digits in them
    assert words & {"alice", "183", "9183", "2183", "s3cret"} == set()


def test_a_slash_at_the_end_of_a_proxys_address_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128/")

    proxy = proxy_for(Address.read("https://idp.example.com/"))

    assert proxy == Proxy(host="proxy.example.com", port=3128)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-proxy.invalid"])
def test_a_proxy_that_cannot_be_reached_is_named(
    host: str, pki: Pki, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://alice:s3cret@{host}:1")
    with HttpProxy() as proxy, pytest.raises(ConnectionFailedError, match=f"the proxy {host}:1, which the") as caught:
        through(proxy, pki, server)

    assert "s3cret" not in str(caught.value)


def test_plain_http_uses_its_own_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.example.com:3128")
    assert proxy_for(Address.read("https://idp.example.com/")) is None

    assert proxy_for(Address.read("http://idp.example.com/")) == Proxy(host="proxy.example.com", port=3128)


def test_a_plain_http_request_names_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with TokenServer(lambda _asked: Answer.of(access_token="abc", expires_in=3600)).serving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://u:p@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", "http://idp.invalid/token?tenant=7")

        assert b"Bearer abc" in first({URL: "http://idp.invalid/token?tenant=7"})
    assert proxy.asked[0].path == "http://idp.invalid/token?tenant=7"
    assert proxy.asked[0].headers["Host"] == "idp.invalid"
    assert proxy.asked[0].headers["Proxy-Authorization"] == "Basic " + base64.b64encode(b"u:p").decode()

"""An identity server is asked as RFC 6749 says; every response becomes a token or an error with the reason."""

from __future__ import annotations

import base64
import logging
import re
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from frames import found_in_frames
from hypothesis import given
from hypothesis import strategies as st
from without_ipv6 import WithoutIPv6, addresses

from ottla.concurrency.single_flight import MAX_RUNNING
from ottla.errors import AuthenticationError, ConnectionFailedError, SecurityError, TlsHandshakeError
from ottla_authenticator_sasl.bearer_token import ClaimNames, Token
from ottla_authenticator_sasl.deadline_http import MAX_ANSWER, MAX_INTERIM
from ottla_authenticator_sasl.deadline_http import Answer as Received
from ottla_authenticator_sasl.host_names import HostNames
from ottla_authenticator_sasl.token_cache import Retry
from ottla_authenticator_sasl.token_endpoint import ClientCredentials, TokenEndpoint
from ottla_authenticator_sasl.web_address import Address
from token_endpoints import Answer, Asked, Speaker, TokenServer, dripping, jwt, wait_until

SECRET = "s3cret-of-the-client"
FORMS_OF_THE_SECRET = [SECRET, base64.b64encode(f"kafka:{SECRET}".encode()).decode()]
NOW = 1_800_000_000.0
GOOD = Answer.of(access_token="abc", expires_in=60, token_type="Bearer")


def endpoint(url: str, **changes: Any) -> TokenEndpoint:
    settings: dict[str, Any] = {
        "names": ClaimNames(),
        "connect_timeout": 10.0,
        "read_timeout": 10.0,
        "retry": Retry(first=0.001, longest=0.002),
        "closing": threading.Event(),
        "clock": lambda: NOW,
    }
    credentials = changes.pop("credentials", ClientCredentials(client_id="kafka", secret=SECRET, scope="a b"))
    return TokenEndpoint(Address.read(url), credentials, **settings | changes)


@pytest.fixture
def serve() -> Iterator[Callable[..., TokenServer]]:
    """Starts a server that gives these answers in a row, the last one again and again."""
    stack: list[Any] = []

    def start(*answers: Answer, tls: ssl.SSLContext | None = None) -> TokenServer:
        left = list(answers)
        lock = threading.Lock()

        def answer(_asked: Asked) -> Answer:
            with lock:
                return left.pop(0) if len(left) > 1 else left[0]

        serving = TokenServer(answer, tls=tls).serving()
        stack.append(serving)
        return serving.__enter__()

    yield start
    for serving in stack:
        serving.__exit__(None, None, None)


Serve = Callable[..., TokenServer]


def error_of(asked: TokenEndpoint, kind: type[ConnectionFailedError]) -> str:
    """The error when there is no token; it never contains the secret, in any form."""
    with pytest.raises(ConnectionFailedError) as caught:
        asked.fetch()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert not any(form in message for form in FORMS_OF_THE_SECRET)
    return message


def test_the_client_credentials_grant_is_used(serve: Serve) -> None:
    server = serve(GOOD)

    assert endpoint(server.url("/realms/x/token?tenant=7")).fetch() == Token("abc", (NOW + 60) * 1000)
    (asked,) = server.asked
    assert asked.path == "/realms/x/token?tenant=7"
    assert asked.body == "grant_type=client_credentials&scope=a+b"
    assert asked.headers["Authorization"] == "Basic " + base64.b64encode(f"kafka:{SECRET}".encode()).decode()
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_names_are_url_encoded_only_if_configured(serve: Serve) -> None:
    server = serve(GOOD)
    for urlencoded in (False, True):
        credentials = ClientCredentials(client_id="a:b", secret="ü/", urlencoded=urlencoded)
        endpoint(server.url(), credentials=credentials).fetch()

    sent = [base64.b64decode(asked.headers["Authorization"].split()[1]).decode() for asked in server.asked]
    assert sent == ["a:b:ü/", "a%3Ab:%C3%BC%2F"]
    assert {asked.body for asked in server.asked} == {"grant_type=client_credentials"}


@pytest.mark.parametrize(
    ("fields", "expires_at"),
    [
        ({"expires_in": 60}, NOW + 60),
        ({"expires_in": "60"}, NOW + 60),
        ({"expires_in": 59.5}, NOW + 59.5),
        ({"access_token": jwt(exp=NOW + 30), "expires_in": 60}, NOW + 30),
        ({"access_token": jwt(exp=NOW + 90), "expires_in": 60}, NOW + 60),
        ({"access_token": jwt(exp=NOW + 90)}, NOW + 90),
        ({"access_token": None, "id_token": jwt(exp=NOW + 90)}, NOW + 90),
    ],
)
def test_the_earlier_of_two_expiry_times_counts(serve: Serve, fields: dict[str, Any], expires_at: float) -> None:
    token = endpoint(serve(Answer.of(**{"access_token": "abc"} | fields)).url()).fetch()

    assert token.expires_at_ms == expires_at * 1000


@pytest.mark.parametrize("lifetime", [None, -1, "soon", "9" * 400, True, 1e300, [], {}])
def test_an_invalid_lifetime_is_unknown(serve: Serve, lifetime: Any) -> None:
    assert endpoint(serve(Answer.of(access_token="abc", expires_in=lifetime)).url()).fetch() == Token("abc")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(
            Answer.of(401, error="invalid_client", error_description="no such client"),
            "status 401, error invalid_client; check the client's id, secret and scope",
            id="refused",
        ),
        pytest.param(Answer.of(400, error=SECRET), "status 400, error ***; check", id="the secret for a code"),
        pytest.param(Answer.of(400, error="root:x:0:0\n"), "status 400; check", id="a line break in the code"),
        pytest.param(Answer.of(400, error="a" * 65), "status 400; check", id="a long code"),
        pytest.param(Answer.of(400, error={"a": "b"}), "status 400; check", id="an object for a code"),
        pytest.param(
            Answer(status=403, body=b"AWS_SECRET_ACCESS_KEY=abc"),
            "status 403; check",
            id="a foreign page",
        ),
        pytest.param(Answer(body=b""), "has no access_token", id="empty"),
        pytest.param(Answer(body=b"<html>"), "has no access_token", id="a page that is fine"),
        pytest.param(Answer(body=b"[" * 100_000), "has no access_token", id="deep"),
        pytest.param(Answer(body=b'["access_token"]'), "has no access_token", id="an array"),
        pytest.param(Answer.of(access_token=7), "has no access_token", id="a number for a token"),
        pytest.param(Answer.of(access_token="a\x01b"), "returned an invalid token", id="a hostile token"),
        pytest.param(Answer(body=b" " * (MAX_ANSWER + 1)), f"more than {MAX_ANSWER} bytes", id="huge"),
        pytest.param(
            Answer(status=302, headers={"Location": "http://169.254.169.254/"}),
            "responded with a redirect (302), which is not followed",
            id="redirect",
        ),
    ],
)
def test_a_response_without_a_token_is_an_error_at_once(serve: Serve, answer: Answer, said: str) -> None:
    server = serve(answer)

    message = error_of(endpoint(server.url(), retry=Retry(first=0.001, longest=5)), AuthenticationError)
    assert said in message
    assert f"the token endpoint http://127.0.0.1:{server.port}/token" in message
    assert len(message) < 1000
    assert len(server.asked) == 1


FOREIGN = "internal-page-of-another-team"


@pytest.mark.rule("security.identity.answer")
@pytest.mark.parametrize(
    "answer",
    [
        Answer.of(400, error="invalid_grant", error_description=FOREIGN),
        Answer.of(400, error=f"x {FOREIGN}"),
        Answer.of(200, message=FOREIGN),
        Answer.of(503, message=FOREIGN),
        Answer(status=404, body=FOREIGN.encode()),
        Answer(status=302, headers={"Location": f"https://{FOREIGN}/"}),
    ],
)
def test_no_error_quotes_a_response_of_the_server(serve: Serve, answer: Answer) -> None:
    with pytest.raises(ConnectionFailedError) as caught:
        endpoint(serve(answer).url()).fetch()

    assert FOREIGN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.rule("security.identity.answer")
@pytest.mark.parametrize(
    "line", [f"HTTP/1.1 {FOREIGN}", FOREIGN, f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{FOREIGN}"]
)
def test_no_error_quotes_a_response_that_is_not_http(line: str) -> None:
    speak = Speaker(lambda sock: sock.sendall(line.encode() + b"\r\n\r\n"))
    with speak as speaker, pytest.raises(ConnectionFailedError) as caught:
        endpoint(speaker.url, retry=Retry(first=1.0, longest=0.5)).fetch()

    assert "its response is not HTTP" in str(caught.value)
    assert FOREIGN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_temporary_errors_are_retried(serve: Serve, status: int) -> None:
    server = serve(Answer.of(status), Answer.of(status), GOOD)

    assert endpoint(server.url(), retry=Retry(first=0.001, longest=20)).fetch().value == "abc"
    assert len(server.asked) == 3


def test_permanent_errors_are_connection_errors(serve: Serve) -> None:
    message = error_of(endpoint(serve(Answer.of(503, error="busy")).url()), ConnectionFailedError)

    assert "responded with status 503, error busy" in message


def test_an_unreachable_server_is_a_connection_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/token"

        assert re.search(r"no token could be fetched from .*: \[Errno", error_of(endpoint(url), ConnectionFailedError))


def test_a_silent_server_is_abandoned_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        asking = pool.submit(endpoint(url, connect_timeout=60.0, read_timeout=0.05).fetch)

        assert "timed out" in str(asking.exception(20))


def test_a_response_that_trickles_in_is_abandoned_in_time(serve: Serve) -> None:
    server = serve(Answer(body=b" " * 100_000, trickle=0.02))

    assert "timed out" in error_of(endpoint(server.url(), read_timeout=0.1), ConnectionFailedError)


DRIPS = {
    "status line": (b"", b"H"),
    "headers": (b"HTTP/1.1 200 OK\r\nX-Drip: ", b"x"),
    "answers that announce one": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
    "chunk sizes": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"a: b\r\n"),
}


@pytest.mark.rule("security.identity.deadline")
@pytest.mark.parametrize(("start", "drip"), DRIPS.values(), ids=DRIPS)
def test_a_response_of_single_bytes_is_abandoned_in_time(start: bytes, drip: bytes) -> None:
    with Speaker(dripping(start, drip)) as speaker, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(endpoint(speaker.url, read_timeout=0.2).fetch)

        assert "timed out" in str(asking.exception(10))


@pytest.mark.rule("security.identity.deadline")
def test_a_handshake_of_single_bytes_is_abandoned_in_time() -> None:
    # The first bytes of a TLS record that never ends.
    with Speaker(dripping(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", b"\x00")) as speaker, ThreadPoolExecutor(1) as pool:
        asked = endpoint(speaker.url.replace("http:", "https:"), connect_timeout=0.2)

        assert "timed out" in str(pool.submit(asked.fetch).exception(10))


TOKEN = b'{"access_token": "abc", "expires_in": 60}'
FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(TOKEN) + TOKEN
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\n\r\n"


def saying(words: bytes) -> Callable[[socket.socket], None]:
    """A server that sends this and then reads, so that no reset overtakes it."""

    def speak(sock: socket.socket) -> None:
        sock.sendall(words)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass

    return speak


@pytest.mark.parametrize(
    "interim",
    [
        HINTS,
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 199\r\n\r\n",
        HINTS + b"HTTP/1.1 100 Continue\r\n\r\n" + HINTS,
        HINTS * MAX_INTERIM,
    ],
    ids=["103", "102", "without words", "several", "the most"],
)
def test_interim_responses_do_not_end_the_exchange(interim: bytes) -> None:
    with Speaker(saying(interim + FINAL)) as speaker:
        assert endpoint(speaker.url).fetch() == Token("abc", (NOW + 60) * 1000)


@pytest.mark.parametrize("interim", [HINTS, b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["103", "100"])
def test_endless_interim_responses_are_refused(interim: bytes) -> None:
    with Speaker(saying(interim * (MAX_INTERIM + 1) + FINAL)) as speaker:
        said = error_of(endpoint(speaker.url), ConnectionFailedError)

    assert "it sent more than 64 interim responses (1xx) before a final one" in said


def test_a_protocol_switch_is_not_an_interim_response() -> None:
    with Speaker(saying(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + FINAL)) as speaker:
        assert "responded with status 101" in error_of(endpoint(speaker.url), AuthenticationError)


def test_interim_responses_count_towards_the_response_size() -> None:
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 60_000) for number in range(20))
    with Speaker(saying(b"HTTP/1.1 103 Early Hints\r\n" + lines + b"\r\n" + FINAL)) as speaker:
        assert "more than 1048576 bytes" in error_of(endpoint(speaker.url), AuthenticationError)


@pytest.mark.rule("security.identity.deadline")
def test_slow_interim_responses_are_abandoned_in_time() -> None:
    with Speaker(dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n")) as speaker:
        assert "timed out" in error_of(endpoint(speaker.url, read_timeout=0.3), ConnectionFailedError)


class NameService:
    """Stands in for the C library's look-up of names, and says nothing until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []
        self._real = socket.getaddrinfo

    def __call__(self, host: str, port: int, *, type: int, flags: int = 0) -> Any:
        if flags & socket.AI_NUMERICHOST or host == "127.0.0.1":
            return self._real(host, port, type=type, flags=flags)
        self.asked.append(host)
        assert self.released.wait(20)
        return self._real("127.0.0.1", port, type=type)


@pytest.fixture
def silent_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameService]:
    service = NameService()
    monkeypatch.setattr(socket, "getaddrinfo", service)
    yield service
    service.released.set()
    wait_until(lambda: not any(each.name == "ottla-token-lookup" for each in threading.enumerate()))


NO_RETRY = Retry(first=20.0, longest=20.0)


@pytest.mark.rule("security.identity.deadline")
@pytest.mark.parametrize("proxy", [None, "http://proxy.example:3128"], ids=["of the endpoint", "of a proxy"])
def test_an_unresolved_name_is_abandoned_in_time(
    proxy: str | None, silent_names: NameService, monkeypatch: pytest.MonkeyPatch
) -> None:
    if proxy is not None:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
    asked = endpoint("https://idp.example.com/token", connect_timeout=0.2, retry=NO_RETRY)

    name = "idp.example.com" if proxy is None else "proxy.example"
    assert f"the host name {name} could not be resolved in time" in error_of(asked, ConnectionFailedError)


@pytest.mark.rule("security.identity.deadline")
def test_a_later_fetch_does_not_wait_for_a_lookup_that_timed_out(serve: Serve, silent_names: NameService) -> None:
    limit = 1.0
    asked = endpoint(serve(GOOD).url(host="idp.example.com"), connect_timeout=limit, retry=NO_RETRY)
    error_of(asked, ConnectionFailedError)
    first = silent_names.asked.copy()
    hung, silent_names.released = silent_names.released, threading.Event()
    silent_names.released.set()
    # The look-up has the same limit, but began a little later: until it ends, another fetch would join it.
    threading.Event().wait(limit / 2)
    try:
        assert asked.fetch().value == "abc"
    finally:
        hung.set()
    assert silent_names.asked == first * 2


def test_lookups_that_hang_take_few_threads(silent_names: NameService) -> None:
    """A fetch may join the look-up of the fetch before it, whose limit ends a little later."""
    asked = endpoint("https://idp.example.com/token", connect_timeout=0.02, retry=NO_RETRY)
    hung = "the host name idp.example.com could not be resolved in time"
    while hung in (error := error_of(asked, ConnectionFailedError)):
        pass

    assert "the name service has not returned the address of" in error
    assert len(silent_names.asked) == MAX_RUNNING
    assert sum(each.name == "ottla-token-lookup" for each in threading.enumerate()) == MAX_RUNNING


def test_an_unknown_host_name_is_a_connection_error() -> None:
    said = error_of(endpoint("http://nowhere.invalid/token"), ConnectionFailedError)

    assert re.search(r"no token could be fetched from .*: \[Errno", said)


def without_ipv6(monkeypatch: pytest.MonkeyPatch, port: int, *families: socket.AddressFamily) -> TokenEndpoint:
    """An endpoint whose name has an address of each family, on a host without IPv6."""
    found = addresses(port, *families)
    monkeypatch.setattr(HostNames, "look_up", lambda *_arguments: found)
    monkeypatch.setattr(socket, "socket", WithoutIPv6)
    return endpoint(f"http://idp.invalid:{port}/token")


def test_without_ipv6_the_other_addresses_are_tried(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    port = serve(GOOD).port
    assert without_ipv6(monkeypatch, port, socket.AF_INET6, socket.AF_INET).fetch().value == "abc"


@pytest.mark.parametrize(
    ("families", "reason"),
    [
        ([socket.AF_INET6, socket.AF_INET], "refused"),
        ([socket.AF_INET, socket.AF_INET6], "refused"),
        ([socket.AF_INET6], "Address family not supported"),
    ],
)
def test_without_ipv6_the_error_is_that_of_another_address(
    families: list[socket.AddressFamily], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reason in error_of(without_ipv6(monkeypatch, 1, *families), ConnectionFailedError)


@pytest.mark.rule("security.identity.deadline")
def test_a_server_that_reads_nothing_is_abandoned_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        credentials = ClientCredentials(client_id="kafka", secret=SECRET, scope="s" * 20_000_000)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
        asking = pool.submit(endpoint(url, credentials=credentials, read_timeout=0.2).fetch)

        assert "timed out" in str(asking.exception(10))


@pytest.mark.rule("security.identity.deadline")
def test_all_attempts_share_one_deadline(serve: Serve) -> None:
    asked = endpoint(
        serve(Answer.of(503)).url(), connect_timeout=0.2, read_timeout=0.2, retry=Retry(first=0.01, longest=60)
    )
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(asked.fetch).exception(20), ConnectionFailedError)


@pytest.mark.parametrize("words", [b"SSH-2.0\r\n", b"HTTP/1.1 abc\r\n\r\n", b"", b"\x00" * 100])
def test_a_server_of_another_protocol_is_a_connection_error(words: bytes) -> None:
    with Speaker(lambda sock: sock.sendall(words)) as speaker:
        asked = endpoint(speaker.url, retry=Retry(first=1.0, longest=0.5))

        assert "no token could be fetched from" in error_of(asked, ConnectionFailedError)


def test_close_ends_the_wait(serve: Serve) -> None:
    server = serve(Answer.of(503))
    closing = threading.Event()
    asked = endpoint(server.url(), retry=Retry(first=4.0, longest=100.0), closing=closing)

    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(asked.fetch)
        wait_until(lambda: len(server.asked) == 1)
        closing.set()
        with pytest.raises(ConnectionFailedError, match="the producer was closed before the token endpoint"):
            fetching.result(20)


def tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def test_https_is_verified_against_the_trust_store_of_the_system(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    server = serve(GOOD, tls=tls(authority, "127.0.0.1"))
    assert "certificate verify failed" in error_of(endpoint(server.url()), TlsHandshakeError)

    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert endpoint(server.url()).fetch().value == "abc"
    assert "not valid for 'localhost'" in error_of(endpoint(server.url(host="localhost")), TlsHandshakeError)


def test_a_server_without_tls_is_reported_as_such(serve: Serve) -> None:
    server = serve(GOOD)

    assert "it must use TLS" in error_of(endpoint(server.url().replace("http:", "https:")), TlsHandshakeError)


def test_a_secret_sent_unencrypted_over_a_network_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    endpoint("http://127.0.0.1/token")
    endpoint("https://idp.example.com/token")
    assert caplog.messages == []
    endpoint("http://idp.example.com/token")

    assert caplog.messages == [
        "the token endpoint http://idp.example.com/token receives the client's secret without encryption; use https"
    ]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "it must be https://host/path"),
        ("idp.example.com/secret", "it must be https://host/path"),
        ("ftp://idp/secret", "it must be https://host/path"),
        ("https:///secret", "it must be https://host/path"),
        ("https://user:secret@idp/", "neither a user nor a fragment"),
        ("https://idp/#secret", "neither a user nor a fragment"),
        ("https://@idp/", "neither a user nor a fragment"),
        ("https://idp/#", "neither a user nor a fragment"),
        ("https://idp%2esecret/", "without escapes"),
        ("https://idp\\\\@secret/", "ASCII without blanks"),
        ("https://idp:secret/", "its host or port cannot be read"),
        ("https://[idp/secret", "its host or port cannot be read"),
        ("https://idp/a secret", "ASCII without blanks"),
        ("https://idp/ü", "ASCII without blanks"),
        ("https://idp/a\r\nHost: secret", "ASCII without blanks"),
    ],
)
def test_an_invalid_url_is_refused_without_being_quoted(url: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - checked below
        Address.read(url)

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@given(st.text() | st.text().map("https://".__add__))
def test_any_url_is_parsed_or_refused(url: str) -> None:
    try:
        address = Address.read(url)
    except ValueError:
        return
    assert str(address).startswith("http")


@given(st.binary(max_size=300) | st.from_regex(r'\{"(access_token|expires_in|error)": ?.{0,30}\}').map(str.encode))
def test_any_response_is_a_token_or_an_ottla_error(body: bytes) -> None:
    asked = endpoint("https://idp/token")
    for status in (200, 302, 401, 503):
        try:
            assert asked._token_from(Received(status=status, body=body), NOW).value
        except SecurityError:
            assert status != 503
        except ConnectionFailedError:
            assert status == 503


def test_no_log_line_shows_the_secret_or_a_token(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asked = endpoint(serve(Answer.of(503), GOOD).url(), retry=Retry(first=0.001, longest=20))
    token = asked.fetch()

    assert "tried again in" in caplog.text
    assert SECRET not in caplog.text + repr(asked) + repr(vars(asked))
    assert "abc" not in caplog.text + repr(token)


@pytest.mark.parametrize(
    "speak",
    [
        lambda sock: sock.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"),
        lambda sock: sock.sendall(b"no HTTP\r\n\r\n"),
        lambda sock: sock.close(),
        lambda sock: sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2_000_000),
        dripping(b"", b"H"),
    ],
    ids=["refused", "no HTTP", "closed", "huge", "dripping"],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_frame_of_an_error_holds_the_secret(speak: Callable[[socket.socket], object], scheme: str) -> None:
    """Reporters of errors print the variables of every frame."""
    with Speaker(speak) as speaker, pytest.raises(ConnectionFailedError) as caught:
        endpoint(speaker.url.replace("http", scheme), connect_timeout=0.3, read_timeout=0.3).fetch()

    assert found_in_frames(caught.value, FORMS_OF_THE_SECRET) == set()


def unusable_trust() -> ssl.SSLContext:
    raise TlsHandshakeError("https.ca.location cannot be used")


def test_no_frame_of_an_unusable_trust_store_holds_the_secret(serve: Serve) -> None:
    with pytest.raises(TlsHandshakeError, match=r"https\.ca\.location") as caught:
        endpoint(serve(GOOD).url().replace("http:", "https:"), context=unusable_trust).fetch()

    assert found_in_frames(caught.value, FORMS_OF_THE_SECRET) == set()


def test_no_frame_of_a_look_up_that_hangs_holds_the_secret(silent_names: NameService) -> None:
    asked = endpoint("https://idp.example.com/token", connect_timeout=0.02, retry=NO_RETRY)
    for _ in range(MAX_RUNNING + 1):  # the last one is refused, because as many threads hang
        with pytest.raises(ConnectionFailedError) as caught:
            asked.fetch()

        assert found_in_frames(caught.value, FORMS_OF_THE_SECRET) == set()

"""The request to an HTTP proxy and its responses, as bytes: whatever comes, no byte too many is read."""

from __future__ import annotations

import random

import pytest

from ottla.errors import ConnectionFailedError, NameResolutionError, ProtocolMismatchError
from ottla_transport_http_connect_example.negotiation import MAX_HEAD, MAX_INTERIM, Login, negotiation

ALICE = Login("alice", "sécret")
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
BROKER = b"HTTP/1.1 what the broker says\r\n\r\n"


def talk(answer: bytes, *, host: str = "kafka", port: int = 9092, login: Login | None = None) -> tuple[bytes, bytes]:
    """The bytes sent to a proxy with this answer, and the rest of the answer."""
    exchanges = negotiation(host, port, proxy="proxy:3128", login=login)
    said = b""
    exchange = next(exchanges)
    while True:
        said += exchange.send
        assert 0 < exchange.receive <= len(answer), f"{exchange.receive} bytes are waited for, and {answer!r} comes"
        heard, answer = answer[: exchange.receive], answer[exchange.receive :]
        try:
            exchange = exchanges.send(heard)
        except StopIteration:
            return said, answer


def refusal(answer: bytes, login: Login | None = None) -> str:
    with pytest.raises(ConnectionFailedError) as caught:
        talk(answer, login=login)
    return str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 204 \r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 200 OK\r\n\n",
        b"HTTP/1.1 200 OK\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX: a\rb\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
    ],
)
@pytest.mark.parametrize("broker", [b"", BROKER, b"\n", b"\r\n\r\n"])
def test_after_a_success_the_next_byte_is_the_brokers(answer: bytes, broker: bytes) -> None:
    said, left = talk(answer + broker)

    assert said == b"CONNECT kafka:9092 HTTP/1.1\r\nHost: kafka:9092\r\n\r\n"
    assert left == broker


def test_the_login_is_sent_as_basic_authentication() -> None:
    said, _left = talk(OK, login=ALICE)

    assert said.endswith(b"\r\nProxy-Authorization: Basic YWxpY2U6c8OpY3JldA==\r\n\r\n")


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", b"10.0.0.1:9092"),
        ("::1", b"[::1]:9092"),
        ("kafka_1.example.com", b"kafka_1.example.com:9092"),
        ("bücher.example", b"xn--bcher-kva.example:9092"),
    ],
)
def test_hosts_are_written_as_in_a_request_line(host: str, written: bytes) -> None:
    assert talk(OK, host=host)[0].startswith(b"CONNECT " + written + b" HTTP/1.1\r\nHost: " + written + b"\r\n")


@pytest.mark.parametrize("host", ["a b", "kafka\r\nX: y", "a..b", "", "kafka/x", "user@kafka"])
def test_a_name_that_could_change_the_request_is_refused(host: str) -> None:
    with pytest.raises(NameResolutionError, match="cannot be the name of a host"):
        talk(OK, host=host)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"403 Forbidden", "(403 'Forbidden'); its rules do not allow it"),
        (b"502 Bad Gateway", "cannot reach the host"),
        (b"504", "(504); the host did not answer in time"),
        (b"405 Method Not Allowed", "takes no CONNECT; check http.connect.proxy"),
        (b"418 I'm a teapot", "its log may say why"),
        (b"302 Found", "its log may say why"),
        (b"407 Proxy Authentication Required", "set http.connect.username and http.connect.password"),
        (b"401 Unauthorized", "set http.connect.username and http.connect.password"),
    ],
)
def test_a_refusal_is_reported_with_its_reason_and_a_remedy(line: bytes, words: str) -> None:
    said = refusal(b"HTTP/1.1 " + line + b"\r\nContent-Length: 5\r\n\r\nno no")

    assert said.startswith("the HTTP proxy proxy:3128 does not connect us to kafka:9092 (")
    assert words in said


def test_a_refused_login_names_the_user_and_never_the_password() -> None:
    echoed = "sécret YWxpY2U6c8OpY3JldA==".encode()
    said = refusal(b"HTTP/1.1 407 Wrong " + echoed + b"\r\n\r\n", login=ALICE)

    assert "it refused the login of 'alice'; check http.connect.username and http.connect.password" in said
    assert "cret" not in said.replace("[hidden]", "")
    assert "YWxp" not in said
    assert "cret" not in repr(ALICE)


@pytest.mark.parametrize("answer", [b"\x05\x00\x00\x01\x00", b"SSH-2.0-x", b"\x15\x03\x03\x00\x02"])
def test_another_protocol_is_recognised_by_its_first_bytes(answer: bytes) -> None:
    with pytest.raises(ProtocolMismatchError, match=r"does not speak HTTP.*connection\.via=ssl,http-connect"):
        talk(answer)


@pytest.mark.parametrize("line", [b"HTTP/2 200", b"HTTP/1.1 20 OK", b"HTTP/1.1 OK", b"HTTP/1.1 2000 OK"])
def test_a_line_that_is_no_status_line_is_refused_and_quoted(line: bytes) -> None:
    with pytest.raises(ProtocolMismatchError, match="no status line"):
        talk(line + b"\r\n\r\n")


def test_a_response_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ProtocolMismatchError, match="has no end"):
        talk(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MAX_HEAD)


def test_endless_interim_responses_are_refused() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    assert talk(interim * MAX_INTERIM + OK)[1] == b""

    with pytest.raises(ProtocolMismatchError, match="too many interim responses, the last one with status 103"):
        talk(interim * (MAX_INTERIM + 1) + OK)


def test_random_responses_are_an_error_of_the_connection_or_wait_for_more() -> None:
    for seed in range(2_000):
        chance = random.Random(seed)
        parts = [OK, b"\r\n\r\n", b"HTTP/1.1 ", b"100", b"407 ", b"\n", chance.randbytes(5)]
        answer = b"HTTP/" + b"".join(chance.choices(parts, k=chance.randrange(8)))
        exchanges = negotiation("kafka", 9092, proxy="proxy:3128", login=ALICE)
        exchange = next(exchanges)
        try:
            while exchange.receive <= len(answer):
                heard, answer = answer[: exchange.receive], answer[exchange.receive :]
                exchange = exchanges.send(heard)
        except (StopIteration, ConnectionFailedError, ProtocolMismatchError):
            pass

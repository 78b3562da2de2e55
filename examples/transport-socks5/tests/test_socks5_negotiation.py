"""The negotiation with a proxy, as bytes: what RFC 1928 and 1929 define, and answers that are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.errors import ConnectionFailedError, NameResolutionError, ProtocolMismatchError
from ottla.plugins.transports import Exchange
from ottla_transport_socks5_example.negotiation import UserPassword, negotiation

ALICE = UserPassword(b"alice", b"secret")
TO_KAFKA = b"\x05\x01\x00\x03\x05kafka\x23\x84"


def talk(answers: Sequence[bytes], *, host: str = "kafka", login: UserPassword | None = None) -> list[Exchange]:
    """All exchanges of a negotiation that succeeds with these answers of the proxy."""
    exchanges = negotiation(host, 9092, proxy="proxy:1080", login=login)
    taken = [next(exchanges)]
    for answer in answers[:-1]:
        assert len(answer) == taken[-1].receive
        taken.append(exchanges.send(answer))
    with pytest.raises(StopIteration):
        exchanges.send(answers[-1])
    return taken


def refusal(
    answers: Sequence[bytes], *, host: str = "kafka", login: UserPassword | None = None
) -> ConnectionFailedError:
    """The error that the last of these responses raises."""
    exchanges = negotiation(host, 9092, proxy="proxy:1080", login=login)
    next(exchanges)
    for answer in answers[:-1]:
        exchanges.send(answer)
    with pytest.raises(ConnectionFailedError) as caught:
        exchanges.send(answers[-1])
    return caught.value


def destination(host: str) -> bytes:
    """The address in the request to connect."""
    said = talk([b"\x05\x00", b"\x05\x00", b"\x00\x01\x7f", bytes(5)], host=host)[1].send
    assert said[:3] == b"\x05\x01\x00"
    return said[3:]


def test_a_proxy_without_login_is_sent_the_broker_address_at_once() -> None:
    assert talk([b"\x05\x00", b"\x05\x00", b"\x00\x01\x7f", b"\x00\x00\x01\x04\x38"]) == [
        Exchange(b"\x05\x01\x00", 2),
        Exchange(TO_KAFKA, 2),
        Exchange(b"", 3),
        Exchange(b"", 5),
    ]


def test_a_proxy_that_requires_the_login_gets_it() -> None:
    assert talk([b"\x05\x02", b"\x01\x00", b"\x05\x00", b"\x00\x01\x7f", bytes(5)], login=ALICE) == [
        Exchange(b"\x05\x02\x00\x02", 2),
        Exchange(b"\x01\x05alice\x06secret", 2),
        Exchange(TO_KAFKA, 2),
        Exchange(b"", 3),
        Exchange(b"", 5),
    ]


def test_the_login_is_not_sent_to_a_proxy_that_does_not_require_it() -> None:
    exchanges = talk([b"\x05\x00", b"\x05\x00", b"\x00\x01\x7f", bytes(5)], login=ALICE)

    assert not any(b"alice" in exchange.send for exchange in exchanges)


@pytest.mark.parametrize(
    ("host", "sent"),
    [
        ("kafka.internal", b"\x03\x0ekafka.internal"),
        ("bücher.example", b"\x03\x15xn--bcher-kva.example"),
        ("10.1.2.3", b"\x01\x0a\x01\x02\x03"),
        ("2001:db8::1", bytes.fromhex("04 20010db8 00000000 00000000 00000001")),
    ],
)
def test_host_names_are_sent_as_names_and_addresses_as_addresses(host: str, sent: bytes) -> None:
    assert destination(host) == sent + b"\x23\x84"


@pytest.mark.parametrize("host", ["", "a..b", "x" * 64, "x." * 200 + "x"])
def test_an_impossible_host_name_is_refused_before_a_byte_is_sent(host: str) -> None:
    with pytest.raises(NameResolutionError, match="cannot be the name of a host") as caught:
        next(negotiation(host, 9092, proxy="proxy:1080", login=None))

    assert caught.value.final


@pytest.mark.parametrize(
    ("head", "rest"),
    [
        pytest.param(b"\x00\x01\x7f", 3 + 2, id="IPv4"),
        pytest.param(b"\x00\x04\x20", 15 + 2, id="IPv6"),
        pytest.param(b"\x00\x03\x09", 9 + 2, id="a name"),
        pytest.param(b"\x00\x03\x00", 0 + 2, id="no name"),
        pytest.param(b"\x00\x03\xff", 255 + 2, id="a long name"),
        pytest.param(b"\x7f\x01\x7f", 3 + 2, id="the reserved byte is ignored"),
    ],
)
def test_the_bound_address_of_the_proxy_is_read_to_its_end_only(head: bytes, rest: int) -> None:
    assert talk([b"\x05\x00", b"\x05\x00", head, bytes(rest)])[-1] == Exchange(b"", rest)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "it failed"),
        (2, "its rules do not allow it"),
        (3, "no way to the broker's network"),
        (4, "cannot reach the host"),
        (5, "the host refused the connection"),
        (6, "too long"),
        (7, "makes no connections"),
        (8, "kind of address"),
        (9, "not in RFC 1928"),
        (255, "not in RFC 1928"),
    ],
)
def test_every_refusal_is_reported_in_words_as_soon_as_its_code_arrives(code: int, said: str) -> None:
    message = str(refusal([b"\x05\x00", bytes([5, code])]))

    assert message.startswith("the SOCKS5 proxy proxy:1080 does not connect us to kafka:9092: ")
    assert said in message
    assert message.endswith(f"({code})")


def test_a_refused_login_names_the_user_and_the_keys_but_not_the_password() -> None:
    message = str(refusal([b"\x05\x02", b"\x01\xff"], login=ALICE))

    assert "refused the login of 'alice' (255); check socks5.username and socks5.password" in message
    assert "secret" not in message + repr(ALICE)


def test_a_proxy_that_requires_a_login_without_one_set_names_the_keys() -> None:
    assert "wants a login; set socks5.username" in str(refusal([b"\x05\xff"]))


def test_a_proxy_that_rejects_every_login_method_is_reported_as_such() -> None:
    assert "takes no login by user name and password" in str(refusal([b"\x05\xff"], login=ALICE))


@pytest.mark.parametrize(("method", "login"), [(1, None), (2, None), (1, ALICE), (0x80, ALICE)])
def test_a_login_method_that_was_not_offered_is_refused(method: int, login: UserPassword | None) -> None:
    error = refusal([bytes([5, method])], login=login)

    assert isinstance(error, ProtocolMismatchError)
    assert f"was not offered ({method})" in str(error)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([b"HT"], id="HTTP"),
        pytest.param([b"\x04\x00"], id="SOCKS4"),
        pytest.param([b"\x15\x03"], id="TLS"),
        pytest.param([b"\x05\x02", b"\x05\x00"], id="login"),
        pytest.param([b"\x05\x00", b"\x00\x00"], id="connect"),
        pytest.param([b"\x05\x00", b"\x04\x05"], id="a refusal"),
    ],
)
def test_a_response_in_another_protocol_is_reported_as_no_proxy(answers: list[bytes]) -> None:
    error = refusal(answers, login=ALICE)

    assert isinstance(error, ProtocolMismatchError)
    assert "proxy:1080 does not speak SOCKS5" in str(error)
    assert f"{answers[-1][0]:#04x}" in str(error)
    assert "check socks5.proxy" in str(error)


@pytest.mark.parametrize("kind", [0, 2, 5, 255])
def test_an_unknown_address_type_ends_the_exchange(kind: int) -> None:
    error = refusal([b"\x05\x00", b"\x05\x00", bytes([0, kind, 1])])

    assert isinstance(error, ProtocolMismatchError)
    assert f"that does not exist ({kind})" in str(error)

"""The login of one connection as moves and answers: whatever a broker says, it ends well or in words."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import NetworkError, ProtocolError
from ottla.interfaces import Step
from ottla.network.authentication import Ask, Compute, LoggedIn, LoginStep, Token
from ottla.network.authentication.exchange import Exchange
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeResponse
from third_party_mechanism import Plain, Scripted

NEW: Mapping[int, tuple[int, int]] = {SASL_HANDSHAKE.key: (0, 1), SASL_AUTHENTICATE.key: (0, 2)}
OLD: Mapping[int, tuple[int, int]] = {SASL_HANDSHAKE.key: (0, 0)}


def exchange(mechanism: Plain | Scripted, versions: Mapping[int, tuple[int, int]] = NEW) -> Exchange:
    return Exchange(mechanism, host="kafka-1", port=9092, peer="the broker", versions=versions)


def agreed(mechanisms: list[str] | None = None) -> memoryview:
    return memoryview(SASL_HANDSHAKE.response(0).encode(SaslHandshakeResponse(mechanisms=mechanisms or ["X-PLAIN"])))


def satisfied(lifetime_ms: int = 0) -> memoryview:
    return memoryview(SASL_AUTHENTICATE.response(2).encode(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)))


def think(login: Exchange, move: LoginStep) -> LoginStep:
    assert isinstance(move, Compute)
    return login.computed(move.work())


def test_a_login_consists_of_handshake_token_and_session_end() -> None:
    login = exchange(Plain("ann", "secret"))

    named = login.begin()
    said = think(login, login.answered(agreed()))
    ended = think(login, login.answered(satisfied(90_000)))

    assert isinstance(named, Ask)
    assert (named.message, named.version) == (SASL_HANDSHAKE, 1)
    assert isinstance(said, Ask)
    assert (said.message, said.version) == (SASL_AUTHENTICATE, 2)
    assert b"\0ann\0secret" in said.body
    assert ended == LoggedIn(session=90.0)
    assert login.offers == ("X-PLAIN",)


def test_without_saslauthenticate_tokens_are_sent_unframed() -> None:
    steps = [lambda _data: Step(reply=b"bye", done=True)]
    login = exchange(Scripted(steps=steps), OLD)

    login.begin()
    first = think(login, login.answered(agreed()))
    last = think(login, login.answered(memoryview(b"more")))

    def token(data: bytes, *, last: bool) -> Token:
        return Token(message=SASL_AUTHENTICATE, data=data, last=last)

    assert (first, last) == (
        token(b"hello", last=False),
        token(b"bye", last=True),
    )


def test_a_negative_lifetime_counts_as_none() -> None:
    login = exchange(Plain())
    login.begin()
    think(login, login.answered(agreed()))

    assert think(login, login.answered(satisfied(-5))) == LoggedIn(session=0.0)


def test_no_repr_of_a_login_step_shows_its_bytes() -> None:
    login = exchange(Plain("ann", "the ducks fly south"))
    login.begin()
    thinking = login.answered(agreed())
    said = think(login, thinking)

    assert "ducks" not in repr(
        [thinking, said, Token(message=SASL_AUTHENTICATE, data=b"the ducks fly south", last=True), login]
    )


@given(answers=st.lists(st.binary(max_size=200), min_size=1, max_size=5), old=st.booleans(), honest=st.booleans())
def test_any_response_ends_a_login_or_is_a_clear_refusal(answers: list[bytes], old: bool, honest: bool) -> None:
    steps = [lambda _data: Step(reply=b"more", done=False)] * 10
    login = exchange(Scripted(steps=steps), OLD if old else NEW)
    move = login.begin()
    refusal = ""
    try:
        if honest:
            move = login.answered(agreed())
        for answer in answers:
            if isinstance(move, Compute):
                move = login.computed(move.work())
            move = login.answered(memoryview(answer))
    except (NetworkError, ProtocolError) as error:
        refusal = str(error)

    assert refusal.isprintable()

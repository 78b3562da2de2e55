"""Pairing of responses with the requests in flight on one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.network.client_side_throttling import LONGEST
from ottla.network.in_flight_requests import InFlight, InFlightRequests, postponed
from ottla.network.request import Request
from ottla.protocol import API_VERSIONS, ApiVersionsResponse

BODY: Final = API_VERSIONS.response(0).encode(ApiVersionsResponse(error_code=7))


def sent(number: int, *, expects_response: bool = True, **fields: Any) -> InFlight:
    request = Request(
        message=API_VERSIONS,
        body=lambda _version: (),
        on_complete=lambda _completion: None,
        expects_response=expects_response,
    )
    values = {"version": 0, "correlation_id": 100 + number, "sent_at": 0.0, "deadline": 30.0 + number, **fields}
    return InFlight(request=request, number=number, **values)


def in_flight(*requests: InFlight) -> InFlightRequests:
    """The requests, completely written."""
    made = InFlightRequests()
    for request in requests:
        made.add(request)
        made.written()
    return made


def frame(number: int, body: bytes = BODY) -> bytes:
    return (100 + number).to_bytes(4, "big") + body


def test_a_new_connection_has_nothing_in_flight() -> None:
    waiting = InFlightRequests()

    assert not waiting
    assert waiting.unconfirmed is None
    assert (waiting.writing, waiting.asked_to_confirm) == (False, False)
    assert waiting.write_deadline == float("inf")
    assert waiting.written() is None


@pytest.mark.parametrize(
    ("setups", "precedes"),
    [([], False), ([False], True), ([True], False), ([False, True], True), ([True, False], False)],
)
def test_a_response_to_a_request_before_the_login_precedes_it(setups: Sequence[bool], precedes: bool) -> None:
    waiting = in_flight(*(sent(number, setup=setup) for number, setup in enumerate(setups)))

    assert waiting.precedes_setup is precedes


def test_a_response_belongs_to_the_oldest_request_and_removes_only_that() -> None:
    requests = [sent(number) for number in range(3)]
    waiting = in_flight(*requests)

    paired, response = waiting.pair(frame(0))

    assert paired is requests[0]
    assert response.error_code == 7
    assert list(waiting) == requests[1:]


@pytest.mark.parametrize("number", [1, 2, 99])
def test_a_response_to_another_request_removes_none(number: int) -> None:
    waiting = in_flight(sent(0), sent(1))

    with pytest.raises(ProtocolError, match=f"response {100 + number} arrived, but 100 .ApiVersions. was expected"):
        waiting.pair(frame(number))

    assert len(waiting) == 2


def test_a_response_without_a_request_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="a response without a request"):
        in_flight().pair(frame(0))


def test_bytes_after_a_response_are_ignored_but_missing_ones_are_not() -> None:
    waiting = in_flight(sent(0), sent(1))

    _paired, response = waiting.pair(frame(0, BODY + b"more"))
    with pytest.raises(ProtocolError):
        waiting.pair(frame(1, BODY[:-1]))

    assert response.error_code == 7
    assert len(waiting) == 1


def test_a_response_of_the_setup_is_its_body_as_it_arrived() -> None:
    waiting = in_flight(sent(0, setup=True))

    _paired, body = waiting.pair(frame(0, b"not decoded"))

    assert bytes(body) == b"not decoded"


def test_a_bare_response_has_no_header() -> None:
    request = sent(0, setup=True, bare=True)
    waiting = in_flight(request)

    paired, body = waiting.pair(b"token")

    assert paired is request
    assert bytes(body) == b"token"
    assert not waiting


@pytest.mark.parametrize("setup", [True, False])
def test_only_a_response_of_the_setup_has_to_follow_its_whole_request(setup: bool) -> None:
    """A broker may refuse a large request before it has read it."""
    waiting = InFlightRequests()
    waiting.add(sent(0, setup=setup))

    if setup:
        with pytest.raises(ProtocolError, match="not written yet, unless `flush` of the transport returned False"):
            waiting.pair(frame(0))
    else:
        waiting.pair(frame(0))

    assert len(waiting) == (1 if setup else 0)


def test_a_written_request_without_a_response_waits_for_none() -> None:
    quiet = sent(1, expects_response=False)
    waiting = in_flight(sent(0))
    waiting.add(quiet)

    assert waiting.written() is quiet
    assert [request.number for request in waiting] == [0]
    assert not waiting.writing


@pytest.mark.parametrize(("answered", "confirmed"), [(3, False), (4, False), (5, True)])
def test_a_request_without_a_response_is_confirmed_by_a_later_one(answered: int, confirmed: bool) -> None:
    waiting = in_flight(sent(answered))
    waiting.unconfirmed, waiting.asked_to_confirm = sent(4, expects_response=False), True

    waiting.pair(frame(answered))

    assert (waiting.unconfirmed is None) is confirmed
    assert waiting.asked_to_confirm is not confirmed


def test_after_the_end_of_a_connection_no_request_is_left() -> None:
    requests = [sent(0), sent(1)]
    waiting = in_flight(requests[0])
    waiting.add(requests[1])
    waiting.unconfirmed, waiting.asked_to_confirm = sent(2), True

    assert waiting.take_all() == tuple(requests)
    assert not waiting
    assert waiting.unconfirmed is None
    assert (waiting.writing, waiting.asked_to_confirm) == (False, False)


def test_a_pause_extends_the_time_out_of_each_request() -> None:
    requests = [sent(0), sent(1)]
    waiting = in_flight(*requests)

    waiting.postpone(2.5, now=20.0)

    assert list(waiting) == [attrs.evolve(each, deadline=each.deadline + 2.5) for each in requests]


@given(
    deadline=st.floats(0, 1e6), pauses=st.lists(st.floats(0, LONGEST), min_size=1, max_size=9), now=st.floats(0, 1e6)
)
def test_pauses_never_shorten_a_time_out_and_end_an_hour_from_now(
    deadline: float, pauses: list[float], now: float
) -> None:
    later = deadline
    for pause in pauses:
        later = postponed(later, pause, now)

    assert later >= deadline
    assert later == deadline or later <= now + LONGEST + 60.0
    assert later == pytest.approx(deadline + sum(pauses)) or later >= now + LONGEST + 60.0 or later == deadline

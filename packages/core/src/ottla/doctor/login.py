"""The login on a connection after ApiVersions: a producer's exchange, with blocking steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Problem
from ottla.doctor.handshake import KafkaBroker, unanswered
from ottla.doctor.workers import side_by_side
from ottla.errors import ConnectionFailedError, SecurityError
from ottla.interfaces import Mechanism
from ottla.network import Request
from ottla.network.authentication import Ask, Compute, LoggedIn, Token, login_errors
from ottla.network.authentication.exchange import Exchange

_REMEDY: Final = "check the broker's log"


@attrs.frozen(kw_only=True)
class Admitted:
    """The broker accepted the login. A session of 0 seconds does not expire."""

    broker: KafkaBroker
    offers: tuple[str, ...]
    session: float
    seconds: float


@attrs.frozen(kw_only=True)
class Refused:
    """The broker refused the login, or we refused the broker."""

    broker: KafkaBroker
    problem: Problem
    seconds: float


Answer: TypeAlias = Admitted | Refused


def log_in(broker: KafkaBroker, mechanism: Mechanism, bounds: Bounds) -> Answer:
    """Log in on one connection. A mechanism that does not return in time is abandoned."""
    started = bounds.clock()

    def work(one: KafkaBroker) -> Answer:
        try:
            exchange, session = _exchange(one, mechanism)
        except Exception as error:  # including those of the transport plugin
            seconds = bounds.clock() - started
            return Refused(broker=one, problem=_problem(error, seconds=seconds), seconds=seconds)
        return Admitted(broker=one, offers=exchange.offers, session=session, seconds=bounds.clock() - started)

    [answer] = side_by_side(work, [broker], bounds=bounds)
    late = Problem(
        f"the mechanism {mechanism.name} did not return in time", "check the service from which it gets its credentials"
    )
    return answer or Refused(broker=broker, problem=late, seconds=bounds.clock() - started)


def _exchange(broker: KafkaBroker, mechanism: Mechanism) -> tuple[Exchange, float]:
    endpoint, session = broker.endpoint, broker.session
    exchange = Exchange(
        mechanism, host=endpoint.address.host, port=endpoint.server.port, peer="the server", versions=broker.versions
    )
    move = exchange.begin()
    try:
        while True:
            match move:
                case Ask(message=message, version=version, body=body):
                    request = Request(message=message, body=partial(_encoded, body), on_complete=_ignore_response)
                    move = exchange.answered(session.ask(request, version))
                case Token(data=data, last=True):
                    session.send_frame(data)
                    return exchange, 0.0
                case Token(data=data):
                    session.send_frame(data)
                    move = exchange.answered(session.read_frame())
                case Compute(work=work):
                    move = exchange.computed(work())
                case LoggedIn(session=lifetime):
                    return exchange, lifetime
                case _:
                    assert_never(move)
    except ConnectionFailedError as error:
        if exchange.bare and type(error) is ConnectionFailedError:
            raise login_errors.closed_without_answer(mechanism, "the server", error) from error
        raise


def _problem(error: Exception, *, seconds: float) -> Problem:
    if isinstance(error, SecurityError):
        return Problem.of_error(error, remedy=_REMEDY)
    problem = unanswered(error, seconds=seconds, remedy=_REMEDY)
    return Problem(f"during the login, {problem.message}", problem.remedy)


def _encoded(body: bytes, _version: int) -> Sequence[bytes]:
    return [body]


def _ignore_response(_completion: object) -> None:
    """Do nothing: the caller waits for the response itself."""

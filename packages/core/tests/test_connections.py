"""Questions about all connections of a client: which brokers failed, which refuse it, which are gone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import attrs
import pytest

from ottla.errors import AuthenticationError, ConnectionFailedError, OttlaError, SecurityError
from ottla.interfaces import Target
from ottla.network.cluster import Broker
from ottla.network.connection_stage import Stage
from ottla.network.connections import Connections
from ottla.network.selector_interface import Address

REFUSED: Final = AuthenticationError("wrong password")
LOST: Final = ConnectionFailedError("reset")


@attrs.frozen(kw_only=True)
class Known:
    """What is known of a connection; as of one that failed with `failure` once."""

    failure: OttlaError | None = LOST
    failures: int = 1
    failed_at: float = 10.0
    stage: Stage = Stage.DISCONNECTED
    refusal: OttlaError | None = None


LOST_ONE: Final = Known()
REFUSED_ONE: Final = Known(failure=REFUSED, refusal=REFUSED)
UNUSED: Final = None


def connections_of(*known: Known | None) -> tuple[Connections, Sequence[Broker]]:
    """Connections to brokers 0, 1, ..., and all of the brokers; None: a broker without a connection."""
    connections = Connections(max_in_flight=5, chance=Random(1))
    brokers = [Broker(id=number, host=f"broker-{number}", port=9092) for number in range(len(known))]
    for broker, each in zip(brokers, known, strict=True):
        if each is not None:
            connection = connections.of(broker)
            connection.stage, connection.failures, connection.failed_at = each.stage, each.failures, each.failed_at
            connection.last_failure, connection.refusal = each.failure, each.refusal
    return connections, brokers


@pytest.mark.parametrize(
    ("known", "error"),
    [
        ([REFUSED_ONE], REFUSED),
        ([REFUSED_ONE, REFUSED_ONE], REFUSED),
        ([LOST_ONE, REFUSED_ONE], REFUSED),
        ([REFUSED_ONE, LOST_ONE], REFUSED),
        ([LOST_ONE, LOST_ONE], None),
        ([REFUSED_ONE, UNUSED], None),
        ([UNUSED, UNUSED], None),
        ([REFUSED_ONE, Known(failures=0, failure=None)], None),
        ([REFUSED_ONE, Known(stage=Stage.CONNECTING)], None),
        ([], None),
    ],
)
def test_a_client_is_refused_by_all_if_each_failed_and_one_refused_it(
    known: Sequence[Known | None], error: SecurityError | None
) -> None:
    connections, brokers = connections_of(*known)

    assert connections.refused_by_all(brokers) is error


def test_a_broker_with_another_address_to_try_may_still_accept_a_client() -> None:
    connections, brokers = connections_of(attrs.evolve(REFUSED_ONE, failed_at=float("-inf")))

    assert connections.refused_by_all(brokers) is None


@pytest.mark.parametrize(
    ("known", "since", "none"),
    [
        ([LOST_ONE, LOST_ONE], 0.0, True),
        ([LOST_ONE, LOST_ONE], 9.9, True),
        ([LOST_ONE, LOST_ONE], 10.0, False),
        ([LOST_ONE, Known(failed_at=9.0)], 9.5, False),
        ([LOST_ONE, UNUSED], 0.0, False),
        ([LOST_ONE, Known(failures=0)], 0.0, False),
        ([LOST_ONE, Known(stage=Stage.READY)], 0.0, False),
        ([LOST_ONE, Known(stage=Stage.CONNECTING)], 0.0, False),
    ],
)
def test_no_broker_is_left_if_each_failed_since_a_time(known: Sequence[Known | None], since: float, none: bool) -> None:
    connections, brokers = connections_of(*known)

    assert bool(connections.none_left(brokers, since=since)) is none


def test_a_broker_that_answered_since_is_left_while_an_address_is_untried() -> None:
    connections, brokers = connections_of(UNUSED)
    connection = connections.of(brokers[0])
    connection.note_failure(LOST, 1.0, final=False)
    assert connections.none_left(brokers)

    connection.become_ready(2.0)
    assert connection.note_working()
    connection.lost()
    address = Address(host="broker-0", target=Target(0, "second"))
    connection.addresses = [address]
    connection.note_failure(LOST, 3.0, final=False)
    assert not connections.none_left(brokers)

    connection.begin_address(3.0)
    connection.note_failure(LOST, 4.0, final=False)
    connection.addresses = [address]  # of another round
    assert connections.none_left(brokers)


OTHER: Final = ConnectionFailedError("no common version")


@pytest.mark.parametrize(
    ("known", "error"),
    [
        ([REFUSED_ONE, LOST_ONE], REFUSED),  # the other would refuse the login, too
        ([LOST_ONE, REFUSED_ONE], REFUSED),
        ([REFUSED_ONE, UNUSED], None),
        ([REFUSED_ONE, Known(stage=Stage.READY)], None),
        ([Known(refusal=OTHER), LOST_ONE], None),
        ([LOST_ONE, Known(refusal=OTHER)], None),
        ([Known(refusal=OTHER), Known(refusal=LOST)], LOST),
        ([Known(refusal=OTHER), REFUSED_ONE], REFUSED),
        ([UNUSED, UNUSED], None),
        ([], None),
    ],
)
def test_a_refusal_of_all_needs_a_refusal_of_each_or_of_the_login(
    known: Sequence[Known | None], error: OttlaError | None
) -> None:
    connections, brokers = connections_of(*known)

    assert connections.refusal_of_all(brokers) is error


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"port": 9093}])
def test_a_connection_is_gone_with_its_broker_or_its_address(changed: dict[str, Any]) -> None:
    connections, brokers = connections_of(LOST_ONE, LOST_ONE, LOST_ONE)
    stays, moves, _leaves = brokers

    gone = connections.gone([stays, attrs.evolve(moves, **changed)])

    assert [connection.broker for connection in gone] == brokers[1:]


def test_a_forgotten_connection_leaves_no_failures_to_the_next() -> None:
    connections, [broker] = connections_of(REFUSED_ONE)

    connections.forget(connections[0])

    assert connections.get(0) is None
    assert connections.of(broker).failures == 0
    assert list(connections) == [connections[0]]


def test_no_server_has_accepted_a_new_client() -> None:
    connections, _brokers = connections_of()

    assert not connections.accepted

"""The connections of one producer by node, and queries over all of them, without I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random
from typing import Final

from ottla.errors import OttlaError, SecurityError
from ottla.network.cluster import Broker
from ottla.network.connection import Connection
from ottla.network.connection_stage import DISCONNECTED, READY, Stage

_SETTING_UP = 1_000
_MAY_CONNECT = 2_000
_BUSY = 3_000
_DOUBTED = 4_000
_SLOW = 5_000

MOST_SLOW: Final = 3
"""So many attempts to connect may be slow at once; then no further broker is tried until one of them ends."""


class Connections:
    """Connections by node id; made at first use, dropped when their broker has left the cluster."""

    def __init__(self, *, max_in_flight: int, max_idle: float = float("inf"), chance: Random) -> None:
        self._max_in_flight = max_in_flight
        self._max_idle = max_idle
        self._chance = chance
        self._by_node: dict[int, Connection] = {}
        self.all: Final = self._by_node.values()
        """A view of all of them, always current: each round needs it several times."""
        self.accepted = False
        """Whether any server ever accepted us, login included."""

    def __getitem__(self, node: int) -> Connection:
        return self._by_node[node]

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._by_node.values())

    def get(self, node: int) -> Connection | None:
        """The connection of a node; None if it was never used."""
        return self._by_node.get(node)

    def of(self, broker: Broker) -> Connection:
        """The connection to a broker; made if there is none."""
        connection = self._by_node.get(broker.id)
        if connection is None:
            connection = self._by_node[broker.id] = Connection(
                broker=broker, max_in_flight=self._max_in_flight, max_idle=self._max_idle
            )
        return connection

    def in_flight(self) -> int:
        """The number of requests that wait for their responses. For any thread."""
        # A copy of the view is one step, also without the GIL; one by an iterator is not.
        return sum(len(connection.in_flight) for connection in list(self.all))

    def setup(self) -> str:
        """What the first connection that is being set up waits for; empty if there is none. For any thread."""
        for connection in list(self.all):
            stage = connection.stage
            if stage not in (DISCONNECTED, READY):
                return f"the connection to {connection.broker} was not ready (the client was {stage.value})"
        return ""

    def oldest_sent_at(self) -> float | None:
        """The time at which the oldest request that waits for its response was sent; None: there is none.

        For any thread.
        """
        times = []
        for connection in list(self.all):
            try:
                times.append(connection.in_flight[0].sent_at)
            except IndexError:
                continue  # none, or its response has just come
        return min(times, default=None)

    def least_loaded(self, brokers: Collection[Broker], now: float, *, doubted: int | None = None) -> Connection | None:
        """The connection for the next request; a random one of the best.

        Ready connections are preferred, first those with the fewest requests in flight; then one being set up; then a
        new one; then that of the broker *doubted*, if no other one will soon be ready for a request; then one whose
        broker does not answer.
        """
        slow = [connection for connection in self.all if connection.slow_at <= now]
        # With so many slow ones, those come before a new one, and the doubted one before them.
        doubted_rank, slow_rank = (_DOUBTED, _SLOW) if len(slow) < MOST_SLOW else (_SETTING_UP + 1, _SETTING_UP + 2)
        ranked: list[tuple[int, Broker]] = []
        for broker in self._chance.sample(list(brokers), len(brokers)):
            # Brokers that are not chosen get no connection object: each round iterates over all of them.
            connection = self._by_node.get(broker.id)
            if connection is None or connection.may_connect(now):
                ranked.append((max(_MAY_CONNECT, doubted_rank) if broker.id == doubted else _MAY_CONNECT, broker))
            elif connection.may_send(now):
                ranked.append((doubted_rank if broker.id == doubted else len(connection.in_flight), broker))
            elif connection.setting_up:
                ranked.append((slow_rank if connection.slow_at <= now else _SETTING_UP, broker))
            elif doubted not in (None, broker.id) and now < connection.busy_until:
                ranked.append((_BUSY, broker))
        return self.of(min(ranked, key=lambda entry: entry[0])[1]) if ranked else None

    def none_left(self, brokers: Collection[Broker], *, since: float = float("-inf")) -> bool:
        """Return whether each of these brokers failed after *since* at every address of its name.

        Also if another round of its addresses has begun: those of many brokers would hardly end at the same time.
        """
        connections = [self._by_node.get(broker.id) for broker in brokers]
        return all(
            c is not None and c.stage is Stage.DISCONNECTED and c.failures and c.failed_at > since for c in connections
        )

    def refusal_of_all(self, brokers: Collection[Broker]) -> OttlaError | None:
        """One of the refusals if each of these brokers has refused us; else None.

        If one has refused the login or certificate, it is enough that the others failed: they would refuse it, too.
        """
        refusals = self._refusals(brokers)
        everywhere = refusals[-1] if refusals and None not in refusals else None
        return self.refused_by_all(brokers) or everywhere

    def refused_by_all(self, brokers: Collection[Broker]) -> SecurityError | None:
        """A security error if each of these brokers failed, and one failed with it; else None."""
        trust = next((refusal for refusal in self._refusals(brokers) if isinstance(refusal, SecurityError)), None)
        return trust if self.none_left(brokers) else None

    def _refusals(self, brokers: Collection[Broker]) -> list[OttlaError | None]:
        return [c.refusal if (c := self._by_node.get(broker.id)) is not None else None for broker in brokers]

    def gone(self, brokers: Collection[Broker]) -> list[Connection]:
        """The connections whose broker is not among these, or has another address among them."""
        addresses = {broker.id: broker for broker in brokers}
        return [c for c in self._by_node.values() if addresses.get(c.broker.id) != c.broker]

    def rename(self, connection: Connection, broker: Broker) -> None:
        """Make a connection that of another broker, in place of one that has ended.

        Its short lives count on. Otherwise a broker that soon ends each connection would get the next one immediately.
        """
        previous = self._by_node.get(broker.id)
        if previous is not None:
            connection.short_lives = previous.short_lives
        del self._by_node[connection.broker.id]
        connection.broker = broker
        self._by_node[broker.id] = connection

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended; the next one to this node starts without its failures."""
        del self._by_node[connection.broker.id]

"""Clusters that tests of several modules use one after the other, each restored before the next test gets it.

A cluster starts with the first test that uses it and is closed after the last one, since an idle broker uses the
processor, too. Modules that use the same clusters therefore run one after the other. A cluster that a test has left in
a state that cannot be restored is closed, as is that of a test that failed, and the next test gets a new one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Generic, TypeVar

import pytest
from confluent_kafka import KafkaException
from restored_cluster import restore
from wrong_addresses import Misdirecting, misdirecting

from distance_kit import place
from ottla_testkit.errors import ClusterError, KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.proxy import CuttingProxy
from ottla_testkit.pytest_plugin import go_without

Lent = TypeVar("Lent")

SOON_MISSED: Final = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}
"""Settings of brokers that notice each other's loss soon, and may soon return."""

VERY_SOON_MISSED: Final = {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 250}
"""The same for a broker that has no others: a controller lets it return when its session has ended."""

FAILED: Final = pytest.StashKey[bool]()
"""Whether a test has failed so far."""

LOG_LINES: Final = 200

UNREACHABLE: Final = "org.apache.kafka.clients.NetworkClient"
"""What logs each attempt of a node to reach one that is down: thousands of lines, between which the story is lost."""

_log = logging.getLogger(__name__)


class Shared(Generic[Lent]):
    """A cluster that is started by its first user, lent to one test at a time, and restored when it is returned."""

    def __init__(
        self,
        name: str,
        start: Callable[[], AbstractContextManager[Lent]],
        *,
        restore: Callable[[Lent], None],
        kafka: Callable[[Lent], KafkaCluster],
    ) -> None:
        self.name = name
        self.starts = 0
        self.thrown_away: list[str] = []
        self._start = start
        self._restore = restore
        self._kafka = kafka
        self._running: Lent | None = None
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def lent(
        self, *, failed: Callable[[], bool] = lambda: False, last: Callable[[], bool] = lambda: False
    ) -> Iterator[Lent]:
        """Lend the cluster; afterwards restore it.

        It is closed where that fails, where the test has *failed*, and where it was the *last* one that uses it.
        """
        if self._running is None:
            self._running = self._stack.enter_context(self._start())
            self.starts += 1
        try:
            yield self._running
            if failed():
                self._throw_away("a test with it failed")
            elif last():
                self.close()
        except BaseException as error:
            self._throw_away(f"a test with it raised {error!r}")
            raise
        try:
            if self._running is not None:
                self._restore(self._running)
        except (AssertionError, ClusterError, KafkaException, OSError) as error:
            self._throw_away(f"it could not be restored: {error}")

    def close(self) -> None:
        """Close the cluster if it runs; the next user starts another one."""
        self._running = None
        self._stack.close()

    def evidence(self) -> Sequence[tuple[str, str]]:
        """Return the end of each node's log, with a title, without what it says of nodes that are down."""
        if self._running is None:
            return []
        kafka = self._kafka(self._running)
        logs = {
            node: [line for line in kafka.log(node).splitlines() if UNREACHABLE not in line] for node in kafka.nodes
        }
        return [(f"{self.name}, node {node}", "\n".join(lines[-LOG_LINES:])) for node, lines in logs.items()]

    def _throw_away(self, reason: str) -> None:
        self.thrown_away.append(reason)
        _log.warning("%s is closed, and the next test gets a new one: %s", self.name, reason)
        self.close()


@contextlib.contextmanager
def started(**settings: object) -> Iterator[KafkaCluster]:
    """A cluster with these arguments; without Java the test is skipped."""
    with contextlib.ExitStack() as stack:
        try:
            kafka = stack.enter_context(KafkaCluster(**settings))  # type: ignore[arg-type]
        except KafkaUnavailableError as error:
            go_without(error)
        yield kafka


class Behind:
    """A broker that sends its clients to the port of a proxy, of which every test has a new one."""

    def __init__(self, kafka: KafkaCluster, port: int) -> None:
        self.kafka = kafka
        self._port = port

    @contextlib.contextmanager
    def proxy(self) -> Iterator[CuttingProxy]:
        """A proxy that cuts nothing yet."""
        proxy = CuttingProxy(*self.kafka.address(1))
        proxy.port = self._port
        with proxy:
            yield proxy

    def restore(self) -> None:
        """Restore the broker, which also sends those who do that to the proxy."""
        with self.proxy():
            restore(self.kafka)


@contextlib.contextmanager
def started_behind_a_proxy() -> Iterator[Behind]:
    """A broker whose clients are sent to a port that is free."""
    [port] = free_ports(1)
    with started(config={"advertised.listeners": f"PLAINTEXT://{HOST}:{port}"}) as kafka:
        yield Behind(kafka, port)


SPARE: Final = Shared(
    "spare_kafka", lambda: started(config=VERY_SOON_MISSED), restore=restore, kafka=lambda kafka: kafka
)
THREE: Final = Shared(
    "three_kafkas", lambda: started(nodes=3, config=SOON_MISSED), restore=restore, kafka=lambda kafka: kafka
)
PROXIED: Final = Shared(
    "proxied_kafka",
    started_behind_a_proxy,
    restore=lambda behind: behind.restore(),
    kafka=lambda behind: behind.kafka,
)
MISDIRECTING: Final = Shared[Misdirecting](
    "misdirecting_kafka", misdirecting, restore=lambda lent: restore(lent.kafka), kafka=lambda lent: lent.kafka
)

SHARED: Final = {shared.name: shared for shared in (SPARE, THREE, PROXIED, MISDIRECTING)}


def shared_names(item: pytest.Item) -> Sequence[str]:
    """Return the shared clusters that a test uses."""
    return sorted(SHARED.keys() & set(getattr(item, "fixturenames", ())))


def in_turns(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with those modules one after the other that share clusters; others keep their places.

    A module with two clusters stands between those with only one of them.
    """
    used: dict[object, set[str]] = {}
    for item in items:
        used.setdefault(_module(item), set()).update(_names(item))
    sharing = [item for item in items if used[_module(item)]]
    sharing.sort(key=lambda item: sorted(used[_module(item)]))
    if not sharing:
        return list(items)
    first = next(number for number, item in enumerate(items) if used[_module(item)])
    rest = [item for item in items[first:] if not used[_module(item)]]
    return [*items[:first], *sharing, *rest]


def _names(item: pytest.Item) -> Sequence[str]:
    """Return the names of clusters that are closed after the last test that uses them."""
    others = {"clusters": place(item) is not None, "old_kafka": "old_kafka" in getattr(item, "fixturenames", ())}
    return [*shared_names(item), *(name for name, used in others.items() if used)]


def _module(item: pytest.Item) -> object:
    return item.nodeid.partition("::")[0]

"""A whole Producer over a simulated cluster: real configuration and parts, the test's clock, and no thread.

The test runs the rounds of the I/O thread itself, and `close` runs what is left of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import attrs
import pytest
from own_io_thread import io_thread_of

from ottla import Producer, UndeliveredError
from ottla.concurrency import io_threads
from ottla.concurrency.environment import Environment
from ottla.config import ProducerConfig
from ottla.errors.plugin_origin import origin_of
from ottla.plugins.former_interceptors import AdaptedInterceptor
from ottla.plugins.partitioners import sticky_keys
from ottla.plugins.partitioners.sticky import StickyChoice
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.selection import CREATION_ORDER, Plugins, choose_plugins
from ottla.producer.build import build_engine
from ottla.producer.transactions import TransactionCall, Transactions
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster, SimulatedNetwork

HANG_GUARD = 20.0
ROLES: list[str] = [*CREATION_ORDER]
DEFAULTS = {"bootstrap.servers": "seed:9092", "linger.ms": 0, "record.encoder": "python"}
"""Whatever else is installed; the native encoder's own tests compare it with this one."""


class ThreadOfTheTest:
    """A thread that never runs by itself: the test calls `run`. Telemetry's runs when it is started."""

    ident = None

    def __init__(self, run: Callable[[], object], name: str) -> None:
        self.run = run
        self._at_once = name.startswith("ottla-telemetry-")

    def start(self) -> None:
        """Start nothing, unless it runs at once."""
        if self._at_once:
            self.run()

    def join(self, timeout: float | None = None) -> None:
        """Return at once."""

    def is_alive(self) -> bool:
        """Return False."""
        return False


class SimulatedProducer(Producer):
    """A producer in an environment of the test, whose I/O thread runs where it is joined."""

    def __init__(self, settings: Mapping[str, Any], plugins: Mapping[str, Any], environment: Environment) -> None:
        objects = PluginObjects(clock=environment.clock)
        config, chosen = choose_plugins(settings, {}, registry=Registry(), objects=objects)
        engine = build_engine(config, replaced(chosen, plugins), environment)
        io_thread = io_thread_of(engine)

        # A call of AsyncProducer runs rounds on a thread while the loop runs others: one of them at a time.
        self.round_lock = round_lock = threading.RLock()

        def join(timeout: float = HANG_GUARD) -> bool:
            with round_lock:
                io_thread._run()
            return True

        io_thread.join = join  # type: ignore[method-assign]
        self._begin(engine)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallOfTheTest(TransactionCall[Any]):
    """Runs rounds where a thread would wait for the I/O thread."""

    simulation: Simulated

    def wait(self) -> Any:
        end = self.simulation.clock() + self.seconds
        for _ in range(10_000):
            if self.ended or self.simulation.clock() >= end:
                return self.get()
            self.simulation.round(until=end)
        raise AssertionError("ten thousand rounds, and neither has it ended nor time passed")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TransactionsOfTheTest(Transactions):
    """Makes calls that wait in the rounds of the test."""

    simulation: Simulated

    def _call(self, *arguments: Any, **options: Any) -> TransactionCall[Any]:
        call = super()._call(*arguments, **options)
        return CallOfTheTest(**attrs.asdict(call, recurse=False), simulation=self.simulation)


class Simulated:
    """A producer of a cluster with topic t, which it knows already."""

    def __init__(
        self,
        *leaders: int,
        plugins: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        cluster: SimulatedCluster | None = None,
        network: Callable[[SimulatedCluster, ManualClock], SimulatedNetwork] = SimulatedNetwork,
        clock: ManualClock | None = None,
        know: bool = True,
    ) -> None:
        if cluster is None:
            cluster = SimulatedCluster.of(*sorted(set(leaders)))
            cluster.create("t", *leaders)
        self.cluster = cluster
        self.clock = clock or ManualClock()
        self.network = network(self.cluster, self.clock)
        with pytest.MonkeyPatch.context() as patch:
            chance: Any = self.network.chance.fork()  # what is drawn by one side does not shift the other's
            patch.setattr(sticky_keys, "Random", lambda: chance)
            patch.setattr(sticky_keys, "StickyChoice", partial(StickyChoice, clock=self.clock))
            environment = Environment(
                clock=self.clock, random=chance, thread=ThreadOfTheTest, selector=lambda: self.network
            )
            made = SimulatedProducer({**DEFAULTS, **(config or {})}, plugins or {}, environment)
        self.producer: Producer = made
        self._round_lock = made.round_lock
        engine = self.producer._engine
        if engine.transactions is not None:
            self.producer._transactions = TransactionsOfTheTest(
                simulation=self,
                manager=engine.transactions.manager,
                accumulator=engine.queueing.accumulator,
                max_block=engine.transactions.max_block,
                wake=self.network.wakeup,
                obstacle=engine.transactions.obstacle,
            )
        self.accumulator, self.metadata = engine.queueing.accumulator, engine.metadata
        self.pool = engine.queueing.pool
        self.thread = io_thread_of(engine)
        self.sender = self.thread._sender
        self.rounds = self.thread._rounds
        self.rounds._sleep = self.clock.advance
        if know:
            self.know("t")

    def know(self, topic: str) -> None:
        """Make the topic known before the producer sends, because no thread could deliver metadata while it waits."""
        self.metadata.use(topic, self.clock())
        self.run_until(lambda: topic in self.metadata.cluster.topics)
        self.pass_time(1.0)

    def round(self, *, until: float = float("inf")) -> None:
        """One round, as if on the I/O thread."""
        with self._round_lock:
            io_threads.enter()
            try:
                self.sender.run_once(self.clock(), until=until)
            finally:
                io_threads.leave()

    def run_until(self, happened: Callable[[], object], *, time_passes: bool = True) -> None:
        """Rounds until something has happened, which fails when it does not happen at all."""
        for _ in range(10_000):
            if happened():
                return
            self.round(until=float("inf") if time_passes else self.clock())
        raise AssertionError("ten thousand rounds, and it has not happened")

    def pass_time(self, seconds: float) -> None:
        """Rounds for just so long."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.round(until=end)

    def run_until_idle(self) -> None:
        """Rounds until everything has its outcome."""
        self.run_until(lambda: self.sender.idle)

    def log(self, partition: int = 0) -> list[bytes | None]:
        """The values that a partition holds."""
        return [record.value for record in self.cluster.topics["t"].log.get(partition, [])]


class Calling:
    """A call that waits, on a thread of its own; `rounds` has the test run rounds until it ends."""

    def __init__(self, simulation: Simulated, call: Callable[[], object]) -> None:
        self._simulation = simulation
        self.error: BaseException | None = None
        self.result: object = None
        begun = threading.Event()
        wakeup = simulation.network.wakeup

        def note_wake() -> None:
            wakeup()
            begun.set()

        def run() -> None:
            try:
                self.result = call()
            except BaseException as error:
                self.error = error

        simulation.accumulator._wake = simulation.accumulator.appender._wake = note_wake
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert begun.wait(HANG_GUARD)
        simulation.accumulator._wake = simulation.accumulator.appender._wake = wakeup

    def rounds(self) -> None:
        """Let the call end."""
        self._simulation.run_until_idle()
        self.thread.join(HANG_GUARD)
        assert not self.thread.is_alive()


@contextmanager
def simulated(
    *leaders: int,
    plugins: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    cluster: SimulatedCluster | None = None,
    network: Callable[[SimulatedCluster, ManualClock], SimulatedNetwork] = SimulatedNetwork,
    clock: ManualClock | None = None,
    know: bool = True,
    **options: Any,
) -> Iterator[Simulated]:
    """A producer that is closed by force in the end, should it still be open.

    *cluster* and *clock* may be shared with others; otherwise the cluster has topic t with these *leaders*. Without
    *know* the producer has sent no request yet.
    """
    made = Simulated(
        *leaders,
        plugins=plugins,
        config={**(config or {}), **_dotted(options)},
        cluster=cluster,
        network=network,
        clock=clock,
        know=know,
    )
    try:
        yield made
    finally:
        with suppress(UndeliveredError):
            made.producer.close(0)


def _dotted(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}


class BrokenCodec:
    """A compressor that packs nothing."""

    codec_id = 3

    def compress(self, chunks: object, *, level: object) -> bytes:
        raise RuntimeError("no")

    def decompress(self, data: object, *, limit: int) -> bytes:
        raise AssertionError("nothing was compressed")


def choosing(plugins: Mapping[str, Any]) -> Any:
    """`choose_plugins`, but with these plugins in place of those that the configuration names."""

    def chosen(*arguments: Any, **options: Any) -> tuple[ProducerConfig, Plugins]:
        config, others = choose_plugins(*arguments, **options)
        return config, replaced(others, plugins)

    return chosen


def replaced(chosen: Plugins, plugins: Mapping[str, Any]) -> Plugins:
    """The chosen plugins with these in place of some; they are closed together.

    Interceptors are of generation 1, unless they state `ottla_spec`.
    """
    if "interceptors" in plugins:
        given = plugins["interceptors"].items()
        adapted = {name: each if hasattr(each, "ottla_spec") else AdaptedInterceptor(each) for name, each in given}
        plugins = {**plugins, "interceptors": adapted}
    for role, given in sorted(plugins.items(), key=lambda each: ROLES.index(each[0]) if each[0] in ROLES else -1):
        if role in ROLES and role != "reporters":  # they are added when they are started
            named = given if isinstance(given, Mapping) else {origin_of(role, given).name: given}
            for name, made in named.items():
                chosen.objects.closer.add(name, made, secret=role == "mechanism", first=True)
    return attrs.evolve(chosen, **plugins)

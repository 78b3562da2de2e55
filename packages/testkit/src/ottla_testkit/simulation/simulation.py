"""A simulation: a cluster, a network, a clock, producers and the threads that use them, all decided by one seed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from ottla import Producer
from ottla.concurrency.environment import Environment
from ottla.config import ProducerConfig
from ottla.errors.secret import hide_settings
from ottla.interfaces import Mechanism
from ottla.plugins.partitioners.murmur2 import Murmur2Partitioner
from ottla.plugins.partitioners.sticky import StickyChoice
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.selection import Plugins, choose_plugins
from ottla.producer import lifecycle
from ottla.producer.build import build_engine
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.delivery_wait import simulate_waits
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.threads import SimulatedThreads

T = TypeVar("T")

_DEFAULTS = {"bootstrap.servers": "seed:9092", "client.id": "simulated"}


class Simulation:
    """Producers with their real threads on a simulated cluster, network and clock.

    Programs that `run` gets may use producers as any program does. `Delivery.result` waits in simulated time;
    `time.sleep` and the futures of `Delivery.future` do not: use `sleep` and `wait_for`. What happens is a function of
    the seed and of the programs, if each record is sent with a timestamp.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        seed: int = 0,
        network: Callable[[SimulatedCluster, ManualClock, int], SimulatedNetwork] | None = None,
        switching: float = 0.0,
    ) -> None:
        self.cluster = cluster
        self.clock = cluster.wall_clock = ManualClock()
        self.chance = Chance(seed)
        made = (
            SimulatedNetwork(cluster, self.clock, seed=seed) if network is None else network(cluster, self.clock, seed)
        )
        self.network = made
        self.threads = SimulatedThreads(
            clock=self.clock,
            chance=self.chance.fork(),
            happen=made.happen,
            next_event=lambda: made.schedule.next_at,
            switching=switching,
        )
        made.threads = self.threads
        self.producers: list[Producer] = []

    def producer(
        self, config: Mapping[str, Any] | None = None, /, *, mechanism: Mechanism | None = None, **options: Any
    ) -> Producer:
        """Make a producer of the cluster; one at a time, because they share the network.

        It logs in with a *mechanism* that does not block. Call `close` in a program: nothing closes it when the test
        ends.
        """
        assert all(producer._lifecycle.refusal is not None for producer in self.producers), "one producer at a time"
        chance: Any = self.chance.fork()
        environment = Environment(
            clock=self.clock,
            time_ns=lambda: round(self.clock() * 1e9),
            random=chance,
            lock=self.threads.lock,
            rlock=self.threads.rlock,
            thread=self.threads.thread,
            selector=lambda: self.network,
        )
        keywords = {name.replace("_", "."): value for name, value in options.items()}
        settings = {**_DEFAULTS, **(config or {}), **keywords}
        objects = PluginObjects(clock=self.clock)
        chosen, plugins = choose_plugins(hide_settings(settings), {}, registry=_registry(), objects=objects)
        plugins = _with_simulated_choice(plugins, chosen, chance.fork(), self.clock)
        if mechanism is not None:
            assert not mechanism.blocking, "a mechanism that blocks has a thread of its own"
            plugins = attrs.evolve(plugins, mechanism=mechanism)
        producer = Producer.__new__(Producer)
        producer._begin(build_engine(chosen, plugins, environment))
        lifecycle._open.discard(producer._lifecycle)
        simulate_waits(producer, self.threads)
        self.producers.append(producer)
        return producer

    def run(self, *programs: Callable[[], object]) -> None:
        """Run programs, each on its own simulated thread, until all have ended; raise the first error."""
        self.threads.run(*programs)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the program that calls this."""
        self.threads.sleep(seconds)

    def wait_for(self, happened: Callable[[], object], *, timeout: float = float("inf")) -> bool:
        """Let time pass for the program that calls this until something has happened. Return False if time ran out."""
        return self.threads.wait(happened, self.clock() + timeout)


@functools.cache
def _registry() -> Registry:
    """The plugins that were installed when the first producer of a simulation was made: reading them takes as long as
    a quarter of a history."""
    return Registry()


def _with_simulated_choice(
    plugins: Plugins, config: ProducerConfig, chance: Any, clock: Callable[[], float]
) -> Plugins:
    """Replace the default partitioner by one whose sticky partitions depend on the seed and the simulated clock."""
    if type(plugins.partitioner) is not Murmur2Partitioner:
        return plugins
    batching, partitioning = config.batching, config.partitioning
    choice = StickyChoice(
        batch_size=batching.batch_size,
        linger=batching.linger if batching.growth else 0.0,
        adaptive=partitioning.adaptive,
        rack=partitioning.rack if partitioning.rack_aware else None,
        random=chance,
        clock=clock,
    )
    return attrs.evolve(plugins, partitioner=Murmur2Partitioner(choice, ignore_keys=partitioning.ignore_keys))

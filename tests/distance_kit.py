"""Brokers of several generations, near and at a distance, for tests that are run with several of them.

A test that takes `broker` runs with today's generation and with one other, chosen by the test's name, so that each
generation has its share of the tests. With the marker `generations("all")`, or with `OTTLA_SOAK`, it runs with all of
them. `since` and `before` are versions between which it runs. Of these, `tox` has today's generation, and for a test
with `generations("all")` one other; the rest has the marker `thorough`.

Tests with the marker `distance` run twice: near, and with a round trip of 30 ms. With `OTTLA_SOAK` all tests that take
`broker` do so, and those that take `kafka` in a module with the line `kafka = near_or_distant`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import attrs
import pytest
from long_forms import LONG

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.jars import KAFKA_VERSION
from ottla_testkit.java.release import release
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import ROUND_TRIP, go_without

TIMED_OUT_LOOK_MS: Final = 200
NEAR: Final = "near"
DISTANT: Final = f"{ROUND_TRIP * 1000:.0f} ms"


@attrs.frozen
class Generation:
    """A version of the broker, and the level of transaction.version where it knows the feature."""

    version: str
    level: int | None = None
    distant: bool = False

    def __str__(self) -> str:
        name = self.version if self.level is None else f"{self.version} at {self.level}"
        return f"{name}, {DISTANT}" if self.distant else name


TODAYS: Final = [Generation(KAFKA_VERSION, level) for level in (2, 1, 0)]
OLD: Final = [Generation(version) for version in ("3.9.1", "2.8.2", *(("2.0.1", "1.1.1", "0.11.0.3") if LONG else ()))]
GATES_OTHERS: Final = [*TODAYS[1:], *OLD[:1]]
"""Those of which `tox` has one for a test that asks for all. An older broker would be started for one test or two."""
DISTANT_ONES: Final = [attrs.evolve(each, distant=True) for each in [*TODAYS, *OLD][: None if LONG else 1]]

MORE_GENERATIONS: Final = pytest.mark.thorough("the same with another generation of transactions")

Place = tuple[str, bool]
"""A version, and whether its broker is at a distance."""

Clusters = dict[Place, KafkaCluster]


def place(item: pytest.Item) -> Place | None:
    """Return which of the `clusters` a test uses."""
    call = getattr(item, "callspec", None)
    parameters = {} if call is None else call.params
    if isinstance(generation := parameters.get("broker"), Generation):
        return generation.version, generation.distant
    return (KAFKA_VERSION, True) if parameters.get("distance") == DISTANT else None


def started(clusters: Clusters, version: str, *, distant: bool) -> KafkaCluster:
    """A cluster of *clusters*, started by its first user; brokers look often whether a transaction lasts too long."""
    if (version, distant) not in clusters:
        config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": TIMED_OUT_LOOK_MS}
        cluster = KafkaCluster(version=version, config=config, round_trip=ROUND_TRIP if distant else None)
        try:
            clusters[version, distant] = cluster.__enter__()
        except KafkaUnavailableError as error:
            go_without(error)
    return clusters[version, distant]


@pytest.fixture
def distance(request: pytest.FixtureRequest) -> str:
    """`NEAR` or `DISTANT`.

    A parameter of `kafka` would also be one of the session's `kafka`, which would be started again at each change.
    """
    return str(getattr(request, "param", NEAR))


@pytest.fixture(name="kafka")
def near_or_distant(request: pytest.FixtureRequest, distance: str) -> KafkaCluster:
    """The session's Kafka, or one with the same version at a distance."""
    if distance == NEAR:
        kafka: KafkaCluster = request.getfixturevalue("kafka")
        return kafka
    clusters: Clusters = request.getfixturevalue("clusters")
    return started(clusters, KAFKA_VERSION, distant=True)


def generations(definition: pytest.Item) -> Sequence[Generation]:
    """Return those that a test runs with, near."""
    marker = definition.get_closest_marker("generations")
    limits = {} if marker is None else marker.kwargs
    since, before = release(limits.get("since", "0.10.2")), release(limits.get("before", "99.0"))
    found = [each for each in [*TODAYS, *OLD] if since <= release(each.version) < before]
    if LONG or (marker is not None and "all" in marker.args):
        return found
    first, *others = found
    if not others or (marker is not None and "one" in marker.args):
        return [first]
    return [first, _one_of(others, definition)]


def in_the_gate(definition: pytest.Item, found: Sequence[Generation]) -> Sequence[Generation]:
    """Return those of the generations of a test, near, with which `tox` runs it."""
    marker = definition.get_closest_marker("generations")
    others = [each for each in found[1:] if each in GATES_OTHERS]
    if marker is None or "all" not in marker.args or not others:
        return found[:1]
    return [found[0], _one_of(others, definition)]


def _one_of(others: Sequence[Generation], definition: pytest.Item) -> Generation:
    return others[zlib.crc32(definition.name.encode()) % len(others)]


def choose_distances(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by the generations, and by the distances that it is run with."""
    distant = LONG or metafunc.definition.get_closest_marker("distance") is not None
    if "broker" in metafunc.fixturenames:
        near = generations(metafunc.definition)
        gate = [*in_the_gate(metafunc.definition, near), *DISTANT_ONES[:1]]
        parameters = [
            pytest.param(each, id=str(each), marks=[] if each in gate else [MORE_GENERATIONS])
            for each in [*near, *(DISTANT_ONES if distant else ())]
        ]
        metafunc.parametrize("broker", parameters, indirect=True)
    elif distant and getattr(metafunc.module, "kafka", None) is near_or_distant and "kafka" in metafunc.fixturenames:
        metafunc.parametrize("distance", [NEAR, DISTANT], indirect=True)

"""Brokers that several test modules share: with TLS and SASL, and one of each generation of transactions.

A generation is a version of Kafka, and for today's also the level of the feature transaction.version: from 2 on,
writing alone makes a partition a member. `OTTLA_SOAK` adds the brokers before 2.8.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest
from clusters_by_version import ClustersByVersion
from modules_left_out import is_left_out
from shared_clusters import FAILED, MISDIRECTING, PROXIED, SHARED, SPARE, THREE, Lent, Shared, in_turns, shared_names
from spark_modules import starts_spark
from wrong_addresses import Misdirecting

from distance_kit import Clusters, Generation, choose_distances, distance, place, started
from ottla.errors import OttlaError
from ottla.errors.own_threads import OwnThread
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.proxy import CuttingProxy
from ottla_testkit.pytest_plugin import go_without
from printed_secrets import ERRORS, key_lines, leaked
from secure_broker import SecureBroker, secure_broker
from spark_java import start_spark_quickly
from transactions_kit import new_id

pytest_generate_tests = choose_distances

__all__ = ["distance"]

SECONDS_TO_END: Final = 10.0
"""For the thread of a producer that nothing refers to any more."""


@pytest.fixture(scope="session", autouse=True)
def quick_spark(request: pytest.FixtureRequest) -> None:
    """Every Spark that a test or its program starts has a class archive, which the first one records."""
    if any(item.get_closest_marker("spark") for item in request.session.items):
        start_spark_quickly()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules in which the chosen markers select nothing."""
    return True if is_left_out(collection_path, config.getoption("markexpr")) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of the Spark sink and those with clusters that tests disturb: they run in parallel to others.

    Raises UsageError for a test whose module would be left out when its marker is chosen.
    """
    if starts_spark(item.path):
        item.add_marker(pytest.mark.spark)
    if shared_names(item):
        item.add_marker(pytest.mark.disturbing)
    for marker in ("spark", "disturbing"):
        if item.get_closest_marker(marker) and is_left_out(item.path, marker):
            raise pytest.UsageError(f"{item.nodeid} would never run: the source of its module must show {marker!r}")


GENERATIONS: Final = ClustersByVersion(place)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """The brokers that were needed so far, by version and distance."""
    yield GENERATIONS.running
    GENERATIONS.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest, clusters: Clusters) -> KafkaCluster:
    """A broker of each generation, which looks often whether a transaction has lasted too long."""
    generation: Generation = request.param
    kafka = started(clusters, generation.version, distant=generation.distant)
    if generation.level is not None:
        set_feature(kafka.address(1), TRANSACTION_VERSION, generation.level)
    return kafka


@pytest.fixture
def topic(broker: KafkaCluster) -> str:
    """A topic of three partitions."""
    name = new_id()
    broker.create_topic(name, partitions=3)
    return name


KEYS: set[str] = set()
"""Of private keys that tests use, as their files have them."""


@pytest.fixture(autouse=True)
def everything_that_is_said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every log line at any level, and every error of ours that was created, also if it was never raised."""
    said = request.node.stash.setdefault(ERRORS, [])
    make = OttlaError.__init__

    def note(error: OttlaError, *arguments: object, **named: object) -> None:
        make(error, *arguments, **named)
        said.append(f"{type(error).__name__}: {error} {error!r}")

    monkeypatch.setattr(OttlaError, "__init__", note)
    logger = logging.getLogger("ottla")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(before)


@pytest.fixture(autouse=True)
def every_producer_ends_with_its_test() -> Iterator[None]:
    """No I/O thread that a test started runs after it: its log lines and errors would be those of another test."""
    before = io_threads()
    yield
    if io_threads() - before:
        if (cache := sys.modules.get("ottla_spark.worker.producer_cache")) is not None:
            cache._cache_of_process().empty()  # a test that runs tasks in its own process has a worker's cache
        gc.collect()  # a producer that nothing refers to any more ends by itself
        ends = time.monotonic() + SECONDS_TO_END
        while (still := io_threads() - before) and time.monotonic() < ends:
            time.sleep(0.05)
        assert not still, f"producers that the test did not close: {sorted(thread.name for thread in still)}"


def io_threads() -> set[threading.Thread]:
    """Return the I/O threads of all producers in this process."""
    return {
        thread
        for thread in threading.enumerate()
        if isinstance(thread, OwnThread) and thread.name.startswith("ottla-io-")
    }


USERS: Counter[str] = Counter()
"""How many tests are still to use each shared cluster."""


def lent(shared: Shared[Lent], request: pytest.FixtureRequest) -> AbstractContextManager[Lent]:
    """Lend a cluster to a test."""
    return shared.lent(failed=lambda: FAILED in request.node.stash, last=lambda: USERS[shared.name] == 1)


@pytest.fixture
def spare_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker that a test may freeze, stop, kill, move and change; the next test gets it restored."""
    with lent(SPARE, request) as kafka:
        yield kafka


@pytest.fixture
def three_kafkas(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three of them, which notice each other's loss soon."""
    with lent(THREE, request) as kafka:
        yield kafka


@pytest.fixture
def proxied_kafka(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaCluster, CuttingProxy]]:
    """A broker and the test's own proxy in front of it, to which it sends its clients."""
    with lent(PROXIED, request) as behind, behind.proxy() as proxy:
        yield behind.kafka, proxy


@pytest.fixture
def misdirecting_kafka(request: pytest.FixtureRequest) -> Iterator[Misdirecting]:
    """A broker with listeners that send their clients to wrong addresses."""
    with lent(MISDIRECTING, request) as misdirecting:
        yield misdirecting


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that share clusters run one after the other."""
    items[:] = in_turns(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    USERS.update(name for item in session.items for name in shared_names(item))
    GENERATIONS.count(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Close a shared cluster after the last test that uses it."""
    try:
        return (yield)
    finally:
        GENERATIONS.leave(item)
        for name in shared_names(item):
            USERS[name] -= 1
            if not USERS[name]:
                SHARED[name].close()


def pytest_sessionfinish() -> None:
    for shared in SHARED.values():
        shared.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the shared clusters that were started more than once, and why."""
    for shared in SHARED.values():
        for reason in shared.thrown_away:
            terminalreporter.write_line(f"{shared.name} was closed before its last test: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test during which a secret was printed, logged or part of an error has failed.

    The report of a test that failed has the brokers' logs, and its shared clusters are closed.
    """
    report = yield
    said = [text for _title, text in report.sections] + item.stash.get(ERRORS, [])
    found = leaked("\n".join(said), keys=KEYS)
    if found:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} ({report.when}) leaked {found}; read what it printed, logged and raised"
    if report.failed:
        item.stash[FAILED] = True
        report.sections += [log for name in shared_names(item) for log in SHARED[name].evidence()]
    return report


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The session's broker with TLS and SASL."""
    manager = secure_broker(tmp_path_factory.mktemp("secure"))
    try:
        broker = manager.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    KEYS.update(key_lines(broker.security.folder))
    try:
        yield broker
    finally:
        manager.__exit__(None, None, None)

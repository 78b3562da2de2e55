"""The known state of the cluster: waiting calls, the times of requests, and changes by a response."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import attrs
import pytest

from ottla.concurrency.environment import Environment
from ottla.errors import BrokerError, ConnectionFailedError, ErrorCode, ProducerClosedError, TopicUnavailableError
from ottla.network.backoff import Backoff
from ottla.network.cluster import NO_LEADER, Broker, Cluster, Topic
from ottla.network.metadata import Metadata
from ottla.network.nonblocking_metadata_wait import MetadataWait
from ottla.protocol.notation import ZERO_UUID
from ottla_testkit.manual_clock import ManualClock
from simulated_producer import simulated

HANG_GUARD = 20.0
BROKERS = {1: Broker(id=1, host="one", port=9092), 2: Broker(id=2, host="two", port=9092)}


class Setup:
    """Metadata with a clock that the test moves."""

    def __init__(self, *, max_age: float = 300.0, max_idle: float = 300.0) -> None:
        self.clock = ManualClock()
        self.wakes = 0
        self.metadata = Metadata(
            bootstrap=[("seed", 9092)],
            max_age=max_age,
            max_idle=max_idle,
            refresh_backoff=Backoff(initial=0.1, maximum=1.0, random=lambda: 0.5),
            wake=self.wake,
            environment=Environment(clock=self.clock),
        )

    def wake(self) -> None:
        self.wakes += 1

    def answer(self, *topics: Topic, brokers: Mapping[int, Broker] = BROKERS) -> Cluster:
        self.metadata.begin(self.clock())
        self.metadata.update(brokers, {topic.name: topic for topic in topics}, self.clock())
        return self.metadata.cluster

    @property
    def due_in(self) -> float:
        return self.metadata.due_at() - self.clock()


def led_by(*leaders: int, epoch: int = 0, name: str = "t", topic_id: bytes = b"\1" * 16) -> Topic:
    return Topic(name=name, id=topic_id, leaders=leaders, epochs=(epoch,) * len(leaders))


@pytest.mark.rule("metadata.bootstrap")
def test_before_the_first_response_the_bootstrap_servers_are_the_brokers() -> None:
    setup = Setup()

    assert [str(broker) for broker in setup.metadata.cluster.brokers.values()] == ["bootstrap server at seed:9092"]
    assert setup.due_in <= 0


def test_each_bootstrap_server_has_a_negative_id_of_its_own() -> None:
    metadata = Metadata(
        bootstrap=[("one", 1), ("two", 2), ("three", 3)],
        max_age=300.0,
        max_idle=300.0,
        refresh_backoff=Backoff(initial=0.1, maximum=1.0),
        wake=lambda: None,
        environment=Environment(clock=ManualClock()),
    )

    assert {node: (broker.id, broker.host) for node, broker in metadata.cluster.brokers.items()} == {
        -1: (-1, "one"),
        -2: (-2, "two"),
        -3: (-3, "three"),
    }


def test_the_first_broker_of_a_cluster_is_no_bootstrap_server() -> None:
    assert str(Broker(id=0, host="zero", port=9092)) == "broker 0 at zero:9092"


def test_brokers_with_the_same_address_are_equal_in_any_rack() -> None:
    here, there = (Broker(id=1, host="one", port=9092, rack=rack) for rack in ("a", "b"))

    assert (here == there, str(here) == str(there)) == (True, True)  # a new rack is no reason for a new connection


def test_a_topic_of_which_nothing_is_known_has_the_id_of_zeros() -> None:
    topic = Topic(name="t")

    assert (topic.id, topic.available) == (ZERO_UUID, ())


@pytest.mark.rule("metadata.age")
def test_after_a_response_metadata_is_due_at_its_maximum_age() -> None:
    setup = Setup(max_age=300.0)
    setup.metadata.use("t", setup.clock())

    setup.answer(led_by(1))

    assert setup.due_in == pytest.approx(300.0)


@pytest.mark.rule("metadata.backoff")
def test_a_request_for_an_update_is_due_after_the_backoff() -> None:
    setup = Setup()
    setup.answer()

    setup.metadata.request_update()

    assert setup.due_in == pytest.approx(0.1)


@pytest.mark.rule("metadata.new")
def test_a_new_topic_is_requested_at_once() -> None:
    setup = Setup()
    setup.answer()

    setup.metadata.use("new", setup.clock())

    assert setup.due_in <= 0
    assert setup.metadata.begin(setup.clock()).topics == ["new"]


@pytest.mark.rule("metadata.wanted")
def test_a_topic_added_during_a_request_needs_another_request() -> None:
    setup = Setup()
    setup.metadata.begin(setup.clock())
    setup.metadata.use("late", setup.clock())

    setup.metadata.update(BROKERS, {}, setup.clock())

    assert setup.due_in <= 0


def test_a_topic_that_others_wait_for_is_requested_once() -> None:
    setup = Setup()
    setup.metadata.find("t", partition=None)
    setup.metadata.begin(setup.clock())
    waits = [setup.metadata.find("t", partition=None), setup.metadata.find("other", partition=None)]

    setup.metadata.update(BROKERS, {"t": led_by(1)}, setup.clock())
    requested = setup.metadata.begin(setup.clock()).topics
    setup.metadata.update(BROKERS, {"other": led_by(1, name="other")}, setup.clock(), partial=True)

    assert requested == ["other"]
    assert setup.due_in > 60
    assert all(isinstance(wait, MetadataWait) and wait.ready for wait in waits)


@pytest.mark.rule("metadata.backoff")
def test_failures_in_a_row_back_off_further_and_further() -> None:
    setup = Setup()
    waits: list[float] = []
    for _ in range(5):
        setup.metadata.fail(ConnectionFailedError("no"), setup.clock())
        waits.append(round(setup.due_in, 3))

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]


@pytest.mark.rule("metadata.leaderless")
def test_metadata_is_requested_for_a_partition_without_a_leader() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())

    cluster = setup.answer(led_by(1, NO_LEADER))

    assert cluster.topics["t"].available == (0,)
    assert cluster.leader("t", 1) is None
    assert setup.due_in == pytest.approx(0.1)


@pytest.mark.rule("metadata.leaderless")
def test_an_unknown_broker_does_not_count_as_leader() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())

    assert setup.answer(led_by(7)).leader("t", 0) is None


def test_a_partition_behind_the_last_has_no_leader() -> None:
    cluster = Cluster(brokers=BROKERS, topics={"t": led_by(1, 2)})

    assert [cluster.leader("t", partition) for partition in range(4)] == [1, 2, None, None]
    assert cluster.leader("other", 0) is None


def test_an_error_of_a_topic_that_has_leaders_refuses_no_record() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(attrs.evolve(led_by(1, 2), error=ErrorCode.LEADER_NOT_AVAILABLE))

    assert setup.metadata.missing("t", 1) is None
    assert setup.metadata.missing("t", 2) is not None


@pytest.mark.rule("metadata.epoch")
def test_an_older_leader_epoch_never_replaces_a_newer_one() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(2, epoch=5))

    assert setup.answer(led_by(1, epoch=4)).leader("t", 0) == 2
    assert setup.answer(led_by(1, epoch=6)).leader("t", 0) == 1


@pytest.mark.rule("metadata.epoch")
def test_the_first_epoch_of_a_leader_never_replaces_a_newer_one() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(2, epoch=5))

    assert setup.answer(led_by(1, epoch=0)).leader("t", 0) == 2


@pytest.mark.rule("metadata.epoch")
def test_an_outdated_response_never_brings_back_an_earlier_leader() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(2, epoch=5))

    outdated = setup.answer(led_by(1, epoch=4), brokers={1: BROKERS[1]})

    assert outdated.leader("t", 0) is None
    assert outdated.leader_epoch("t", 0) == 5
    assert setup.answer(led_by(2, epoch=5)).leader("t", 0) == 2


@pytest.mark.rule("metadata.id")
def test_a_recreated_topic_starts_with_its_own_epochs() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(2, epoch=5))

    cluster = setup.answer(led_by(1, epoch=0, topic_id=b"\2" * 16))

    assert cluster.leader("t", 0) == 1


@pytest.mark.rule("metadata.idle")
def test_unused_topics_are_dropped() -> None:
    setup = Setup(max_idle=60.0)
    setup.metadata.use("old", 0.0)
    setup.answer(led_by(1, name="old"))
    setup.clock.advance(50)
    setup.metadata.use("young", setup.clock())
    setup.clock.advance(20)

    cluster = setup.answer(led_by(1, name="young"))

    assert list(cluster.topics) == ["young"]
    setup.metadata.request_update()
    assert setup.metadata.begin(setup.clock()).topics == ["young"]


@pytest.mark.rule("metadata.wait")
def test_waiting_for_a_known_topic_does_not_wait() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1, 2))

    assert setup.metadata.wait_for("t", partition=1, timeout=0).leaders == (1, 2)
    assert setup.wakes == 0


@pytest.mark.rule("metadata.wait")
def test_a_waiter_wakes_the_io_thread_and_gets_the_topic_when_it_comes() -> None:
    setup = Setup()
    asked = threading.Event()
    setup.metadata._wake = asked.set
    found: list[Topic] = []
    waiter = threading.Thread(
        target=lambda: found.append(setup.metadata.wait_for("t", partition=None, timeout=HANG_GUARD))
    )
    waiter.start()
    assert asked.wait(HANG_GUARD)

    setup.answer(led_by(1))
    waiter.join(HANG_GUARD)

    assert [topic.name for topic in found] == ["t"]


@pytest.mark.rule("metadata.topic-error")
@pytest.mark.rule("producer.send.refused.topic")
def test_a_topic_that_stays_unknown_is_refused_with_the_broker_error() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(Topic(name="t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    with pytest.raises(TopicUnavailableError, match="topic 't' is not available: UNKNOWN_TOPIC") as caught:
        setup.metadata.wait_for("t", partition=None, timeout=0)

    assert isinstance(caught.value.__cause__, BrokerError)


@pytest.mark.rule("metadata.topic-error")
@pytest.mark.parametrize("code", [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_permanent_error_is_raised_at_once(code: ErrorCode) -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(Topic(name="t", error=code))

    with pytest.raises(TopicUnavailableError) as caught:
        setup.metadata.wait_for("t", partition=None, timeout=3600)

    assert isinstance(caught.value.__cause__, BrokerError)
    assert caught.value.__cause__.code is code


@pytest.mark.rule("producer.send.refused.partition")
def test_a_missing_partition_is_refused_with_the_number_of_partitions() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1, 2))

    with pytest.raises(TopicUnavailableError, match="partition 2 does not exist; the topic has 2, counted from 0"):
        setup.metadata.wait_for("t", partition=2, timeout=0)


@pytest.mark.rule("metadata.wait.cause")
def test_a_wait_that_times_out_reports_the_last_network_error() -> None:
    setup = Setup()
    error = ConnectionFailedError("could not connect to seed:9092: ECONNREFUSED")
    setup.metadata.note(error)

    with pytest.raises(
        TopicUnavailableError, match="no broker answered; last error: could not connect to seed"
    ) as caught:
        setup.metadata.wait_for("t", partition=None, timeout=0)

    assert caught.value.__cause__ is error


@pytest.mark.rule("metadata.wait")
@pytest.mark.rule("producer.close.refuses")
def test_close_ends_every_wait() -> None:
    setup = Setup()
    setup.metadata.close(ProducerClosedError("closed"))

    with pytest.raises(ProducerClosedError):
        setup.metadata.wait_for("t", partition=None, timeout=3600)


@pytest.mark.rule("metadata.partial")
def test_a_new_topic_is_requested_alone_and_refreshes_no_other() -> None:
    setup = Setup(max_age=300.0)
    setup.metadata.use("old", setup.clock())
    setup.answer(led_by(1, name="old"))
    setup.clock.advance(100)
    setup.metadata.use("new", setup.clock())

    wanted = setup.metadata.begin(setup.clock())
    setup.metadata.update(BROKERS, {"new": led_by(2, name="new")}, setup.clock(), partial=wanted.partial)

    assert (wanted.partial, wanted.topics) == (True, ["new"])
    assert sorted(setup.metadata.cluster.topics) == ["new", "old"]
    assert setup.due_in == pytest.approx(200.0)


@pytest.mark.rule("metadata.partial")
def test_more_than_a_new_topic_is_requested_with_all_topics() -> None:
    setup = Setup()
    setup.metadata.use("old", setup.clock())
    setup.answer(led_by(1, name="old"))
    setup.metadata.use("new", setup.clock())
    setup.metadata.request_update()

    wanted = setup.metadata.begin(setup.clock())

    assert (wanted.partial, wanted.topics) == (False, ["new", "old"])


@pytest.mark.rule("metadata.again.keeps")
def test_rebootstrapping_forgets_the_brokers_and_keeps_the_topics() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1))

    setup.metadata.rebootstrap(setup.clock())

    cluster = setup.metadata.cluster
    assert [broker.host for broker in cluster.brokers.values()] == ["seed"]
    assert cluster.leader("t", 0) is None
    assert cluster.topics["t"].leaders == (1,)
    assert setup.due_in <= 0


@pytest.mark.rule("metadata.again.keeps")
def test_a_partition_without_a_leader_is_not_led_by_a_bootstrap_server() -> None:
    """Both have the id -1."""
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(NO_LEADER))

    setup.metadata.rebootstrap(setup.clock())

    cluster = setup.metadata.cluster
    assert NO_LEADER in cluster.brokers
    assert cluster.leader("t", 0) is cluster.named_leader("t", 0) is None
    assert [partition.leader for partition in cluster.partitions("t")] == [None]


@pytest.mark.rule("metadata.hint")
def test_a_leader_from_a_produce_response_needs_a_newer_epoch() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1, 1, epoch=5))
    newcomer = Broker(id=3, host="three", port=9092)

    assert not setup.metadata.move_leader("t", 1, newcomer, 5, setup.clock())
    assert not setup.metadata.move_leader("unknown", 0, newcomer, 9, setup.clock())
    assert not setup.metadata.move_leader("t", 2, newcomer, 9, setup.clock())
    assert setup.metadata.move_leader("t", 1, newcomer, 6, setup.clock())

    assert [setup.metadata.cluster.leader("t", partition) for partition in (0, 1)] == [1, 3]
    assert setup.metadata.cluster.brokers[3] == newcomer


THREE, FOUR = (Broker(id=node, host=f"host-{node}", port=9092) for node in (3, 4))


def hinted_setup(*leaders: int) -> Setup:
    """One in which metadata has brokers 1 and 2, and answers may name others."""
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(*leaders, epoch=5))
    setup.clock.advance(10.0)
    return setup


@pytest.mark.rule("metadata.hint.unlisted")
def test_metadata_is_requested_for_a_broker_known_from_a_response_only() -> None:
    setup = hinted_setup(1)
    assert setup.due_in > 0

    assert setup.metadata.move_leader("t", 0, THREE, 6, setup.clock())

    assert setup.due_in <= 0
    assert setup.metadata.cluster.leader("t", 0) == 3


@pytest.mark.rule("metadata.hint.unlisted")
def test_rebootstrapping_forgets_a_broker_that_a_response_named() -> None:
    setup = hinted_setup(1, 1)
    assert setup.metadata.move_leader("t", 0, THREE, 6, setup.clock())
    setup.metadata.rebootstrap(setup.clock())
    cluster = setup.answer(led_by(1, 1, epoch=6))

    assert 3 not in cluster.brokers
    assert setup.metadata.move_leader("t", 1, FOUR, 7, setup.clock())


@pytest.mark.rule("metadata.hint.unlisted")
def test_a_second_broker_from_a_response_is_ignored_until_metadata_has_it() -> None:
    setup = hinted_setup(1, 1, 1)
    setup.metadata.move_leader("t", 0, THREE, 6, setup.clock())

    assert not setup.metadata.move_leader("t", 1, FOUR, 6, setup.clock())
    assert not setup.metadata.move_leader("t", 1, attrs.evolve(BROKERS[2], host="elsewhere"), 6, setup.clock())
    assert setup.metadata.move_leader("t", 1, BROKERS[2], 6, setup.clock())
    assert setup.metadata.move_leader("t", 2, THREE, 6, setup.clock())  # it leads this one, too

    setup.answer(led_by(3, 1, 3, epoch=6), brokers={**BROKERS, 3: THREE})
    assert setup.metadata.move_leader("t", 1, FOUR, 7, setup.clock())


@pytest.mark.rule("metadata.hint.unlisted")
def test_a_broker_that_metadata_gets_late_is_kept_for_a_second() -> None:
    setup = hinted_setup(1)
    setup.metadata.move_leader("t", 0, THREE, 6, setup.clock())
    setup.clock.advance(0.9)

    assert setup.answer(led_by(1, epoch=5)).leader("t", 0) == 3
    assert setup.due_in <= 0.2  # to be asked again

    setup.clock.advance(0.05)
    assert setup.answer(led_by(3, epoch=6), brokers={**BROKERS, 3: THREE}).leader("t", 0) == 3


@pytest.mark.rule("metadata.hint.unlisted")
def test_a_broker_that_metadata_never_gets_is_dropped_again() -> None:
    setup = hinted_setup(1)
    setup.metadata.move_leader("t", 0, THREE, 2**31 - 1, setup.clock())
    setup.clock.advance(1.0)

    cluster = setup.answer(led_by(1, epoch=5))

    assert set(cluster.brokers) == {1, 2}
    assert cluster.leader("t", 0) == 1


@pytest.mark.rule("metadata.hint.unlisted")
def test_each_broker_that_metadata_never_gets_lengthens_the_next_wait() -> None:
    setup = hinted_setup(*[1] * 20)
    waits: list[float] = []
    for partition in range(5):
        while not setup.metadata.move_leader("t", partition, attrs.evolve(THREE, id=partition + 3), 6, setup.clock()):
            setup.clock.advance(0.01)
            waits[-1] += 0.01
        setup.clock.advance(1.0)
        setup.answer(led_by(*[1] * 20, epoch=5))
        waits.append(0.0)

    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.02)


@pytest.mark.rule("metadata.hint.two")
def test_after_two_leader_hints_metadata_is_requested_instead_of_a_third() -> None:
    setup = hinted_setup(1, 1)
    assert setup.metadata.move_leader("t", 0, BROKERS[2], 6, setup.clock())
    assert setup.metadata.move_leader("t", 0, BROKERS[1], 7, setup.clock())
    assert setup.due_in > 0

    assert not setup.metadata.move_leader("t", 0, BROKERS[2], 8, setup.clock())

    assert setup.due_in <= 0
    assert setup.metadata.cluster.leader("t", 0) == 1
    assert setup.metadata.move_leader("t", 1, BROKERS[2], 6, setup.clock())  # each partition has its own count


@pytest.mark.rule("metadata.hint.two")
def test_hints_are_counted_for_used_topics_only() -> None:
    setup = Setup(max_idle=5.0)
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1, epoch=5))
    setup.metadata.move_leader("t", 0, BROKERS[2], 6, setup.clock())
    setup.clock.advance(6.0)

    setup.answer()

    assert setup.metadata.hints == {}


@pytest.mark.rule("metadata.reported")
def test_every_change_of_the_cluster_is_reported_to_listeners() -> None:
    setup = Setup()
    reported: list[Cluster] = []
    setup.metadata.on_change = lambda: reported.append(setup.metadata.cluster)
    setup.metadata.use("t", setup.clock())

    setup.answer(led_by(1))
    setup.metadata.move_leader("t", 0, BROKERS[2], 1, setup.clock())
    setup.metadata.rebootstrap(setup.clock())

    assert [cluster.leader("t", 0) for cluster in reported] == [1, 2, None]


@pytest.mark.rule("metadata.again.trigger")
def test_seconds_without_an_update_start_with_the_first_request() -> None:
    setup = Setup()
    setup.answer()
    assert setup.metadata.seconds_without_update(setup.clock()) == 0.0
    for _ in range(3):
        setup.metadata.begin(setup.clock())
        setup.clock.advance(10)
        setup.metadata.fail(ConnectionFailedError("lost"), setup.clock())

    assert setup.metadata.seconds_without_update(setup.clock()) == pytest.approx(30.0)
    setup.metadata.rebootstrap(setup.clock())
    setup.clock.advance(10)
    assert setup.metadata.seconds_without_update(setup.clock()) == pytest.approx(10.0)
    setup.answer()
    assert setup.metadata.seconds_without_update(setup.clock()) == 0.0


@pytest.mark.rule("metadata.backoff.repeats")
def test_responses_without_news_are_followed_by_longer_and_longer_waits() -> None:
    setup = Setup()
    missing = Topic(name="t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    setup.metadata.use("t", setup.clock())
    waits: list[float] = []
    for _ in range(7):
        setup.answer(missing)
        waits.append(round(setup.due_in, 3))
        setup.clock.advance(setup.due_in)

    assert waits == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def ask_in_a_row(setup: Setup, topic: Topic, *, times: int) -> float:
    """Ask so often, as soon as may be, with this for an answer; returns how long the next request has to wait."""
    for _ in range(times):
        setup.clock.advance(max(setup.due_in, 0.0))
        setup.answer(topic)
        setup.metadata.request_update()
    return round(setup.due_in, 3)


@pytest.mark.rule("metadata.backoff.repeats")
def test_after_news_or_a_pause_metadata_is_requested_quickly_again() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    assert ask_in_a_row(setup, led_by(1), times=7) == 1.0
    assert ask_in_a_row(setup, led_by(2, epoch=1), times=2) == 0.1

    assert ask_in_a_row(setup, led_by(2, epoch=1), times=7) == 1.0
    setup.clock.advance(2.1)
    assert ask_in_a_row(setup, led_by(2, epoch=1), times=1) == 0.1


@pytest.mark.rule("metadata.backoff.moves")
def test_after_a_quiet_period_metadata_is_requested_quickly_again() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())

    def waits(*ports: int) -> list[float]:
        found: list[float] = []
        for port in ports:
            setup.answer(led_by(1), brokers={1: Broker(id=1, host="broker-1", port=port)})
            setup.metadata.request_update()
            found.append(round(setup.due_in, 3))
            setup.clock.advance(setup.due_in)
        return found

    assert waits(1, 2, 3, 4, 5, 6, 7) == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    setup.clock.advance(1.1)
    assert waits(8, 9) == [0.1, 0.2]


@pytest.mark.rule("metadata.topic-error")
def test_an_error_of_one_topic_does_not_affect_another() -> None:
    setup = Setup()
    setup.metadata.use("good", setup.clock())
    setup.metadata.use("bad", setup.clock())
    setup.answer(led_by(1, name="good"), Topic(name="bad", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert setup.metadata.wait_for("good", partition=0, timeout=0).leaders == (1,)
    with pytest.raises(TopicUnavailableError):
        setup.metadata.wait_for("bad", partition=0, timeout=3600)


@pytest.mark.rule("metadata.epoch")
def test_each_partition_keeps_its_own_newest_leader() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(Topic(name="t", id=b"\1" * 16, leaders=(1, 2, 1), epochs=(5, 5, 5)))

    cluster = setup.answer(Topic(name="t", id=b"\1" * 16, leaders=(2, 1, 2, 1), epochs=(4, 6, -1, 0)))

    assert cluster.topics["t"].leaders == (1, 1, 2, 1)
    assert cluster.topics["t"].epochs == (5, 6, -1, 0)


@pytest.mark.rule("metadata.idle")
def test_a_used_topic_is_never_idle() -> None:
    setup = Setup(max_idle=60.0)
    for _ in range(5):
        setup.metadata.use("t", setup.clock())
        setup.clock.advance(50)
        assert list(setup.answer(led_by(1)).topics) == ["t"]


@pytest.mark.rule("metadata.new")
def test_a_topic_that_is_already_in_use_is_not_new() -> None:
    setup = Setup()
    setup.metadata.use("t", setup.clock())
    setup.answer(led_by(1))

    setup.metadata.use("t", setup.clock())

    assert setup.due_in == pytest.approx(300.0)


@pytest.mark.rule("metadata.idle")
def test_a_topic_that_records_are_sent_to_stays_in_use() -> None:
    with simulated(1, config={"metadata.max.idle.ms": 30_000, "metadata.max.age.ms": 20_000}) as setup:
        for _ in range(20):
            setup.producer.send("t", b"value")  # its route is remembered: only the sender meets the metadata
            setup.run_until_idle()
            setup.pass_time(10.0)
            assert "t" in setup.metadata.topics

        setup.pass_time(60.0)
        assert "t" not in setup.metadata.topics


@pytest.mark.rule("metadata.again.other")
def test_topics_of_another_cluster_are_no_sign_of_a_third_one() -> None:
    """A topic of the same name may be used there later than others, and has another id."""
    setup, calls = Setup(), list[str]()
    metadata = setup.metadata
    metadata.on_other_cluster = lambda: calls.append("cluster")

    def note_topics(_same_since: float) -> bool:
        calls.append("topics")
        return True

    metadata.on_other_topics = note_topics

    def learn(cluster_id: str, *topics: Topic) -> None:
        setup.clock.advance(10.0)
        now = setup.clock()
        metadata.update(
            BROKERS, {topic.name: topic for topic in topics}, now, cluster_id=cluster_id, connected_at=now - 1.0
        )

    learn("first", led_by(1, name="t"), led_by(1, name="u", topic_id=b"\2" * 16))
    learn("second", led_by(1, name="t", topic_id=b"\3" * 16))
    learn("second", led_by(1, name="t", topic_id=b"\3" * 16), led_by(1, name="u", topic_id=b"\4" * 16))

    assert calls == ["cluster"]

"""`metrics("record-send-rate")`, and the text of all metrics for people."""

from __future__ import annotations

import math

import pytest

from ottla import ErrorCode, MetricName
from ottla.interfaces import MetricName as Name
from ottla.metrics.catalogue import CONNECTIONS, METRICS, NODE, PRODUCER, TOPIC
from ottla.metrics.snapshot import SHOWN, MetricsSnapshot
from simulated_producer import simulated


def test_every_metric_has_the_same_value_by_name_as_in_a_snapshot() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        all_of_them = simulation.producer.metrics()
        client = ("client-id", "me")
        for metric in (each for each in METRICS if each.name != CONNECTIONS):
            tags: tuple[tuple[str, str], ...]
            match metric.group:
                case "producer-metrics":
                    value, tags = simulation.producer.metrics(metric.name), (client,)
                case "producer-topic-metrics":
                    value, tags = simulation.producer.metrics(metric.name, topic="t"), (client, ("topic", "t"))
                case "producer-node-metrics":
                    value, tags = simulation.producer.metrics(metric.name, node=1), (client, ("node-id", "node-1"))
                case _:
                    continue
            assert str(value) == str(all_of_them[MetricName(metric.group, metric.name, tags)]), metric


def test_connections_are_counted_while_another_one_is_added() -> None:
    class Adding(int):
        """A number that adds a connection of another cipher when it is added up."""

        def __radd__(self, other: int) -> int:
            ciphers["another", "TLSv1.3"] = 1
            return other + int(self)

    with simulated(1) as simulation:
        ciphers = simulation.producer._engine.metric_values._counters.ciphers
        ciphers["first", "TLSv1.3"] = Adding(2)
        ciphers["second", "TLSv1.2"] = 3

        assert simulation.producer.metrics(CONNECTIONS) == 5


def test_a_topic_or_node_without_records_has_values_of_nothing() -> None:
    with simulated(1) as simulation:
        assert simulation.producer.metrics("record-send-total", topic="never") == 0
        assert simulation.producer.metrics("request-total", node=99) == 0
        assert math.isnan(simulation.producer.metrics("compression-rate", topic="never"))
        assert all(dict(name.tags).get("topic") is None for name in simulation.producer.metrics())


def test_a_metric_that_was_added_has_a_value_by_name() -> None:
    with simulated(1) as simulation:
        added = simulation.producer.application_metrics
        added.add_counter("orders-total", unit="orders", meaning="orders").add(3)
        assert simulation.producer.metrics("orders-total") == 3
        with pytest.raises(ValueError, match="there is no metric 'orders-total'"):
            simulation.producer.metrics("orders-total", topic="t")

        for shop in ("north", "south"):
            added.add_gauge("visitors", lambda: 1.0, unit="visitors", meaning="visitors", tags={"shop": shop})
        with pytest.raises(ValueError, match="2 metrics of plugins or of the program have the name 'visitors'"):
            simulation.producer.metrics("visitors")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("record-send-rat", {}, "there is no metric 'record-send-rat'; did you mean 'record-send-rate'?"),
        ("qqq", {}, "there is no metric 'qqq'; docs/metrics.md lists all"),
        ("byte-rate", {}, "producer-metrics has no metric 'byte-rate'; producer-topic-metrics has one: give topic=..."),
        ("batch-size-avg", {"topic": "t"}, "producer-metrics has one: give neither topic nor node"),
        ("request-rate", {"topic": "t", "node": 1}, "a metric is of a topic or of a node: give only one of them"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(
    name: str, options: dict[str, object], says: str
) -> None:
    with simulated(1) as simulation, pytest.raises(ValueError, match="metric") as refused:
        simulation.producer.metrics(name, **options)  # type: ignore[call-overload]

    assert says in str(refused.value)


def test_the_text_of_the_metrics_says_what_was_sent_and_how_long_it_took() -> None:
    with simulated(1, client_id="shop", linger_ms=250) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _ in range(3):
            simulation.producer.send("t", b"x" * 1000)
        simulation.run_until_idle()
        text = str(simulation.producer.metrics())

    lines = text.splitlines()
    assert lines[0].startswith("shop: records sent: 6, ")
    assert lines[0].endswith("; sent again: 3; failed: 0")
    assert "  times: " in text
    assert any(line.startswith("  topic t: records sent: 6, ") for line in lines)
    assert any(line.startswith("  node 1: ") for line in lines)
    assert "nan" not in text


def test_the_text_of_a_new_producer_has_no_numbers_of_nothing() -> None:
    with simulated(1, client_id="shop") as simulation:
        text = str(simulation.producer.metrics())

    assert "records sent: 0, " in text
    assert "nan" not in text
    assert str(MetricsSnapshot()).splitlines()[0].startswith("producer: ")


def test_only_some_of_many_topics_are_in_the_text() -> None:
    values = MetricsSnapshot(
        {Name(TOPIC, "record-send-total", (("client-id", "a"), ("topic", f"t{n:02}"))): 1.0 for n in range(SHOWN + 2)}
    )

    assert str(values).count("  topic t") == SHOWN
    assert "  and 2 other topics" in str(values)


def test_each_topic_and_each_node_has_its_own_numbers_in_the_text() -> None:
    client = ("client-id", "a")
    values = MetricsSnapshot()
    for number in (1, 2):
        values[Name(TOPIC, "record-send-total", (client, ("topic", f"t{number}")))] = float(number)
        values[Name(NODE, "request-total", (client, ("node-id", f"node-{number}")))] = number * 10.0

    lines = [line.split("; ")[0] for line in str(values).splitlines() if line.startswith("  topic") or "  node" in line]
    assert [line.split(",")[0] for line in lines] == [
        "  topic t1: records sent: 1",
        "  topic t2: records sent: 2",
        "  node 1: requests: 10",
        "  node 2: requests: 20",
    ]


def test_control_characters_of_a_client_id_do_not_reach_a_terminal() -> None:
    values = MetricsSnapshot({Name(PRODUCER, "record-send-total", (("client-id", "a\x1b[2Jb"),)): 1.0})
    values[Name(NODE, "request-total", (("client-id", "a\x1b[2Jb"), ("node-id", "node-1")))] = 1.0

    assert "\x1b" not in str(values)


def test_a_name_that_is_no_text_is_refused() -> None:
    with simulated(1) as simulation, pytest.raises(TypeError, match=r"^the name of a metric is text, not int$"):
        simulation.producer.metrics(3)  # type: ignore[call-overload]

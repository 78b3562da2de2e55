"""Records that `send` refuses before anything is queued, without a broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla import (
    ConfigError,
    InvalidRecordError,
    OttlaError,
    Producer,
    ProducerClosedError,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    TopicUnavailableError,
)
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import simulated


@pytest.fixture
def producer() -> Iterator[Producer]:
    """A producer whose broker does not exist: no process listens on port 9 of this machine."""
    made = Producer(bootstrap_servers="127.0.0.1:9", max_block_ms=50, reconnect_backoff_ms=10)
    yield made
    made.close(0)


def test_a_producer_connects_in_the_background_when_it_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        made = Producer(bootstrap_servers=f"127.0.0.1:{listener.getsockname()[1]}")
        accepted, _address = listener.accept()
        accepted.close()
        made.close(0)


@pytest.mark.parametrize("given", ["x" * 1_000_000, list(range(100_000)), -(10**5000)], ids=["text", "list", "number"])
def test_a_long_value_of_a_wrong_type_is_truncated_in_the_error(producer: Producer, given: Any) -> None:
    for argument in ("partition", "timestamp_ms"):
        arguments: dict[str, Any] = {argument: given}
        with pytest.raises(InvalidRecordError) as caught:
            producer.send("t", b"value", **arguments)
        assert len(str(caught.value)) < 300
    with pytest.raises((ValueError, TypeError)) as refused:
        producer.metrics(given)
    assert len(str(refused.value)) < 500


@pytest.mark.rule("producer.send.refused.type")
@pytest.mark.parametrize("value", ["text", 42, 1.5, ["list"], {"a": 1}])
def test_a_value_that_is_not_bytes_is_refused_with_the_remedy(producer: Producer, value: Any) -> None:
    with pytest.raises(InvalidRecordError, match=r"must be bytes, not .*: encode it first, or set value\.serializer"):
        producer.send("t", value)


@pytest.mark.parametrize(("value", "serializer"), [("text", "string"), (["list"], "json"), ({"a": 1}, "json")])
def test_the_remedy_for_text_and_objects_names_the_serializer(producer: Producer, value: Any, serializer: str) -> None:
    with pytest.raises(InvalidRecordError, match=rf"or set value\.serializer={serializer}$"):
        producer.send("t", value)


@pytest.mark.rule("producer.send.refused.type")
def test_a_key_that_is_not_bytes_is_refused_with_the_remedy(producer: Producer) -> None:
    with pytest.raises(InvalidRecordError, match=r"the key for topic 't' .* set key\.serializer"):
        producer.send("t", b"value", key="text")


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "ä", "x" * 250, "\ud800", b"bytes", None])
def test_an_invalid_topic_name_is_refused_at_once(producer: Producer, topic: Any) -> None:
    with pytest.raises(InvalidRecordError, match="is not a topic name"):
        producer.send(topic, b"value")


@pytest.mark.parametrize("topic", [b"secret", ["secret"], pa.table({"value": ["secret"]})])
def test_a_topic_of_a_wrong_type_is_reported_by_its_type_only(producer: Producer, topic: Any) -> None:
    said = f"^{type(topic).__name__} is not a topic name: a name has 1 to 249 characters of "
    for send in (lambda: producer.send(topic, b"value"), lambda: producer.send_table(topic, "orders")):
        with pytest.raises(InvalidRecordError, match=said) as caught:
            send()
        assert "secret" not in str(caught.value)


def test_a_long_text_as_topic_is_truncated_in_the_error(producer: Producer) -> None:
    with pytest.raises(InvalidRecordError, match="is not a topic name") as caught:
        producer.send("x" * 10_000, b"value")

    assert len(str(caught.value)) < 300


@pytest.mark.rule("producer.send.refused.type")
@pytest.mark.parametrize("interceptors", [{}, {"interceptor": object()}])
def test_an_uncallable_callback_is_refused(interceptors: dict[str, Any]) -> None:
    with simulated(1, plugins={"interceptors": interceptors}) as simulation:
        for on_delivery in (5, "", RecordMetadata("t", 0, 0, 0, 0, 0)):
            said = f"^on_delivery must be a function .*, not {type(on_delivery).__name__}$"
            with pytest.raises(InvalidRecordError, match=said):
                simulation.producer.send("t", b"value", on_delivery=on_delivery)  # type: ignore[arg-type]  # the test's point
        assert simulation.accumulator.incomplete == 0


@pytest.mark.parametrize("batch", ["x", None, b"bytes"])
def test_a_wrong_type_of_sealed_batch_is_refused_with_the_remedy(producer: Producer, batch: Any) -> None:
    said = f"^send_sealed takes a SealedBatch, one of the `batches` .*, not {type(batch).__name__}$"
    with pytest.raises(InvalidRecordError, match=said):
        producer.send_sealed(batch)


@pytest.mark.rule("producer.send.refused.timestamp", "producer.send.refused.type")
@pytest.mark.parametrize("timestamp_ms", [-1, 1.5, "now", True])
def test_an_invalid_timestamp_is_refused(producer: Producer, timestamp_ms: Any) -> None:
    with pytest.raises(InvalidRecordError, match="timestamp_ms"):
        producer.send("t", b"value", timestamp_ms=timestamp_ms)


@pytest.mark.rule("producer.send.refused.type")
@pytest.mark.parametrize("headers", [["lone"], [("name",)], [("name", "text")], [(b"name", b"v")], [(None, b"v")], 5])
def test_an_invalid_header_is_refused(producer: Producer, headers: Any) -> None:
    with pytest.raises(InvalidRecordError, match="header"):
        producer.send("t", b"value", headers=headers)


def test_headers_are_read_once() -> None:
    given: Any = iter([iter(("name", b"v")), ["other", None]])
    with MockProducer() as producer:
        producer.send("t", b"value", headers=given)

        assert producer.history[0].headers == (("name", b"v"), ("other", None))


@pytest.mark.rule("producer.send.refused.size")
def test_a_record_above_the_request_size_is_refused_with_the_setting() -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:9", max_request_size=10_000) as producer,
        pytest.raises(RecordTooLargeError, match=r"above max\.request\.size=10000"),
    ):
        producer.send("t", bytes(10_000))


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_an_error_of_send_has_no_other_error_as_its_context(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with simulated(1, config={"record.encoder": encoder, "max.block.ms": 0}) as simulation:
        send = simulation.producer.send
        errors = []
        for topic in ("no name", "unknown"):
            with pytest.raises(OttlaError) as refused:
                send(topic, b"v")
            errors.append(refused.value)
        simulation.producer.close()
        with pytest.raises(ProducerClosedError) as closed:
            send("t", b"v")

        assert [each.__context__ for each in (*errors, closed.value)] == [None] * 3


@pytest.mark.rule("producer.send.refused.serializer")
def test_an_error_of_a_serializer_is_the_cause() -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:9", value_serializer=lambda data: data["missing"]) as producer,
        pytest.raises(SerializationError, match="the value for topic 't'") as caught,
    ):
        producer.send("t", {})

    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.rule("producer.send.refused.topic")
def test_without_a_broker_the_error_names_the_bootstrap_servers(producer: Producer) -> None:
    with pytest.raises(TopicUnavailableError, match=r"max\.block\.ms .*127\.0\.0\.1:9: ECONNREFUSED"):
        producer.send("t", b"value")


@pytest.mark.rule("producer.send.refused.silent")
def test_refused_records_are_in_no_report(producer: Producer) -> None:
    with pytest.raises(InvalidRecordError):
        producer.send("t", "text")

    assert dict(producer.flush().topics) == {}


@pytest.mark.rule("producer.send.refused.closed")
def test_after_close_send_is_refused_and_close_is_harmless(producer: Producer) -> None:
    producer.close()

    with pytest.raises(ProducerClosedError):
        producer.send("t", b"value")
    assert producer.close().pending == 0


@pytest.mark.rule("producer.close.exception")
def test_the_error_of_the_with_block_is_not_hidden_by_close() -> None:
    with pytest.raises(ZeroDivisionError), Producer(bootstrap_servers="127.0.0.1:9"):
        raise ZeroDivisionError


def test_servers_without_a_keyword_are_refused_with_the_keyword() -> None:
    with pytest.raises(ConfigError, match=r"must be a mapping with Kafka's names, not str; .*bootstrap_servers='"):
        Producer("localhost:9092")  # type: ignore[arg-type]

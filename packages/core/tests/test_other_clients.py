"""Keys and calls of other Kafka clients are refused with what they are called here."""

from __future__ import annotations

import abc
import asyncio
import concurrent.futures
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import create_autospec

import pytest

import ottla
from ottla import Delivery, DeliveryError, Producer, RecordMetadata, check_config
from ottla.aio import AsyncProducer
from ottla.config import ConfigDraft
from ottla.config.config_def import OPTIONS
from ottla.config.java_keys import JAVA_KEYS
from ottla.config.key_names import KEYS_OF_OWN_PLUGINS
from ottla.config.other_clients import OTHER_CLIENTS
from ottla.errors import BrokerError, ConfigError, ErrorCode
from ottla.plugins.registry import Registry
from ottla.results import DeliveryReport, TopicReport
from ottla.results.call_hints import (
    ASYNC_HINTS,
    DELIVERY_HINTS,
    ERROR_HINTS,
    IMPORT_HINTS,
    METADATA_HINTS,
    PRODUCER_HINTS,
    SYNCHRONOUS_HINTS,
)
from ottla_testkit.mock_producer import MockProducer

CLIENTS = Path(__file__).parent / "other_clients"
CORE = frozenset(OPTIONS) | JAVA_KEYS
ALL_TYPES = "compression.<type>.level"


def keys_of(client: str) -> list[str]:
    """Return the keys of another client, as our keyword arguments spell them."""
    lines = (CLIENTS / f"{client}.txt").read_text().splitlines()
    return [line.replace("_", ".") for line in lines if not line.startswith("#")]


def problem_of(key: str) -> str:
    """The problem with this key, while no plugin is installed; its value may be another one."""
    with pytest.raises(ConfigError) as caught:
        ConfigDraft.read({"bootstrap.servers": "kafka:9092", key: "x"}).finish()
    return caught.value.problems[-1]


@pytest.mark.parametrize("client", ["aiokafka", "confluent-kafka", "kafka-python", "librdkafka", "schema-registry"])
def test_every_key_of_another_client_is_known_or_explained(client: str) -> None:
    assert [key for key in keys_of(client) if key not in CORE | KEYS_OF_OWN_PLUGINS | OTHER_CLIENTS.keys()] == []


def test_every_explained_key_exists_in_another_client() -> None:
    of_others = {key for file in CLIENTS.iterdir() for key in keys_of(file.stem)}

    assert set(OTHER_CLIENTS) - of_others == {"schema.registry.url"}


def test_keys_that_are_suggested_exist() -> None:
    suggested = {other.name for other in OTHER_CLIENTS.values() if other.name is not None}

    assert suggested - CORE - KEYS_OF_OWN_PLUGINS == {ALL_TYPES}


def test_no_key_of_ours_is_taken_for_one_of_another_client() -> None:
    assert OTHER_CLIENTS.keys() & (CORE | KEYS_OF_OWN_PLUGINS) == set()


def test_keys_of_our_own_packages_are_all_listed() -> None:
    installed = Registry().built_in_keys()

    assert {key for key in installed - CORE if key.startswith(("https.", "sasl.", "ssl."))} == KEYS_OF_OWN_PLUGINS


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("request.required.acks", "did you mean 'acks'?"),
        ("metadata.broker.list", "did you mean 'bootstrap.servers'?"),
        ("queue.buffering.max.kbytes", "did you mean 'buffer.memory'? It is in bytes"),
        ("ssl_check_hostname", "did you mean 'ssl.endpoint.identification.algorithm'? False is the empty string"),
        ("ssl.certfile", "did you mean 'ssl.keystore.location'? One PEM file has the certificates and the key"),
        ("ssl_cafile", "did you mean 'ssl.truststore.location'?"),
        (
            "oauth_cb",
            "did you mean 'sasl.oauthbearer.token.provider'? It is called without arguments, and returns the token as "
            "text or an ottla_authenticator_sasl.Token, whose expires_at_ms is in milliseconds",
        ),
        (
            "sasl_oauth_token_provider",
            "did you mean 'sasl.oauthbearer.token.provider'? It is the method `token` of the object",
        ),
        (
            "statistics.interval.ms",
            "other clients have it; leave it out; call producer.metrics() where you need figures, or set "
            "metric.reporters",
        ),
        (
            "stats_cb",
            "other clients have it; leave it out; call producer.metrics() where you need figures, or set "
            "metric.reporters",
        ),
        ("api_version_auto_timeout_ms", "other clients have it; leave it out; brokers say which versions they support"),
        ("group.id", "other clients have it; leave it out; it is for consumers"),
        ("sasl.kerberos.keytab", "a plugin that is not installed has it; try: pip install ottla-authenticator-sasl"),
        ("ssl.crl.location", "a plugin that is not installed has it; try: pip install ottla-transport-ssl"),
    ],
)
def test_a_key_of_another_client_is_refused_with_its_name_here(key: str, hint: str) -> None:
    assert problem_of(key) == f"{key!r} is not a known key; {hint}"


def test_a_misnamed_key_counts_while_other_problems_are_found() -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(
            {"bootstrap.servers": "kafka:9092", "compression_codec": "zstdd", "queue.buffering.max.ms": "soon"}
        )

    assert caught.value.problems == (
        "linger.ms: 'soon' is not a whole number of at least 0",
        "'compression_codec' is not a known key; did you mean 'compression.type'?",
        "'queue.buffering.max.ms' is not a known key; did you mean 'linger.ms'?",
        "no compressor is named 'zstdd'; did you mean 'zstd'? (installed: gzip, lz4, snappy, zstd)",
    )


def test_the_right_key_has_precedence_over_a_misnamed_one() -> None:
    given = {"bootstrap.servers": "kafka:9092", "compression.type": "gzip", "compression.codec": "gzipp"}
    with pytest.raises(ConfigError) as caught:
        check_config(given)

    assert caught.value.problems == ("'compression.codec' is not a known key; did you mean 'compression.type'?",)


# Calls


@pytest.mark.parametrize(
    ("made", "hints"),
    [
        (object.__new__(Producer), PRODUCER_HINTS),
        (object.__new__(AsyncProducer), ASYNC_HINTS | SYNCHRONOUS_HINTS),
        (object.__new__(Delivery), DELIVERY_HINTS),
        (RecordMetadata("orders", 0, 7, 1, -1, 2), METADATA_HINTS),
        (DeliveryError("no", topic="orders", partition=0, attempts=1, possibly_persisted=False), ERROR_HINTS),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_method_of_another_client_is_refused_with_what_to_call(made: object, hints: Mapping[str, str]) -> None:
    kind = type(made)
    for name, hint in hints.items():
        with pytest.raises(AttributeError) as caught:
            getattr(made, name)

        assert str(caught.value) == f"{kind.__name__!r} object has no attribute {name!r}; {hint}"
        assert not hasattr(kind, name)


@pytest.mark.parametrize("wait", [concurrent.futures.wait, lambda some: list(concurrent.futures.as_completed(some))])
def test_concurrent_futures_refuse_a_delivery_with_what_to_call(wait: Callable[[Any], object]) -> None:
    with MockProducer() as producer:
        delivery = producer.send("orders", b"v")

        with pytest.raises(AttributeError, match=r"call future\(\), which returns one that wait and as_completed"):
            wait([delivery])
        producer.flush()
        assert concurrent.futures.wait([delivery.future()]).not_done == set()


def test_the_length_of_a_producer_is_refused_with_what_to_call() -> None:
    with MockProducer() as producer:
        with pytest.raises(AttributeError, match=r"flush\(\) waits for the records that are queued"):
            len(producer)  # type: ignore[arg-type]

        assert producer, "asking for the truth does not ask for the length"


async def _entered(producer: Any) -> None:
    async with producer:
        pass


def test_the_wrong_kind_of_with_statement_names_the_right_one() -> None:
    # CPython 3.14 and PyPy have messages of their own, and do not show ours.
    kinds = (AttributeError, TypeError)
    with MockProducer() as producer, pytest.raises(kinds, match=r"use AsyncProducer|mean to use 'with'|no __aenter__"):
        asyncio.run(_entered(producer))
    producer_for_async: Any = object.__new__(AsyncProducer)
    with pytest.raises(kinds, match=r"use (`async with`|'async with')|no __enter__"), producer_for_async:
        pass


@pytest.mark.parametrize(("name", "hint"), IMPORT_HINTS.items())
def test_importing_a_class_of_another_client_names_what_to_import(name: str, hint: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from ottla import {name}")

    assert str(caught.value) == f"cannot import name {name!r} from 'ottla'; {hint}"
    assert name not in dir(ottla)


@pytest.mark.parametrize(("name", "hint"), IMPORT_HINTS.items())
def test_a_program_may_ask_whether_the_module_has_such_a_class(name: str, hint: str) -> None:
    assert not hasattr(ottla, name)
    assert getattr(ottla, name, None) is None
    with pytest.raises(AttributeError, match=re.escape(f"module 'ottla' has no attribute {name!r}; {hint}")):
        getattr(ottla, name)


def test_any_other_name_that_is_missing_has_the_usual_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Prodcer'"):
        exec("from ottla import Prodcer")


def test_a_report_has_topic_and_partition_also_after_a_failure() -> None:
    seen: list[tuple[object, object, object]] = []

    def report(delivery: Delivery) -> None:
        err, msg = delivery.error, delivery.metadata or delivery
        seen.append((err is None, msg.topic, msg.partition))

    with MockProducer(auto_complete=False) as producer:
        for _ in range(2):
            producer.send("orders", b"v", on_delivery=report)
        producer.complete_next()
        producer.error_next(BrokerError(ErrorCode.MESSAGE_TOO_LARGE))

    assert seen == [(True, "orders", 0), (False, "orders", 0)]


def test_methods_that_hints_name_exist() -> None:
    for kind, hints in ((Producer, PRODUCER_HINTS), (Delivery, DELIVERY_HINTS)):
        called = {name for hint in hints.values() for name in re.findall(r"call (\w+)", hint)}

        assert called
        assert [name for name in called if not hasattr(kind, name)] == []


def test_a_mock_has_the_hints_of_a_producer() -> None:
    with MockProducer() as producer, pytest.raises(AttributeError, match=r"call send\(topic, value, key\)"):
        producer.produce("orders", b"v")  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_an_autospec_of_a_producer_refuses_the_methods_of_other_clients(kind: type) -> None:
    mock = create_autospec(kind, instance=True)

    mock.send("orders", b"v").close()
    for name in ("produce", "poll", "list_topics", "stop"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(mock, name)


def test_dir_names_only_attributes_that_exist() -> None:
    with MockProducer() as producer:
        delivery = producer.send("orders", b"v")
        error = DeliveryError("no", topic="orders", partition=0, attempts=1, possibly_persisted=False)
        found: list[object] = [Producer, AsyncProducer, producer, delivery, delivery.result(), error]
        for each in found:
            assert [name for name in dir(each) if not hasattr(each, name)] == []

        assert {"send", "metrics", "history"} <= set(dir(producer))


def test_a_class_may_derive_from_a_producer_and_from_abstract_classes() -> None:
    class Port(abc.ABC):
        @abc.abstractmethod
        def poll(self) -> str: ...

    class Sender(Protocol):
        def flush(self) -> object: ...

    class Polled(MockProducer, Port, Sender):
        def poll(self) -> str:
            return "polled"

    with Polled() as producer, MockProducer() as other:
        assert producer.poll() == "polled"
        assert "poll" in dir(producer)
        assert isinstance(producer, Port)
        assert not isinstance(other, Polled)


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_other_objects_are_no_producers(kind: type) -> None:
    assert not isinstance("orders", kind)
    assert not issubclass(str, kind)
    assert isinstance(object.__new__(kind), kind)
    assert not isinstance(object.__new__(Delivery), kind)
    assert issubclass(MockProducer, Producer)
    assert not issubclass(Producer, MockProducer)


def test_any_other_missing_attribute_has_the_usual_error() -> None:
    with pytest.raises(AttributeError, match=r"object has no attribute 'sned'$"):
        object.__new__(Producer).sned("orders")  # type: ignore[attr-defined]


def test_a_report_is_true_while_records_are_pending_and_no_number() -> None:
    report = DeliveryReport({"orders": TopicReport(acknowledged=5)})

    assert not report
    assert DeliveryReport({"orders": TopicReport(pending=1)})
    numbers: list[Callable[[], object]] = [lambda: report > 0, lambda: report <= 0, lambda: int(report)]
    for number in numbers:
        with pytest.raises(TypeError, match=r"a DeliveryReport is not a number, .* read its pending, acknowledged or"):
            number()


def test_the_groups_of_kafka_python_are_a_hint() -> None:
    with MockProducer() as producer, pytest.raises(KeyError, match="for one value call producer"):
        producer.metrics()["producer-metrics"]  # type: ignore[index]


def test_each_method_of_producer_is_also_asynchronous_or_has_a_hint() -> None:
    methods = {name for name in vars(Producer) if not name.startswith("_")} - PRODUCER_HINTS.keys()

    assert methods - vars(AsyncProducer).keys() == set()
    assert methods >= SYNCHRONOUS_HINTS.keys()


def test_a_key_is_left_out_because_the_table_marks_it() -> None:
    hints = {key: other.hint() for key, other in OTHER_CLIENTS.items()}

    assert {key for key, hint in hints.items() if "leave it out" in hint} == {
        key for key, other in OTHER_CLIENTS.items() if other.droppable
    }
    assert not any("leave it out" in other.remark for other in OTHER_CLIENTS.values())

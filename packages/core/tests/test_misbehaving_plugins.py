"""Plugins that break their contract while they run: the error names plugin, package and remedy, and all else goes on.

Each variant is one method of a right plugin, replaced; transports have a module of their own.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from broker_on_a_socket import SECRET

from ottla import InvalidPluginError, InvalidRecordError, OttlaError, SerializationError
from ottla.accumulator.batch import ProducerBatch
from ottla.concurrency import signals
from ottla.concurrency.environment import daemon_thread
from ottla.errors import AuthenticationError, IllegalStateError
from ottla.errors.plugin_origin import PluginOrigin, faults, note_origin, origin_of
from ottla.interfaces import Columns, Header, Step
from ottla.network.authentication import Compute, login_errors
from ottla.network.authentication.exchange import Exchange
from ottla.plugins.attribute_checks import checked_mechanism
from ottla.recordbatch.codecs import compressed
from ottla.recordbatch.objects import ObjectColumns
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import Calling, simulated

REMEDY: Final = "report it to the authors of acme, or set another one"


def installed(kind: str, made: Any) -> Any:
    """An object as if the package acme had made it."""
    note_origin(made, origin(kind))
    return made


def origin(kind: str) -> PluginOrigin:
    return PluginOrigin(f"{kind} 'acme' of acme 1.2 (acme.plugin)", REMEDY)


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    return fail


def returning(value: object) -> Callable[..., Any]:
    return lambda *_arguments, **_options: value


class TextlessError(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class PanicException(BaseException):
    """As extension modules in Rust have one."""


class AlarmRang(BaseException):
    """Of a signal handler of the program."""


FAULTS: Final[Mapping[str, Callable[..., Any]]] = {
    "raises": raising(KeyError("boom")),
    "raises without text": raising(RuntimeError()),
    "raises text of many lines": raising(RuntimeError("a\n\x1b[2Jb")),
    "raises what has no text": raising(TextlessError()),
    "exits": raising(SystemExit(3)),
    "is cancelled": raising(asyncio.CancelledError()),
    "ends a generator": raising(GeneratorExit()),
    "raises a group": raising(BaseExceptionGroup("two", [SystemExit(3), KeyError("boom")])),
    "takes no arguments": lambda: None,
    "panics": raising(PanicException("index out of bounds")),
    "recurses": raising(RecursionError("too deep")),
}
"""What any method may do."""


def variants(results: Mapping[str, Callable[..., Any]]) -> Any:
    """Each fault, and each wrong result of a method."""
    return [pytest.param(method, id=name) for name, method in {**FAULTS, **results}.items()]


def closed_coroutine() -> Any:
    async def nothing() -> None:
        """Nothing."""

    made = nothing()
    made.close()  # else Python warns that nothing has awaited it
    return made


# Partitioners


class ReadOnce:
    """As many partitions as it is asked for, whose iterator is always the same."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._rest = iter([0] * count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return self._rest


class Partitioner:
    """All records to partition 1."""

    def partition(self, topic: str, key: bytes | None, view: Any) -> int:
        return 1


@pytest.mark.parametrize(
    "change",
    [
        lambda numbers: numbers.clear(),
        lambda numbers: numbers.pop(),
        lambda numbers: numbers.__setitem__(slice(None), ["many"] * len(numbers)),
    ],
)
def test_a_partitioner_that_changes_its_view_fails_no_send(change: Any) -> None:
    class Changes:
        def partition(self, topic: str, key: bytes | None, view: Any) -> int:
            change(view.queued_bytes)
            views.append(view)
            return 1

    views: list[Any] = []

    with simulated(1, 1, plugins={"partitioner": Changes()}) as simulation:
        deliveries = [simulation.producer.send("t", b"value") for _ in range(3)]
        simulation.run_until_idle()

        assert [each.exception(0) for each in deliveries] == [None] * 3
    assert views[-1].queued_bytes == [0, 0]


def test_a_view_that_was_changed_has_the_bytes_of_the_next_batch_again() -> None:
    class Clears:
        def partition(self, topic: str, key: bytes | None, view: Any) -> int:
            if not views:
                view.queued_bytes.clear()
            views.append(view)
            return 1

    views: list[Any] = []

    with simulated(1, 1, plugins={"partitioner": Clears()}) as simulation:
        simulation.producer.send("t", b"value")
        other, queued = views[0].queued_bytes

        assert other == 0
        assert queued > 0


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    "partition",
    variants(
        {
            "too large": returning(2),
            "far too large": returning(10**30),
            "negative": returning(-1),
            "a float": returning(1.0),
            "a text": returning("1"),
            "nothing": returning(None),
            "a tuple": returning((1,)),
            "a coroutine": returning(closed_coroutine()),
            "a number that fails": returning(type("Failing", (), {"__index__": raising(KeyError("boom"))})()),
            "infinite": returning(float("inf")),
        }
    ),
)
def test_a_wrong_partitioner_is_named_and_refuses_its_record(partition: Any) -> None:
    broken = installed("partitioner", type("Broken", (), {"partition": staticmethod(partition)})())
    with simulated(1, 1, plugins={"partitioner": broken}) as simulation:
        with pytest.raises(InvalidPluginError) as caught:
            simulation.producer.send("t", b"value", b"key")
        delivery = simulation.producer.send("t", b"value", b"key", partition=0)
        simulation.run_until_idle()

        assert delivery.exception(0) is None
    check_named(caught.value, "partitioner")


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    "column",
    variants(
        {
            "too few": lambda _topic, keys, _view: [0] * (len(keys) - 1),
            "too many": lambda _topic, keys, _view: [0] * (len(keys) + 1),
            "too large": lambda _topic, keys, _view: [2] * len(keys),
            "negative": lambda _topic, keys, _view: [-1] * len(keys),
            "floats": lambda _topic, keys, _view: [0.0] * len(keys),
            "texts": lambda _topic, keys, _view: ["0"] * len(keys),
            "nothing": returning(None),
            "a generator": lambda _topic, keys, _view: (0 for _ in keys),
            "a list that fails": returning(type("Failing", (list,), {"__len__": raising(KeyError("boom"))})()),
        }
    ),
)
def test_a_wrong_partitioner_of_columns_is_named_and_fails_its_batch(column: Any) -> None:
    methods = {"partition": returning(0), "partition_column": staticmethod(column)}
    broken = installed("partitioner", type("Broken", (), methods)())
    with simulated(1, 1, plugins={"partitioner": broken}) as simulation:
        failed = simulation.producer.send("t", b"value", b"key")
        simulation.run_until_idle()
        delivery = simulation.producer.send("t", b"value", partition=0)
        simulation.run_until_idle()

        assert delivery.exception(0) is None
        error = failed.exception(0)
    assert error is not None
    check_named(error, "partitioner")


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize("column", [[0, 2], [2, 0], [0, -1], [-1, 0]])
def test_one_wrong_partition_among_others_fails_the_batch(column: list[int]) -> None:
    broken = installed(
        "partitioner", type("Broken", (), {"partition": returning(0), "partition_column": returning(column)})()
    )
    with simulated(1, 2, plugins={"partitioner": broken}) as simulation:
        failed = [simulation.producer.send("t", b"value", key) for key in (b"a", b"b")]
        simulation.run_until_idle()
        errors = [delivery.exception(0) for delivery in failed]

    for error in errors:
        assert error is not None
        check_named(error, "partitioner")
        assert "which has 2, counted from 0" in str(error)


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("send", "a signal handler, __del__ or a plugin called the producer in the middle of another call"),
        ("flush", "flush inside a delivery callback would wait for itself"),
    ],
)
def test_a_partitioner_that_calls_its_producer_under_the_lock_is_named(call: str, reason: str) -> None:
    class Calls(Partitioner):
        producer: Any = None

        def partition_column(self, topic: str, keys: Sequence[bytes], view: Any) -> Sequence[int]:
            if call == "send":
                self.producer.send("t", b"another", partition=0)
            else:
                self.producer.flush()
            return [0] * len(keys)

    partitioner = installed("partitioner", Calls())
    with simulated(1, 1, plugins={"partitioner": partitioner}) as simulation:
        partitioner.producer = simulation.producer
        failed = simulation.producer.send("t", b"value", b"key")
        simulation.run_until_idle()
        error = failed.exception(0)

    assert error is not None
    check_named(error, "partitioner")
    assert f"failed in partition_column for topic 't': IllegalStateError: {reason}" in str(error)


def test_an_error_that_a_plugin_raises_again_and_again_belongs_to_no_call() -> None:
    unknown = InvalidRecordError("no such customer")

    class Refuses(Partitioner):
        def partition(self, topic: str, key: bytes | None, view: Any) -> int:
            raise unknown

    with simulated(1, 1, plugins={"partitioner": Refuses()}) as simulation:
        for rows in (1, 2):
            with pytest.raises(InvalidRecordError, match="no such customer") as refused:
                simulation.producer.send_table("t", pa.table({"value": [b"v"] * rows, "key": [b"bad"] * rows}))

            assert refused.value.delivery is not None
            assert refused.value.delivery.rows == rows
            assert len(refused.value.__notes__) == 1
        with pytest.raises(InvalidRecordError, match="no such customer") as alone:
            simulation.producer.send("t", b"v", b"bad")

    assert alone.value.delivery is None
    assert not hasattr(unknown, "__notes__")


@pytest.mark.parametrize("column", [ReadOnce, lambda count: [False] * count, lambda count: (0,) * count])
def test_partitions_of_a_column_may_be_any_ints_with_a_length(column: Callable[[int], Any]) -> None:
    methods = {"partition": returning(0), "partition_column": lambda _self, _topic, keys, _view: column(len(keys))}
    with simulated(1, 1, config={"partitioner.class": type("Columns", (), methods)()}) as simulation:
        simulation.producer.send("t", b"value", b"key")
        simulation.producer.send_table("t", pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        Calling(simulation, simulation.producer.flush).rounds()

        assert [record.key for record in simulation.cluster.topics["t"].log[0]] == [b"key", b"a", b"b"]


def test_partitions_of_a_column_may_be_small_integers_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")

    def partition_column(_self: object, _topic: str, keys: Sequence[bytes], _view: object) -> Any:
        return numpy.ones(len(keys), dtype=numpy.uint8)  # their sum is above 255

    methods = {"partition": returning(1), "partition_column": partition_column}
    with simulated(1, 1, config={"partitioner.class": type("Columns", (), methods)()}) as simulation:
        simulation.producer.send_table("t", pa.table({"key": [b"k"] * 300, "value": [b"v"] * 300}))
        Calling(simulation, simulation.producer.flush).rounds()

        assert {number: len(log) for number, log in simulation.cluster.topics["t"].log.items() if log} == {1: 300}


def check_named(error: BaseException, kind: str) -> None:
    """The error names the plugin with its package, and what helps."""
    assert f"the {origin(kind).name} " in str(error)
    assert REMEDY in str(error)
    assert isinstance(error, OttlaError)


# Serializers


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize(
    "serialize",
    variants(
        {
            "a text": returning("text"),
            "a number": returning(7),
            "a list": returning([b"value"]),
            "refuses": raising(ValueError("no such schema")),
        }
    ),
)
def test_a_wrong_serializer_is_named_and_refuses_its_record(part: str, serialize: Any) -> None:
    broken = installed("serializer", type("Broken", (), {"serialize": staticmethod(serialize)})())
    with simulated(1, plugins={f"{part}_serializer": broken}) as simulation:
        with pytest.raises(SerializationError) as caught:
            simulation.producer.send("t", b"value", b"key")

        assert not simulation.accumulator.incomplete
    assert f"the {part} for topic 't' could not be serialized: " in str(caught.value)
    assert origin("serializer").name in str(caught.value)
    if not isinstance(caught.value.__cause__, TypeError | ValueError):  # these are for what the caller has sent
        check_named(caught.value, "serializer")


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("returned", ["text", 7, [b"value"]])
@pytest.mark.parametrize("prepares", [False, True])
def test_a_serializer_that_returns_no_bytes_is_at_fault_and_not_the_data(
    part: str, returned: object, prepares: bool
) -> None:
    methods = {"serialize": lambda *_arguments: returned} | ({"prepare": lambda *_arguments: None} if prepares else {})
    broken = installed("serializer", type("Broken", (), methods)())
    with (
        simulated(1, plugins={f"{part}_serializer": broken}) as simulation,
        pytest.raises(SerializationError) as caught,
    ):
        simulation.producer.send("t", b"value", b"key")

    found = origin("serializer")
    assert str(caught.value) == (
        f"the {part} for topic 't' could not be serialized: the {found.name} returned {type(returned).__name__}, not "
        f"bytes; {found.remedy}"
    )


def named(value: object) -> bytes:
    raise LookupError(value)


@pytest.mark.parametrize(("function", "name"), [(str.encode, r"builtins\.str\.encode"), (named, r"\S+plugins\.named")])
def test_a_function_that_serializes_is_named_when_it_fails(function: Callable[[Any], bytes], name: str) -> None:
    with (
        simulated(1, config={"value.serializer": function}) as simulation,
        pytest.raises(SerializationError, match=rf"serializer {name}\b"),
    ):
        simulation.producer.send("t", 5)


# Compressors


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    "compress",
    variants(
        {
            "a text": returning("text"),
            "nothing": returning(None),
            "a number": returning(7),
            "chunks": lambda chunks, *, level: list(chunks),
            "raises an error of Ottla": raising(IllegalStateError("flush inside a delivery callback")),
        }
    ),
)
def test_a_wrong_compressor_is_named_and_fails_its_batch(compress: Any) -> None:
    methods = {"codec_id": 1, "compress": staticmethod(compress), "decompress": returning(b"")}
    broken = installed("compressor", type("Broken", (), methods)())
    with simulated(1, plugins={"compressor": broken}) as simulation:
        delivery = simulation.producer.send("t", b"value" * 100)
        simulation.run_until_idle()
        error = delivery.exception(0)

    assert error is not None
    check_named(error, "compressor")
    with pytest.raises(InvalidPluginError):
        compressed(broken, [b"value"])


# Encoders


@pytest.mark.parametrize("encode", variants({}))
def test_an_encoder_that_fails_costs_one_batch_and_is_named(encode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1) as simulation:
        with monkeypatch.context() as patch:
            patch.setattr(ObjectColumns, "encode", encode)
            failed = simulation.producer.send("t", b"value")
            simulation.run_until_idle()
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert "the encoder 'python' of ottla " in str(failed.exception(0))
        assert delivery.exception(0) is None


class Foreign:
    """Columns of a third-party encoder; `faulty` names methods that fail."""

    def __init__(self) -> None:
        self.columns = ObjectColumns(10_000)
        self.faulty: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        return raising(ValueError("boom")) if name in self.faulty else getattr(self.columns, name)

    def __len__(self) -> int:
        return int(self.__getattr__("__len__")())


def test_a_batch_whose_columns_fail_is_closed_and_keeps_its_count() -> None:
    """Otherwise it could neither expire nor fail, nor could other batches, and `close` would raise."""
    columns = Foreign()
    batch = ProducerBatch(topic="t", partition=0, columns=cast("Columns", columns), now=0.0)
    batch.append(None, b"value", (), None, None)
    columns.faulty = frozenset({"close", "__len__"})
    batch.close()
    batch.close()

    assert batch.append(None, b"value", (), None, None) is None
    assert batch.count == 1
    with pytest.raises(InvalidPluginError, match="failed in close: ValueError: boom"):
        batch.columns.encode(2)


# Mechanisms


class Login:
    """An exchange that is done after one message."""

    def start(self) -> bytes:
        return b"hello"

    def challenge(self, data: bytes) -> Step:
        return Step(reply=None, done=True)


def first_step(mechanism: Any) -> Any:
    """The result of the first message of a login."""
    exchange = Exchange(mechanism, host="kafka", port=9092, peer="kafka:9092", versions={17: (0, 1), 36: (0, 2)})
    exchange.begin()
    move = exchange.answered(memoryview(b"\0\0\0\0\0\0"))
    assert isinstance(move, Compute)
    return exchange.computed(move.work())


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    "start",
    variants({"a text": returning("hello"), "nothing": returning(None), "a number": returning(7)}),
)
def test_a_wrong_mechanism_is_named_without_its_secrets(start: Any) -> None:
    class Mechanism:
        name = "X-ACME"
        blocking = False
        authenticator = returning(type("Broken", (Login,), {"start": staticmethod(start)})())

    with pytest.raises(AuthenticationError) as caught:
        first_step(installed("mechanism", Mechanism()))

    assert "the mechanism X-ACME (" in str(caught.value)
    assert origin("mechanism").name in str(caught.value)
    assert REMEDY in str(caught.value)


@pytest.mark.parametrize("error", [KeyError(SECRET), SystemExit(SECRET), KeyboardInterrupt(SECRET)])
def test_an_error_of_a_mechanism_keeps_its_text_to_itself(error: BaseException) -> None:
    class Mechanism:
        name = "X-ACME"
        blocking = False
        authenticator = raising(error)

    with pytest.raises(AuthenticationError) as caught:
        first_step(installed("mechanism", Mechanism()))

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("attribute", ["identity", "remedy"])
def test_an_attribute_of_a_mechanism_that_fails_keeps_the_refusal(attribute: str) -> None:
    class Mechanism:
        name = "X-ACME"

    fail = property(raising(KeyError("boom")))
    mechanism: Any = type("Broken", (Mechanism,), {attribute: fail})()

    text = str(login_errors.refused(mechanism, "kafka:9092", "no such user"))

    assert text == (
        "kafka:9092 refused our X-ACME credentials: no such user; check the credentials, and what the broker allows "
        "this user"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [(5, "of type builtins.int"), ("", "''"), ("A\nB", r"'A\nB'"), (b"PLAIN", "of type builtins.bytes")],
)
def test_a_mechanism_needs_a_name_that_requests_can_carry(name: object, shown: str) -> None:
    class Mechanism:
        blocking = False
        authenticator = raising(KeyError("boom"))

    mechanism: Any = Mechanism()
    mechanism.name = name
    with pytest.raises(InvalidPluginError) as caught:
        checked_mechanism(installed("mechanism", mechanism))

    assert f"the name {shown} of the {origin('mechanism').name} cannot be that of a SASL mechanism" in str(caught.value)


# Interceptors


class Interceptor:
    """Changes nothing."""

    def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
        return key, value, headers

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        """Nothing."""


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize(
    "on_send",
    variants(
        {
            "nothing": returning(None),
            "two of three": returning((b"key", b"value")),
            "a list": returning([b"key", b"value", ()]),
            "a text in a header": lambda _topic, key, value, _headers: (key, value, [("name", "text")]),
            "a lone name": lambda _topic, key, value, _headers: (key, value, ["name"]),
            "a name of bytes": lambda _topic, key, value, _headers: (key, value, [(b"name", b"value")]),
            "no headers": lambda _topic, key, value, _headers: (key, value, None),
            "a change of headers": lambda _topic, _key, _value, headers: headers.append(("name", b"value")),
        }
    ),
)
def test_a_wrong_interceptor_is_named_and_its_record_is_sent(on_send: Any, caplog: pytest.LogCaptureFixture) -> None:
    broken = type("Broken", (Interceptor,), {"on_send": staticmethod(on_send)})()
    name = origin("interceptor").name
    with simulated(1, plugins={"interceptors": {name: broken}}) as simulation:
        delivery = simulation.producer.send("t", b"value", b"key", headers=[("mine", b"1")])
        simulation.run_until_idle()

        assert delivery.exception(0) is None
        [record] = simulation.cluster.topics["t"].log[0]
        assert (record.key, record.value, record.headers) == (b"key", b"value", (("mine", b"1"),))
    [line] = caplog.messages
    assert line.startswith(f"the {name} failed in on_send; the record is sent without its change: ")


@pytest.mark.rule("producer.plugins.named")
@pytest.mark.parametrize("on_acknowledgement", variants({}))
def test_a_failing_interceptor_keeps_the_outcome_from_nothing_else(
    on_acknowledgement: Any, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[object] = []
    broken = type("Broken", (Interceptor,), {"on_acknowledgement": staticmethod(on_acknowledgement)})()
    last = type("Last", (Interceptor,), {"on_acknowledgement": lambda self, *_outcome: called.append("last")})()
    name = origin("interceptor").name
    with simulated(1, plugins={"interceptors": {name: broken, "last": last}}) as simulation:
        simulation.producer.send("t", b"value", on_delivery=lambda _delivery: called.append("callback"))
        simulation.run_until_idle()

    assert called == ["last", "callback"]
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"the {name} failed in on_acknowledgement: ")


def test_a_recursion_of_an_interceptor_is_logged_and_all_records_are_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Recursive(Interceptor):
        def on_send(self, topic: str, key: Any, value: Any, headers: Sequence[Header]) -> Any:
            simulation.producer.send(topic, value, key)
            return key, value, headers

    name = origin("interceptor").name
    with simulated(1, plugins={"interceptors": {name: Recursive()}}) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert simulation.accumulator.incomplete == 0
    [line] = caplog.messages
    assert line == f"the {name} failed in on_send; the record is sent without its change: RecursionError"


# Names


def test_an_object_is_named_by_its_plugin_for_as_long_as_it_exists() -> None:
    made = installed("partitioner", Partitioner())
    assert origin_of("partitioner", made) == origin("partitioner")

    del made
    gc.collect()

    others = [Partitioner() for _ in range(1_000)]  # one of them may have the place of the first
    assert {origin_of("partitioner", each).name for each in others} == {f"partitioner {__name__}.Partitioner"}


@pytest.mark.rule("producer.plugins.named")
def test_a_plugin_that_is_installed_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_wrong.py").write_text(textwrap.dedent(WRONG))
    info = tmp_path / "ottla_acme-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ottla-acme\nVersion: 1.2\n")
    groups = "".join(f"[ottla.{kind}s]\nacme = acme_wrong\n" for kind in ("partitioner", "serializer"))
    (info / "entry_points.txt").write_text(groups)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    with MockProducer(partitioner_class="acme", value_serializer="acme") as producer:
        with pytest.raises(InvalidPluginError) as wrong:
            producer.send("t", b"value")
        with pytest.raises(SerializationError) as refused:
            producer.send("t", None)
    sys.modules.pop("acme_wrong")

    assert str(wrong.value) == (
        "the partitioner 'acme' of ottla-acme 1.2 (acme_wrong) chose str for topic 't', but a partition is an int; "
        "report it to the authors of ottla-acme, or set partitioner.class to another one"
    )
    assert "the serializer 'acme' of ottla-acme 1.2 (acme_wrong) failed: KeyError: 'boom'; " in str(refused.value)


WRONG: Final = """
    from ottla.hookspecs import hookimpl

    class Partitioner:
        def partition(self, topic, key, view):
            return "0"

    class Serializer:
        def serialize(self, topic, data, headers):
            if data is None:
                raise KeyError("boom")
            return data

    @hookimpl
    def ottla_partitioner():
        return Partitioner()

    @hookimpl
    def ottla_serializer():
        return Serializer()
"""


def test_an_object_without_weak_references_is_named_by_its_class() -> None:
    class Slotted:
        __slots__ = ()

    assert origin_of("partitioner", installed("partitioner", Slotted())).name.endswith("Slotted")


def test_ctrl_c_is_no_fault_of_a_plugin_on_the_main_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert signals.is_ctrl_c(KeyboardInterrupt())
    assert not signals.is_ctrl_c(SystemExit())
    monkeypatch.setattr(signals, "on_main_thread", lambda: False)
    assert not signals.is_ctrl_c(KeyboardInterrupt())


def caught(error: BaseException) -> str:
    """Who gets an exception of a plugin."""
    try:
        try:
            raise error
        except faults():
            return "the plugin"
    except BaseException:
        return "the program"


@pytest.mark.parametrize(
    ("error", "on_a_thread_of_the_program", "on_our_own"),
    [
        (KeyboardInterrupt(), "the program", "the program"),
        (AlarmRang(), "the program", "the plugin"),
        (PanicException(), "the plugin", "the plugin"),
        (SystemExit(), "the plugin", "the plugin"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_only_exceptions_of_the_program_reach_it(
    error: BaseException, on_a_thread_of_the_program: str, on_our_own: str
) -> None:
    """Programs raise exceptions into their threads, too: time limits of dramatiq and others."""
    found: list[str] = []
    for make in (daemon_thread, lambda run, _name: threading.Thread(target=run)):
        thread = make(lambda: found.append(caught(error)), "test")
        thread.start()
        thread.join()

    assert [*found, caught(error)] == [on_our_own, on_a_thread_of_the_program, on_a_thread_of_the_program]


def test_a_batch_whose_compression_is_interrupted_blames_no_encoder() -> None:
    interrupted = [AlarmRang("late")]

    def compress(chunks: Sequence[bytes], *, level: int | None) -> bytes:
        if interrupted:
            raise interrupted.pop()
        return b"".join(chunks)

    methods = {"codec_id": 1, "compress": staticmethod(compress), "decompress": returning(b"")}
    with simulated(1, plugins={"compressor": type("Interrupted", (), methods)()}) as simulation:
        delivery = simulation.producer.send("t", b"value" * 100)
        with pytest.raises(AlarmRang):
            simulation.run_until_idle()
        simulation.run_until_idle()

        assert "it could not be encoded: interrupted by AlarmRang('late')" in str(delivery.exception(0))

"""Headers that serializers set for the rows of tables: those that `send` would give each row as a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import InvalidPluginError, NotPreparedError, SerializationError
from ottla.interfaces import Header, ProducerRecord, ProducerRows
from ottla.plugins.serializers_by_name import SerializersByName
from ottla_testkit.simulation.brokers import SimulatedCluster
from simulated_producer import Simulated, simulated

ENCODERS = ["python", "native"]
NAMES = ("schema", "key schema", "a", "b")


class Tagged:
    """Texts with a header of their own, in place of others with its name."""

    sets_headers = True

    def __init__(self, header: Header = ("schema", b"7")) -> None:
        self._header = header

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        if data is None:
            return None
        assert isinstance(headers, list)
        headers[:] = [each for each in headers if each[0] != self._header[0]]
        headers.append(self._header)
        return str(data).encode()

    def serialize_column(self, topic: str, column: Any) -> Any:
        return column.cast(pa.string()).cast(pa.binary())

    def column_headers(self, topic: str, column: Any) -> Any:
        return [self._header]


class Adding:
    """An interceptor that adds two headers, one of which the serializer sets, too."""

    ottla_spec = 2

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return attrs.evolve(record, headers=(*record.headers, ("trace", b"1"), ("schema", b"mine")))

    def on_acknowledgement(self, *outcome: Any) -> None:
        """Take it."""

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        return attrs.evolve(rows, added_headers=[("trace", b"1"), ("schema", b"mine")])


def formats(**serializers: Any) -> dict[str, Any]:
    """The plugins of a producer whose formats are these serializers."""
    return {f"{part}_formats": SerializersByName(make=always(made)) for part, made in serializers.items()}


def always(made: Any) -> Callable[[str], Any]:
    return lambda _name: made


def headers_of(simulation: Simulated) -> list[tuple[Header, ...]]:
    return [tuple(record.headers) for record in simulation.cluster.topics["t"].log[0]]


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(
        st.none() | st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.binary(max_size=3)), max_size=5),
        min_size=1,
        max_size=6,
    ),
    encoder=st.sampled_from(ENCODERS),
    intercepted=st.booleans(),
    large=st.booleans(),
)
def test_rows_have_the_headers_that_send_gives_a_record(
    rows: list[Any], encoder: str, intercepted: bool, large: bool
) -> None:
    options: dict[str, Any] = {"record_encoder": encoder}
    if intercepted:
        options["interceptor_classes"] = [Adding()]
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kind = pa.large_list(pair) if large else pa.list_(pair)
    given_headers = pa.array(
        [None if row is None else [dict(zip(("key", "value"), h, strict=True)) for h in row] for row in rows], kind
    )
    table = pa.table({"value": list(range(len(rows))), "headers": given_headers})
    with (
        simulated(1, plugins=formats(value=Tagged()), **options) as ours,
        simulated(1, value_serializer=Tagged(), **options) as theirs,
    ):
        ours.producer.send_table("t", table, headers="headers", value_format="tagged")
        for number, row in enumerate(rows):
            theirs.producer.send("t", number, headers=row or ())
        ours.run_until_idle()
        theirs.run_until_idle()

        assert headers_of(ours) == headers_of(theirs)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("interceptors", [[], [Adding()]])
@pytest.mark.parametrize("given", [None, [("a", b"1"), ("schema", b"former")]])
def test_rows_without_a_column_of_headers_have_those_of_key_and_value(
    encoder: str, interceptors: Any, given: Any
) -> None:
    plugins = formats(value=Tagged(), key=Tagged(("key schema", None)))
    with simulated(1, plugins=plugins, record_encoder=encoder, interceptor_classes=interceptors) as simulation:
        table = pa.table({"value": [1, 2], "key": ["a", "b"]})
        simulation.producer.send_table("t", table, headers=given, value_format="tagged", key_format="tagged")
        simulation.run_until_idle()

        before = [("a", b"1")] if given else []
        added = [("trace", b"1")] if interceptors else []
        assert headers_of(simulation) == [(*before, *added, ("key schema", None), ("schema", b"7"))] * 2


def test_rows_of_several_topics_have_the_headers_of_theirs() -> None:
    class OfTopics(Tagged):
        def column_headers(self, topic: str, column: Any) -> Any:
            return [("topic", topic.encode())]

    cluster = SimulatedCluster.of(1)
    for name in ("t", "u"):
        cluster.create(name, 1)
    with simulated(1, plugins=formats(value=OfTopics()), cluster=cluster) as simulation:
        simulation.know("u")
        table = pa.table({"value": [1, 2, 3], "topic": ["t", "u", "t"]})
        simulation.producer.send_table(None, table, topic_column="topic", value_format="tagged")
        simulation.run_until_idle()

        found = {name: [tuple(r.headers) for r in simulation.cluster.topics[name].log[0]] for name in "tu"}
    assert found == {"t": [(("topic", b"t"),)] * 2, "u": [(("topic", b"u"),)]}


def test_the_headers_are_asked_for_after_the_lookups() -> None:
    class LookedUp(Tagged):
        found: list[str] = []  # noqa: RUF012

        def serialize_column(self, topic: str, column: Any) -> Any:
            if topic not in self.found:
                raise NotPreparedError("the schema is not known")
            return super().serialize_column(topic, column)

        def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
            self.found.append(topic)

        def column_headers(self, topic: str, column: Any) -> Any:
            assert (len(column), self.found) == (0, ["t"])
            return [("schema", b"8")]

    with simulated(1, plugins=formats(value=LookedUp())) as simulation:
        simulation.producer.send_table("t", pa.table({"value": [1]}), value_format="tagged")
        simulation.run_until_idle()

        assert headers_of(simulation) == [(("schema", b"8"),)]


@pytest.mark.parametrize("wrong", [7, [("schema", "text")], [(1, b"")], [("schema",)], [("\ud800", b"")], "schema"])
def test_a_serializer_whose_headers_are_none_is_named(wrong: Any) -> None:
    class Wrong(Tagged):
        def column_headers(self, topic: str, column: Any) -> Any:
            return wrong

    with (
        simulated(1, plugins=formats(value=Wrong())) as simulation,
        pytest.raises(InvalidPluginError, match=r"value_format='acme': column_headers of the serializer .* returned"),
    ):
        simulation.producer.send_table("t", pa.table({"value": [1]}), value_format="acme")


def test_a_serializer_that_fails_to_name_its_headers_fails_the_table() -> None:
    class Failing(Tagged):
        def column_headers(self, topic: str, column: Any) -> Any:
            raise LookupError("no id")

    with (
        simulated(1, plugins=formats(value=Failing())) as simulation,
        pytest.raises(SerializationError, match="no id"),
    ):
        simulation.producer.send_table("t", pa.table({"value": [1]}), value_format="acme")

"""Classes derived from bytes go as the bytes that they hold, whatever they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.errors import SerializationError
from ottla.interfaces import Header
from simulated_producer import simulated


class Liar(bytes):
    def __len__(self) -> int:
        return 1

    def __bytes__(self) -> bytes:
        return b"another"


class LyingView(bytearray):
    def __len__(self) -> int:
        return 100


class Returns:
    def __init__(self, made: Any) -> None:
        self._made = made

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        made: bytes | None = self._made
        return made


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("partition", [None, 0])
@pytest.mark.parametrize("lie", [Liar(b"longer"), Liar(b""), LyingView(b"array")])
def test_values_and_keys_of_subclasses_are_their_buffer_contents(lie: Any, partition: int | None, encoder: str) -> None:
    truth = bytes(memoryview(lie))
    with simulated(1, record_encoder=encoder) as simulation:
        for value, key in ((b"before", None), (lie, None), (b"v", lie), (b"behind", b"k")):
            simulation.producer.send("t", value, key, partition=partition)
        simulation.run_until_idle()

        records = simulation.cluster.topics["t"].log[0]
        assert [(record.value, record.key) for record in records] == [
            (b"before", None),
            (truth, None),
            (b"v", truth),
            (b"behind", b"k"),
        ]


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_header_values_of_subclasses_are_their_buffer_contents(encoder: str) -> None:
    headers = [("a", Liar(b"longer")), ("b", None), ("c", Liar(b""))]
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send("t", b"before")
        simulation.producer.send("t", b"v", headers=headers)
        simulation.run_until_idle()

        [before, sent] = simulation.cluster.topics["t"].log[0]
        assert before.value == b"before"
        assert sent.headers == (("a", b"longer"), ("b", None), ("c", b""))


class LyingName(str):
    __hash__ = None  # type: ignore[assignment]  # nothing that `str` promises holds

    def __str__(self) -> str:
        return "another"

    def encode(self, *_arguments: object) -> bytes:
        return b"another"

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_header_names_of_subclasses_are_their_contents(encoder: str) -> None:
    with simulated(1, record_encoder=encoder) as simulation:
        for _ in range(2):
            simulation.producer.send("t", b"v", headers=[("a", b"1"), (LyingName("name"), b"2")])
        simulation.run_until_idle()

        assert [record.headers for record in simulation.cluster.topics["t"].log[0]] == [
            (("a", b"1"), ("name", b"2"))
        ] * 2


@pytest.mark.parametrize("made", [Liar(b"longer"), LyingView(b"longer"), memoryview(b"longer")])
def test_results_of_serializers_are_their_buffer_contents(made: Any) -> None:
    with simulated(1, plugins={"value_serializer": Returns(made)}) as simulation:
        simulation.producer.send("t", object())
        simulation.run_until_idle()

        assert simulation.log() == [b"longer"]


@pytest.mark.parametrize("made", ["text", 7, [1]])
def test_a_serializer_result_that_is_not_bytes_fails_its_record_only(made: Any) -> None:
    with simulated(1, plugins={"key_serializer": Returns(made)}) as simulation:
        simulation.producer.send("t", b"before")
        with pytest.raises(SerializationError, match="key for topic 't'"):
            simulation.producer.send("t", b"bad", object())
        simulation.run_until_idle()

        assert simulation.log() == [b"before"]

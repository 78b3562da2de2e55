"""Time of encoding and decoding messages, compared with other libraries: `python benchmarks/codec.py`.

Each library encodes or decodes the same bytes, from its own values and into them. In every round each runs once, in
rotating order; the figures are medians over the rounds, in microseconds for one message.
"""

from __future__ import annotations

import datetime
import gc
import io
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, Protocol

import attrs
import click
from rich.console import Console
from rich.table import Table

from ottla.interfaces import Buffer
from ottla.protocol import METADATA, PRODUCE, produce_request
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

OURS: Final = "ottla"
PRODUCE_VERSION: Final = 11
METADATA_VERSION: Final = 12
TOPIC: Final = "orders"
ACKS: Final = -1
TIMEOUT_MS: Final = 30_000
TIMEOUT: Final = datetime.timedelta(milliseconds=TIMEOUT_MS)
SLICE_SECONDS: Final = 0.02


@attrs.frozen(kw_only=True)
class Sample:
    """Values that every library encodes, and bytes that every library decodes."""

    batches: Sequence[tuple[int, Sequence[Buffer]]]
    metadata: bytes
    produced: bytes


class Library(Protocol):
    """One library's implementation for the sample."""

    def encode_produce(self) -> Sequence[Buffer]:
        """Return the body of a Produce request, from the batches, in one chunk or several."""

    def decode_metadata(self) -> object:
        """Decode a Metadata response."""

    def decode_produced(self) -> object:
        """Decode a Produce response."""


class Ottla:
    """Collect the request's chunks, which are the batches' own."""

    def __init__(self, sample: Sample) -> None:
        self._topics = [(TOPIC, bytes(16), sample.batches)]
        self._metadata, self._produced = sample.metadata, sample.produced

    def encode_produce(self) -> list[Buffer]:
        return produce_request(
            PRODUCE_VERSION, transactional_id=None, acks=ACKS, timeout_ms=TIMEOUT_MS, topics=self._topics
        )

    def decode_metadata(self) -> MetadataResponse:
        return METADATA.response(METADATA_VERSION).decode(self._metadata, exact=False)

    def decode_produced(self) -> ProduceResponse:
        return PRODUCE.response(PRODUCE_VERSION).decode(self._produced, exact=False)


class Kio:
    """Entities, with a writer in Python and a native reader."""

    def __init__(self, sample: Sample) -> None:
        from kio.index import load_payload_module
        from kio.serial import entity_reader, entity_writer
        from kio.static.constants import EntityType

        self._sample = sample
        self._messages: Any = load_payload_module(PRODUCE.key, PRODUCE_VERSION, EntityType.request)
        produced: Any = load_payload_module(PRODUCE.key, PRODUCE_VERSION, EntityType.response)
        metadata: Any = load_payload_module(METADATA.key, METADATA_VERSION, EntityType.response)
        self._write: Callable[[Any, Any], None] = entity_writer(self._messages.ProduceRequest)
        self._read_metadata: Callable[[bytes, int], object] = entity_reader(metadata.MetadataResponse)
        self._read_produced: Callable[[bytes, int], object] = entity_reader(produced.ProduceResponse)

    def encode_produce(self) -> Sequence[Buffer]:
        messages = self._messages
        partitions = tuple(
            messages.PartitionProduceData(index=partition, records=b"".join(records))
            for partition, records in self._sample.batches
        )
        request = messages.ProduceRequest(
            transactional_id=None,
            acks=ACKS,
            timeout=TIMEOUT,
            topic_data=(messages.TopicProduceData(name=TOPIC, partition_data=partitions),),
        )
        buffer = io.BytesIO()
        self._write(buffer, request)
        return [buffer.getvalue()]

    def decode_metadata(self) -> object:
        return self._read_metadata(self._sample.metadata, 0)

    def decode_produced(self) -> object:
        return self._read_produced(self._sample.produced, 0)


class KafkaPython:
    """The protocol layer of kafka-python 3."""

    def __init__(self, sample: Sample) -> None:
        from kafka.protocol.metadata import MetadataResponse
        from kafka.protocol.producer import ProduceRequest, ProduceResponse

        self._sample = sample
        self._request, self._produced, self._metadata = ProduceRequest, ProduceResponse, MetadataResponse

    def encode_produce(self) -> Sequence[Buffer]:
        topic = self._request.TopicProduceData
        partition_data = topic.PartitionProduceData
        partitions = [
            partition_data(index=partition, records=b"".join(records)) for partition, records in self._sample.batches
        ]
        request = self._request(
            transactional_id=None,
            acks=ACKS,
            timeout_ms=TIMEOUT_MS,
            topic_data=[topic(name=TOPIC, partition_data=partitions)],
        )
        return [request.encode(version=PRODUCE_VERSION)]

    def decode_metadata(self) -> object:
        return self._metadata.decode(self._sample.metadata, version=METADATA_VERSION)

    def decode_produced(self) -> object:
        return self._produced.decode(self._sample.produced, version=PRODUCE_VERSION)


LIBRARIES: Final[Mapping[str, Callable[[Sample], Library]]] = {OURS: Ottla, "kio": Kio, "kafka-python": KafkaPython}

STEPS: Final[Mapping[str, Callable[[Library], Callable[[], object]]]] = {
    "Produce request, encoded": lambda library: library.encode_produce,
    "Metadata answer, decoded": lambda library: library.decode_metadata,
    "Produce answer, decoded": lambda library: library.decode_produced,
}


def sample(*, partitions: int, batch_size: int, cluster_partitions: int) -> Sample:
    """Return batches of zeros for *partitions*, and responses of a usual size."""
    metadata = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"broker-{n}.example", port=9092) for n in range(9)],
        cluster_id="x" * 22,
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=TOPIC,
                topic_id=bytes(range(16)),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=n, leader_id=n % 9, leader_epoch=4, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
                    )
                    for n in range(cluster_partitions)
                ],
            )
        ],
    )
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=TOPIC,
                partition_responses=[
                    PartitionProduceResponse(index=n, base_offset=n << 20, log_start_offset=0)
                    for n in range(partitions)
                ],
            )
        ]
    )
    return Sample(
        batches=[(n, [bytes(61), bytes(batch_size - 61)]) for n in range(partitions)],
        metadata=METADATA.response(METADATA_VERSION).encode(metadata),
        produced=PRODUCE.response(PRODUCE_VERSION).encode(produced),
    )


def copied(given: Sample) -> int:
    """Return how many chunks of records are copies in the encoded request."""
    kept = {id(chunk) for chunk in Ottla(given).encode_produce()}
    return sum(id(chunk) not in kept for _partition, records in given.batches for chunk in records)


def check(libraries: Mapping[str, Library]) -> None:
    """Check that all libraries encode the same bytes; without that the comparison is worthless."""
    encoded = {name: b"".join(library.encode_produce()) for name, library in libraries.items()}
    if len(set(encoded.values())) > 1:
        raise click.ClickException(f"they do not encode the same bytes: {', '.join(encoded)}")


def microseconds(step: Callable[[], object], times: int) -> float:
    """Return one message's time, as the mean of *times* calls."""
    started = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - started) / times * 1e6


def measure(steps: Mapping[str, Callable[[], object]], *, rounds: int) -> Mapping[str, Sequence[float]]:
    """Return every library's microseconds, round by round."""
    times = {name: max(1, int(SLICE_SECONDS * 1e6 / microseconds(step, 20))) for name, step in steps.items()}
    names, taken = list(steps), {name: list[float]() for name in steps}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            taken[name].append(microseconds(steps[name], times[name]))
    return taken


def table(figures: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return medians, and the ratios of the others' times to Ottla's in the same round."""
    shown = Table()
    for heading in ("step", "library"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("µs", "min - max", "library / Ottla", "min - max"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for step, taken in figures.items():
        for name, found in taken.items():
            ratios = [theirs / ours for theirs, ours in zip(found, taken[OURS], strict=True)]
            rival = name != OURS
            shown.add_row(
                "" if rival else step,
                name,
                f"{median(found):,.1f}",
                f"{min(found):,.1f} - {max(found):,.1f}",
                f"{median(ratios):.2f}" if rival else "",
                f"{min(ratios):.2f} - {max(ratios):.2f}" if rival else "",
            )
        shown.add_section()
    return shown


@click.command(context_settings={"show_default": True})
@click.option("--partitions", default=12, help="Partitions in the Produce request and in its answer.")
@click.option("--batch-size", default=16_384, help="Bytes of records for each of them.")
@click.option("--cluster-partitions", default=600, help="Partitions in the Metadata answer.")
@click.option("--rounds", default=15)
@click.option("--libraries", "names", default=",".join(LIBRARIES), help="Who takes part, by commas; always Ottla.")
def main(partitions: int, batch_size: int, cluster_partitions: int, rounds: int, names: str) -> None:
    """Encode and decode the same messages with every library, in rounds, and compare."""
    given = sample(partitions=partitions, batch_size=batch_size, cluster_partitions=cluster_partitions)
    wanted = [OURS, *(name for name in names.split(",") if name != OURS)]
    if unknown := set(wanted) - set(LIBRARIES):
        raise click.BadParameter(f"no such library: {', '.join(sorted(unknown))}; there are {', '.join(LIBRARIES)}")
    libraries = {name: LIBRARIES[name](given) for name in wanted}
    check(libraries)
    gc.collect()
    gc.disable()
    figures = {
        step: measure({name: find(library) for name, library in libraries.items()}, rounds=rounds)
        for step, find in STEPS.items()
    }
    console = Console(width=110)
    console.print(table(figures))
    console.print(f"chunks of records that Ottla copied into its request: {copied(given)} of {2 * partitions}")


if __name__ == "__main__":
    main()

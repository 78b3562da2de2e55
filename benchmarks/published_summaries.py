"""Short tables of the documentation, each from several kept results: also those in which Ottla is slower.

Long tables, of one result each, are in `published_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, Final

import attrs
from published_tables import MIB, table

Kept = Callable[[str], Any]
"""The figures of the result of this name."""

ACCEL: Final = "`ottla-accel`"
PURE: Final = "pure Python"
ONE_BY_ONE: Final = "a record at a time: "
TABLE: Final = "tables: no key, none"

SITUATIONS: Final[Mapping[str, str]] = {
    f"{ONE_BY_ONE}no key": "values of 100 bytes",
    f"{ONE_BY_ONE}100,000 keys": "the same with keys",
    f"{ONE_BY_ONE}two headers": "the same with two headers",
    f"{ONE_BY_ONE}a callback for each": "the same with a callback for each",
    "partitions: 5,000, keyed": "the same with keys, to 5,000 partitions",
    "size of a value: 1 kB": "values of 1 kB",
    "size of a value: 100 kB": "values of 100 kB",
    TABLE: "rows of a table, `send_table`",
}
"""What the README calls the scenarios that it shows; those in which Ottla is slower belong there."""


@attrs.frozen(kw_only=True)
class Comparison:
    """A scenario compared with confluent-kafka: medians of ratios, with `ottla-accel` and in pure Python."""

    name: str
    rates: tuple[float, float]
    processor: tuple[float, float]


def comparison(kept: Kept) -> Sequence[str]:
    """The table of the README: records per second and processor time, compared with those of confluent-kafka."""
    found = {each.name: each for each in _comparisons(kept)}
    heads = [f"{what}, {encoder}" for what in ("rate", "processor time") for encoder in (ACCEL, PURE)]
    return table(
        ["what is sent", *heads],
        (
            [words, *map(_rate, found[name].rates), *(f"{100 * each:.0f} %" for each in found[name].processor)]
            for name, words in SITUATIONS.items()
        ),
    )


def summary(kept: Kept) -> Sequence[str]:
    """The answers at the beginning of the page of figures; each names the section that has the measurements."""
    rows = [*_of_clients(kept), *_of_memory_and_start(kept), *_of_delays(kept)]
    return table(["", ACCEL, PURE, "section"], rows)


def _comparisons(kept: Kept) -> Iterator[Comparison]:
    for each in kept("clients")["results"]:
        if each["rates"]:
            accel, pure = each["scenario"]["peers"][:2]
            yield Comparison(
                name=f"{each['scenario']['group']}: {each['scenario']['name']}",
                rates=(each["rates"][accel]["middle"], each["rates"][pure]["middle"]),
                processor=(each["cpu"][accel]["middle"], each["cpu"][pure]["middle"]),
            )


def _of_clients(kept: Kept) -> Iterator[Sequence[str]]:
    found = {each.name: each for each in _comparisons(kept)}
    usual = [each for name, each in found.items() if name.startswith(ONE_BY_ONE)]
    accel, pure = zip(*(each.rates for each in usual), strict=True)
    busy, busy_pure = zip(*(each.processor for each in usual), strict=True)
    yield [
        "records per second, of 100 bytes, compared with confluent-kafka",
        f"{min(accel):.1f} to {max(accel):.1f} times, in {_percent(busy)} of its processor time",
        f"{min(pure):.2f} to {max(pure):.2f} times, in {_percent(busy_pure)} of its processor time",
        "[Compared with the C client](#compared-with-the-c-client)",
    ]
    yield [
        "rows of a table per second, compared with confluent-kafka",
        *(f"{each:.1f} times" for each in found[TABLE].rates),
        "[Tables](#tables)",
    ]


def _of_memory_and_start(kept: Kept) -> Iterator[Sequence[str]]:
    buffer = min(row["buffer"] for row in kept("memory"))
    yield [
        f"growth of the process with `buffer.memory` of {buffer // MIB} MiB",
        *(
            _range(
                [row["peak"] / MIB for row in kept("memory") if row["buffer"] == buffer and row["encoder"] == encoder]
            )
            for encoder in ("native", "python")
        ),
        "[Memory](#memory)",
    ]
    [start] = (row["smallest_wall"] for row in kept("start") if row["until"] == "its first record")
    yield [
        "from the start of the process until its first record is acknowledged",
        f"{start:.0f} ms",
        "",
        "[The start of a program](#the-start-of-a-program)",
    ]


def _of_delays(kept: Kept) -> Iterator[Sequence[str]]:
    alone = {client: row["p50"] for client, row in kept("latency")["latencies"][0]["rows"].items()}
    others = f"confluent-kafka: {alone['confluent-kafka']:.0f}, Java's producer: {alone['java']:.0f}"
    yield [
        f"median until a record is acknowledged, one at a time ({others})",
        f"{alone['ottla']:.0f} µs",
        f"{alone['ottla-python']:.0f} µs",
        "[One record at a time](#one-record-at-a-time)",
    ]
    yield [
        "records per second on an event loop, compared with aiokafka",
        *map(partial(_on_an_event_loop, kept), ("ottla", "ottla-python")),
        "[On an event loop](#on-an-event-loop)",
    ]


def _on_an_event_loop(kept: Kept, client: str) -> str:
    many, one = (_of_aiokafka(kept, load, client) for load in ("send, not awaited", "1 task awaits each"))
    return f"{many} times; {one} times if one task awaits each"


def _of_aiokafka(kept: Kept, load: str, client: str) -> str:
    """The median of the ratios of each round, with the event loop and the broker that most programs have."""
    [row] = (
        row
        for row in kept("asynchronous")
        if row["load"] == load and row["loop"] == "asyncio" and not row["round_trip"]
    )
    rounds = zip(row["took"]["aiokafka"], row["took"][client], strict=True)
    ratio = median(other["wall"] / own["wall"] for other, own in rounds)
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def _rate(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 1 else f"{100 * (1 - ratio):.0f} % fewer"


def _percent(ratios: Sequence[float]) -> str:
    return f"{100 * min(ratios):.0f} to {100 * max(ratios):.0f} %"


def _range(figures: Sequence[float]) -> str:
    return f"{min(figures):.0f} to {max(figures):.0f} MiB"


SUMMARIES: Final[Mapping[str, Callable[[Kept], Sequence[str]]]] = {"comparison": comparison, "summary": summary}

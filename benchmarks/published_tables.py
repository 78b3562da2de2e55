"""The long tables that the documentation shows, each from what one benchmark writes with `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

MIB: Final = 2**20
OURS: Final = {"ottla": "`ottla-accel`", "ottla-python": "pure Python"}
PEERS: Final = {"aiokafka": "aiokafka", "confluent-aio": "`AIOProducer`", "bare": "the floor"}
ENCODERS: Final = {"native": "`ottla-accel`", "python": "pure Python"}


def clients(found: Mapping[str, Any]) -> Sequence[str]:
    """Rates and processor time divided by those of confluent-kafka: its faster setting, and in brackets Ottla's own."""
    heads = [f"{what}: {name}" for what in ("rate", "processor time") for name in OURS.values()]
    return table(["", *heads], map(_compared, filter(_has_rivals, found["results"])))


def latencies(found: Mapping[str, Any]) -> Sequence[str]:
    """Microseconds until a record is acknowledged."""
    return table(
        ["load", "client", "p50", "p99", "p99.9"],
        (
            [each["load"], client, *(_whole(row[percentile]) for percentile in ("p50", "p99", "p999"))]
            for each in found["latencies"]
            for client, row in each["rows"].items()
        ),
    )


def memory(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Growth in MiB, by case; a column for each `buffer.memory` and encoder."""
    found = {(row["case"], row["buffer"], row["encoder"]): row["peak"] / MIB for row in rows}
    columns = sorted({(buffer, encoder) for _case, buffer, encoder in found})
    heads = [f"{buffer // MIB} MiB, {ENCODERS[encoder]}" for buffer, encoder in columns]
    cases = dict.fromkeys(case for case, _buffer, _encoder in found)
    return table(
        ["", *heads],
        ([_code(case), *(_whole(found.get((case, *column))) for column in columns)] for case in cases),
    )


def asynchronous(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Microseconds for a record, wall and processor; how many times as much aiokafka takes is the median of rounds."""
    clients = list(rows[0]["took"])
    ours = [name for name in clients if name in OURS or name == "bare"]
    heads = [{**OURS, **PEERS}[name] for name in clients]
    ratios = [f"aiokafka / {OURS.get(name, PEERS.get(name))}" for name in ours]
    return table(
        ["", *heads, *ratios],
        (
            [
                f"{row['load']}, {row['loop']}" + (f", {row['round_trip']:g} ms away" if row["round_trip"] else ""),
                *(f"{_middle(row, name, 'wall')} / {_middle(row, name, 'cpu')}" for name in clients),
                *(f"{_ratio(row, name, 'wall')} / {_ratio(row, name, 'cpu')}" for name in ours),
            ]
            for row in rows
        ),
    )


def stalls(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Milliseconds at the 99.9th percentile, of the sending loop and of the idle one."""
    found = {(row["case"], row["encoder"]): row for row in rows}
    encoders = list(dict.fromkeys(row["encoder"] for row in rows))
    heads = [f"{ENCODERS[encoder]}: {what}" for encoder in encoders for what in ("more", "sending, idle", "beats")]
    cases = dict.fromkeys(row["case"] for row in rows)
    return table(
        ["the tasks meet", *heads],
        ([case, *(cell for encoder in encoders for cell in _stall(found[case, encoder]))] for case in cases),
    )


def asynchronous_memory(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Megabytes of waiting sends over bare futures."""
    return table(
        ["bytes of a value", "encoder", "peak, MB", "over bare futures, MB"],
        (
            [f"{row['size']:,}", ENCODERS[row["encoder"]], _whole(row["peak"] / 1e6), _whole(row["over"] / 1e6)]
            for row in rows
        ),
    )


def distance_pythons(found: Mapping[str, Any]) -> Sequence[str]:
    """Milliseconds with the GIL and without it, and what without takes divided by what with takes in the same round."""
    parts = {"p50": "median", "p99": "p99", "all": "until all are acknowledged"}
    return table(
        ["what is sent", "round trip", "time of", "with the GIL, ms", "without, ms", "without / with"],
        (
            [
                row["shape"],
                f"{row['round_trip']:g} ms",
                parts[part],
                _middle(row, "with", part),
                _middle(row, "without", part),
                _quotient(row, "without", "with", part),
            ]
            for row in found["rows"]
            for part in row["part"]
            if part in parts
        ),
    )


def threads_pythons(found: Mapping[str, Any]) -> Sequence[str]:
    """Thousands of records per second with the GIL and without it, their ratio, and what more threads bring."""
    rows = {(row["encoder"], row["batch_size"], row["load"], row["python"]): row for row in found["rows"]}
    cases = dict.fromkeys((encoder, size) for encoder, size, _load, _python in rows)
    loads = list(dict.fromkeys(load for _encoder, _size, load, _python in rows))

    def cells(encoder: str, size: int, load: str) -> Sequence[str]:
        usual, free = (rows[encoder, size, load, python] for python in ("with", "without"))
        alone = rows[encoder, size, loads[0], "without"]
        return [
            f"{ENCODERS[encoder]}, `batch.size={size}`, {load}",
            *(_whole(median(row["rates"]) / 1_000) for row in (usual, free)),
            _of_rounds(free["rates"], usual["rates"]),
            _of_rounds(free["rates"], alone["rates"]),
            *(f"{median(row['cpu']):.2f}" for row in (usual, free)),
            *(_whole(median(row["per_request"])) for row in (usual, free)),
        ]

    heads = [
        "",
        "with the GIL",
        "without",
        "without / with",
        "of one thread",
        "µs with",
        "without",
        "a request",
        "without",
    ]
    return table(heads, (cells(encoder, size, load) for encoder, size in cases for load in loads))


def start(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Milliseconds more than a process that does nothing."""
    return table(
        ["from the start until", "processor, median", "wall, smallest"],
        ([row["until"], _whole(row["cpu"]), _whole(row["smallest_wall"])] for row in rows),
    )


def first_records(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Milliseconds until the first record of a new producer is acknowledged."""
    return table(
        ["round trip", "the first record of", "Ottla", "confluent-kafka"],
        (
            [
                f"{row['round_trip']:g} ms",
                f"one that was made {row['age']:g} s before" if row["age"] else "a new producer",
                *(_whole(median(row["took"][name])) for name in ("ottla", "confluent-kafka")),
            ]
            for row in rows
        ),
    )


TABLES: Final[Mapping[str, Callable[[Any], Sequence[str]]]] = {
    "clients": clients,
    "latency": latencies,
    "memory": memory,
    "asynchronous": asynchronous,
    "asynchronous-floor": asynchronous,
    "asynchronous-stalls": stalls,
    "asynchronous-memory": asynchronous_memory,
    "start": start,
    "first-record": first_records,
    "distance-pythons": distance_pythons,
    "threads-pythons": threads_pythons,
}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Sequence[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def _has_rivals(result: Mapping[str, Any]) -> bool:
    return bool(result["rates"])


def _compared(result: Mapping[str, Any]) -> Sequence[str]:
    rates = {row["peer"]: row["rate"] for row in result["rows"]}
    ours = result["scenario"]["peers"][:2]  # with ottla-accel, then without
    return [
        f"{result['scenario']['group']}: {result['scenario']['name']}",
        *(f"{result['rates'][name]['middle']:.2f} ({rates[name] / rates['confluent-kafka']:.2f})" for name in ours),
        *(f"{result['cpu'][name]['middle']:.2f}" for name in ours),
    ]


def _stall(row: Mapping[str, Any]) -> Sequence[str]:
    sending, idle = row["sending"], row["idle"]
    return (
        f"{max(0.0, sending['p999'] - idle['p999']):.1f}",
        f"{sending['p999']:.1f}, {idle['p999']:.1f}",
        f"{sending['beats']:,}",
    )


def _middle(row: Mapping[str, Any], client: str, part: str) -> str:
    figure = median(each[part] for each in row["took"][client])
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def _ratio(row: Mapping[str, Any], client: str, part: str) -> str:
    return _quotient(row, "aiokafka", client, part)


def _quotient(row: Mapping[str, Any], client: str, by: str, part: str) -> str:
    """One client's figure divided by another one's in the same round, the median."""
    pairs = zip(row["took"][client], row["took"][by], strict=True)
    ratio = median(own[part] / other[part] for own, other in pairs)
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def _of_rounds(figures: Sequence[float], by: Sequence[float]) -> str:
    """The figures divided by those of the same rounds, the median."""
    return f"{median(own / other for own, other in zip(figures, by, strict=True)):.2f}"


def _code(case: str) -> str:
    """The name of a case whose first word is a function."""
    function, separator, rest = case.partition(",")
    return f"`{function}`{separator}{rest}" if function.startswith("send") else case


def _whole(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.0f}"

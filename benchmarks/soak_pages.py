"""The result of a soak as text, and as one HTML page with plots that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, Final

from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from result_pages import STYLE, svg
from soak_client import Second
from soak_result import MEMORY, Result, in_mib, in_use, mib, rss

FAULT_COLOURS: Final = {
    "kill -9": "#d1495b",
    "frozen": "#5b5f97",
    "links cut": "#edae49",
    "responses lost": "#7fc8a9",
    "requests lost": "#8d2436",
    "slow link": "#b0b0b0",
}


def text(result: Result) -> str:
    """Return the result as Markdown."""
    soak, total, checked = result.soak, result.total, result.checked
    full = [each.acknowledged for each in result.seconds if each.phase == "full speed"]
    return "\n".join(
        [
            f"# Soak of {soak.seconds / 60:.0f} minutes",
            "",
            f"{soak.threads} threads, records of {soak.size} bytes, {soak.partitions} partitions on three brokers, "
            f"idempotent, encoder {soak.encoder}. Full speed was {median(full or [0]):,.0f} records/s; the soak sent "
            f"{total.rate:,.0f} records/s. {len(result.faults)} faults.",
            "",
            "| records | |",
            "|---|---:|",
            f"| sent | {sum(total.sent):,} |",
            f"| acknowledged | {total.acknowledged:,} |",
            f"| failed | {total.failed:,} |",
            f"| without an outcome | {total.unknown:,} |",
            f"| read by confluent-kafka's consumer | {checked.read:,} |",
            f"| lost | {checked.lost:,} |",
            f"| doubled or out of order | {checked.repeated:,} |",
            "",
            *(f"- {error} ({count} times)" for error, count in total.errors.items()),
            *(f"- {example}" for example in checked.examples),
            *(_memory(name, result.memory_of_thirds(kind)) for name, kind in MEMORY.items()),
            "",
            *_periods(result),
            "",
            "| seconds | fault | node |",
            "|---|---|---:|",
            *(f"| {fault.start:.0f} - {fault.end:.0f} | {fault.name} | {fault.node} |" for fault in result.faults),
            "",
        ]
    )


def _periods(result: Result) -> list[str]:
    """A tenth of the soak in each line."""
    soaked = result.soaked
    size = max(len(soaked) // 10, 1)
    lines = [
        "| from second | records/s | p50 ms | p99 ms | longest ms | RSS MiB | in use MiB | threads | descriptors "
        "| processor |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for start in range(0, len(soaked) - size + 1, size):
        part = soaked[start : start + size]
        used = (part[-1].processor - part[0].processor) / max(part[-1].at - part[0].at, 1e-9)
        lines.append(
            f"| {part[0].at:.0f} | {fmean(each.acknowledged for each in part):,.0f} "
            f"| {median(each.p50 for each in part):.1f} | {median(each.p99 for each in part):.1f} "
            f"| {max(each.longest for each in part):,.0f} | {mib(part, rss):.1f} "
            f"| {mib(part, in_use):.1f} | {max(each.threads for each in part)} "
            f"| {max(each.descriptors for each in part)} | {used:.0%} |"
        )
    return lines


def page(result: Result) -> str:
    """Return the same with a plot for each figure over time; coloured spans are faults."""
    plots: list[tuple[str, bool, list[tuple[str, Callable[[Second], float]]]]] = [
        ("records/s", False, [("sent", lambda each: each.sent), ("acknowledged", lambda each: each.acknowledged)]),
        ("milliseconds", True, [("p50", lambda each: each.p50), ("p99", lambda each: each.p99)]),
        ("MiB", False, [(name, in_mib(kind)) for name, kind in MEMORY.items()]),
        (
            "threads, descriptors",
            False,
            [("threads", lambda each: each.threads), ("descriptors", lambda each: each.descriptors)],
        ),
    ]
    render = MarkdownIt("commonmark").enable("table").render
    drawn = "".join(_plot(result, title, logarithmic, lines) for title, logarithmic, lines in plots)
    return (
        f"<!doctype html><meta charset=utf-8><title>Soak</title><style>{STYLE}</style>{drawn}{render(text(result))}\n"
    )


def _plot(result: Result, title: str, logarithmic: bool, lines: Sequence[tuple[str, Callable[[Second], float]]]) -> str:
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    axes: Any = figure.subplots()
    at = [each.at for each in result.seconds]
    for name, value in lines:
        axes.plot(
            at, [value(each) or (float("nan") if logarithmic else 0) for each in result.seconds], label=name, lw=1
        )
    for fault in result.faults:
        axes.axvspan(fault.start, fault.end, color=FAULT_COLOURS.get(fault.name, "#888"), alpha=0.3, lw=0)
    if logarithmic:
        axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel(title)
    axes.spines[["top", "right"]].set_visible(False)
    shown = sorted({fault.name for fault in result.faults})
    handles, _labels = axes.get_legend_handles_labels()
    handles += [_patch(name) for name in shown]
    axes.legend(handles=handles, frameon=False, fontsize="x-small", loc="upper left", ncols=8)
    return svg(figure)


def _patch(name: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=FAULT_COLOURS.get(name, "#888"), alpha=0.3, label=name)


def _memory(name: str, thirds: tuple[float, float, float]) -> str:
    first, second, third = thirds
    return (
        f"- Memory ({name}): {first:.1f}, {second:.1f} and {third:.1f} MiB in the three thirds of the soak; from the "
        f"second to the last {(third / second - 1 if second else 0):+.1%}"
    )

"""The results as Markdown, and as one HTML page with plots that needs no other file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import matplotlib as mpl
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from results import LatencyResult, Result

COLOURS: Final = {
    "ottla": "#0b7a75",
    "ottla-table": "#0b7a75",
    "ottla-python": "#7fc8a9",
    "ottla-table-python": "#7fc8a9",
    "confluent-kafka": "#d1495b",
    "confluent-kafka-best": "#8d2436",
    "aiokafka": "#edae49",
    "kafka-python": "#b0b0b0",
    "java": "#5b5f97",
}
STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
"""


def markdown(
    results: Sequence[Result], latencies: Sequence[LatencyResult], environment: Mapping[str, Any], rounds: int
) -> str:
    """Return all results as tables."""
    return (
        "\n".join([*_head(environment, rounds), *_summary(results), *_details(results), *_latencies(latencies)]) + "\n"
    )


def page(
    results: Sequence[Result], latencies: Sequence[LatencyResult], environment: Mapping[str, Any], rounds: int
) -> str:
    """Return the same with a plot for each group of scenarios."""
    render = MarkdownIt("commonmark").enable("table").render
    parts = [render("\n".join([*_head(environment, rounds), *_summary(results)]))]
    for group, found in groupby(results, key=lambda each: each.scenario.group):
        parts += [f"<h2>{group}</h2>", _rates(list(found))]
    if latencies:
        parts += [render("\n".join(_latencies(latencies))), *map(_percentiles, latencies)]
    parts.append(render("\n".join(_details(results))))
    return (
        f"<!doctype html><meta charset=utf-8><title>Ottla's benchmark</title><style>{STYLE}</style>{''.join(parts)}\n"
    )


def _head(environment: Mapping[str, Any], rounds: int) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    return [
        "# Ottla compared with other producers",
        "",
        f"{rounds} rounds, Python {environment['python']}, {environment['processors']} processors shared with the "
        f"broker, {versions}. Ratios are taken round by round; the median, and in brackets the lowest and the highest.",
        "",
    ]


def _summary(results: Sequence[Result]) -> list[str]:
    lines = [
        "## Ottla against confluent-kafka",
        "",
        "Against the faster of its two settings: the same as ours, and its documented best.",
        "",
        "| | with accel: rate | CPU per record | pure Python: rate | CPU per record |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in results:
        if not each.rates:
            continue  # Ottla alone
        native, python = each.scenario.peers[0], each.scenario.peers[1]
        cells = [each.rates.get(native), each.cpu.get(native), each.rates.get(python), each.cpu.get(python)]
        lines.append(f"| {_name(each)} | " + " | ".join(str(cell or "") for cell in cells) + " |")
    return [*lines, ""]


def _details(results: Sequence[Result]) -> list[str]:
    lines = ["## Every run", ""]
    for each in results:
        lines += [
            f"### {_name(each)}",
            "",
            "| | records/s | lowest - highest | CPU s/million | peak MiB | taken to send |",
            "|---|---:|---:|---:|---:|---:|",
            *(
                f"| {row.peer} | {row.rate:,.0f} | {row.slowest:,.0f} - {row.fastest:,.0f} | "
                f"{row.cpu_per_million:.2f} | {row.peak_memory / 2**20:.0f} | {row.memory_taken / 2**20:.0f} |"
                for row in each.rows
            ),
            "",
            *(f"- invalid: {problem}" for problem in each.problems),
            *([""] if each.problems else []),
        ]
    return lines


def _latencies(latencies: Sequence[LatencyResult]) -> list[str]:
    lines = ["## Latency of a record of 100 bytes, linger 0", ""] if latencies else []
    for each in latencies:
        lines += [
            f"### {each.load}",
            "",
            "| microseconds | p50 | p99 | p99.9 |",
            "|---|---:|---:|---:|",
            *(f"| {client} | {row.p50:,.0f} | {row.p99:,.0f} | {row.p999:,.0f} |" for client, row in each.rows.items()),
            "",
        ]
    return lines


def _name(each: Result) -> str:
    return f"{each.scenario.group}: {each.scenario.name}"


def _rates(results: Sequence[Result]) -> str:
    """Return bars of records per second with their spread, one group of bars for each scenario."""
    peers = list(dict.fromkeys(row.peer for each in results for row in each.rows))
    figure = Figure(figsize=(10, 0.8 + 0.28 * sum(len(each.rows) + 1 for each in results)), layout="constrained")
    axes = figure.subplots()
    labels: list[tuple[float, str]] = []
    place = 0.0
    for each in results:
        labels.append((place + (len(each.rows) - 1) / 2, each.scenario.name))
        for row in each.rows:
            spread = [[row.rate - row.slowest], [row.fastest - row.rate]]
            colour = COLOURS.get(row.peer, "#888")
            axes.barh(place, row.rate, xerr=spread, color=colour, ecolor="#555", capsize=2, height=0.85)
            place += 1
        place += 1
    axes.set_yticks([at for at, _name in labels], [name for _at, name in labels])
    axes.invert_yaxis()
    axes.set_xlabel("records a second")
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    bars = [mpl.patches.Patch(color=COLOURS.get(peer, "#888"), label=peer) for peer in peers]
    axes.legend(handles=bars, frameon=False, fontsize="small", loc="lower right")
    return svg(figure)


def _percentiles(each: LatencyResult) -> str:
    figure = Figure(figsize=(10, 2.6), layout="constrained")
    axes = figure.subplots()
    for client, row in each.rows.items():
        axes.plot(["p50", "p99", "p99.9"], [row.p50, row.p99, row.p999], "o-", label=client, color=COLOURS.get(client))
    axes.set_yscale("log")
    axes.set_ylabel("microseconds")
    axes.set_title(each.load, loc="left", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return svg(figure)


def svg(figure: Figure) -> str:
    """Return a figure as an element of an HTML page."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]

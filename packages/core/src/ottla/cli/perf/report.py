"""The result as a page of HTML that needs nothing else: figures, plots of the intervals, and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from ottla.cli.perf.load import Result
from ottla.cli.rates import MEGABYTE, per_second
from ottla.config.in_force import DEFAULT, SettingsInForce, written
from ottla.version import __version__

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 220, 70, 30
_COLOURS: Final = ("#2563eb", "#dc2626")

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .2rem 1rem .2rem 0; text-align: left; border-bottom: 1px solid #8884; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
svg {{ width: 100%; height: auto; }}
svg text {{ fill: currentColor; font-size: 12px; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def page(topic: str, result: Result, settings: SettingsInForce) -> str:
    """The page. Secrets among the settings are hidden, as in `Producer.config`."""
    title = escape(f"ottla perf on topic {topic}")
    rates = [(each.ends_at, per_second(each.size / MEGABYTE, each.seconds)) for each in result.intervals]
    average = [(each.ends_at, each.average_ms) for each in result.intervals]
    longest = [(each.ends_at, each.max_ms) for each in result.intervals]
    changed = [(each.key, written(each.value)) for each in settings.all() if each.source != DEFAULT]
    parts = [
        _table(_result_rows(result), numbers=True),
        "<h2>Rate</h2>",
        _plot("MB/s", {"rate": rates}),
        "<h2>Latency</h2>",
        _plot("ms", {"average": average, "longest": longest}),
        "<h2>Settings</h2>",
        f"<p>Ottla {escape(__version__)}; all other settings have their defaults.</p>",
        _table(changed),
    ]
    return _PAGE.format(title=title, body="\n".join(parts))


def _result_rows(result: Result) -> Iterable[tuple[str, str]]:
    latencies = result.latencies
    yield "records acknowledged", f"{result.acknowledged:,}"
    yield "records failed", f"{result.failed:,}"
    yield "seconds", f"{result.seconds:,.2f}"
    yield "records/s", f"{per_second(result.acknowledged, result.seconds):,.0f}"
    yield "MB/s", f"{per_second(result.size / MEGABYTE, result.seconds):,.2f}"
    yield "latency on average, ms", f"{latencies.average_ms:,.2f}"
    for percent, value in latencies.percentiles.items():
        yield f"latency of {percent:g} % at most, ms", f"{value:,.2f}"
    yield "longest latency, ms", f"{latencies.max_ms:,.2f}"
    if result.error:
        yield "stopped", result.error
    for failure in result.failures:
        yield "failed", failure


def _table(rows: Iterable[tuple[str, str]], *, numbers: bool = False) -> str:
    kind = ' class="number"' if numbers else ""
    cells = (f'<tr><th scope="row">{escape(name)}</th><td{kind}>{escape(value)}</td></tr>' for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _plot(unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over the seconds of the run, from 0, with the highest value and the last second at the axes."""
    points = [point for line in series.values() for point in line]
    last = max((x for x, _y in points), default=0.0) or 1.0
    highest = max((y for _x, y in points), default=0.0) or 1.0
    bottom = _HEIGHT - _BOTTOM
    drawn = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(", ".join(series))} in {escape(unit)}">',
        f'<path d="M{_LEFT} 10V{bottom}H{_WIDTH - 10}" fill="none" stroke="currentColor"/>',
        f'<text x="{_LEFT - 6}" y="20" text-anchor="end">{highest:,.1f} {escape(unit)}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 10}" text-anchor="end">{last:,.1f} s</text>',
    ]
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number]
        path = " ".join(
            f"{_LEFT + x / last * (_WIDTH - 10 - _LEFT):.1f},{bottom - y / highest * (bottom - 10):.1f}"
            for x, y in line
        )
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(
            f'<text x="{_LEFT + 10 + 120 * number}" y="{_HEIGHT - 10}" style="fill:{colour}">{escape(name)}</text>'
        )
    return "\n".join([*drawn, "</svg>"])

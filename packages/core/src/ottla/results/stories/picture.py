"""A story as HTML: a bar of its waits and the events, for notebooks. Without scripts; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from ottla.results.stories.causes import Cause, Span
from ottla.results.stories.waits import WaitKind

_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#bbbbbb")


def picture(title: str, spans: Sequence[Span], causes: Iterable[Cause], events: Iterable[tuple[float, str]]) -> str:
    """The story as a piece of HTML; *events* are times from the start in seconds, and texts."""
    total = max(spans[-1].end - spans[0].start, 1e-9) if spans else 1.0
    pieces = "".join(
        f'<span style="display:inline-block;height:1.2em;width:{100 * (span.end - span.start) / total:.2f}%;'
        f'background:{_colour(span.kind)}" title="{escape(_label(span.end - span.start, span.kind, span.detail))}">'
        "</span>"
        for span in spans
    )
    items = "".join(
        f'<li><span style="color:{_colour(cause.kind)}">&#9632;</span> {escape(str(cause))}</li>' for cause in causes
    )
    rows = "".join(f"<tr><td>+{at:.3f} s</td><td>{escape(text)}</td></tr>" for at, text in events)
    return (
        f"<div><b>{escape(title)}</b>"
        f'<div style="display:flex;width:100%;background:#eeeeee">{pieces}</div>'
        f"<ul>{items}</ul><table>{rows}</table></div>"
    )


def _label(seconds: float, kind: WaitKind, detail: str) -> str:
    return f"{seconds:.3f} s for {kind.value.format(detail)}"


def _colour(kind: WaitKind) -> str:
    return _COLOURS[list(WaitKind).index(kind) % len(_COLOURS)]

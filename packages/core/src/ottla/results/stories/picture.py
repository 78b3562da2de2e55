"""A story as HTML: a bar of its waits and the events, for notebooks. Without scripts; all texts are escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from ottla.results.stories.waits import WaitKind

if TYPE_CHECKING:
    from ottla.results.stories.record_story import RecordStory

_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#bbbbbb")


def picture(story: RecordStory) -> str:
    """The story as a piece of HTML."""
    total = max(story.until - story.queued_at, 1e-9)
    pieces = "".join(
        f'<span style="display:inline-block;height:1.2em;width:{100 * (span.end - span.start) / total:.2f}%;'
        f'background:{_colour(span.kind)}" title="{escape(_label(span.end - span.start, span.kind, span.detail))}">'
        "</span>"
        for span in story.spans
    )
    causes = "".join(
        f'<li><span style="color:{_colour(cause.kind)}">&#9632;</span> {escape(str(cause))}</li>'
        for cause in story.causes
    )
    events = "".join(f"<tr><td>+{event.at:.3f} s</td><td>{escape(event.text)}</td></tr>" for event in story.events)
    return (
        f"<div><b>{escape(story.brief())}</b>"
        f'<div style="display:flex;width:100%;background:#eeeeee">{pieces}</div>'
        f"<ul>{causes}</ul><table>{events}</table></div>"
    )


def _label(seconds: float, kind: WaitKind, detail: str) -> str:
    return f"{seconds:.3f} s for {kind.value.format(detail)}"


def _colour(kind: WaitKind) -> str:
    return _COLOURS[list(WaitKind).index(kind) % len(_COLOURS)]

"""The pictures of the documentation: `python tools/pictures.py` writes them into docs/.

The bars come from the tables of docs/performance.md, so picture and table have the same figures. A test compares each
file with what this program draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[1]
WIDTH: Final = 640
CHARACTER: Final = 0.58
"""The width of a character, as a fraction of the size of its font."""
LETTERS: Final = 15
SMALL: Final = 13

INK: Final = "#1c2733"
GREY: Final = "#5b6773"
PAPER: Final = "#ffffff"
PALE: Final = "#e8eef4"
TEAL: Final = "#0b7a75"
MINT: Final = "#7fc8a9"
RED: Final = "#d1495b"

_TABLE: Final = re.compile(r"<!-- figures: clients -->\n\n\|(?P<heads>[^\n]*)\n\|[- |]+\n(?P<rows>(?:\|[^\n]*\n)+)")
_FIGURE: Final = re.compile(r"(?P<figure>[\d.]+) \([\d.]+\)")
_ENCODERS: Final = 2
"""The first columns of figures: rates with `ottla-accel`, and in pure Python."""


@attrs.define
class Picture:
    """The parts of one SVG, added in their order."""

    title: str
    height: int
    parts: list[str] = attrs.Factory(list)

    def box(self, x: float, y: float, width: float, height: float, *lines: str, fill: str = PALE) -> None:
        """Add a box with centred lines. Raises ValueError if a line is too wide for it."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{INK}"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * 10 + 5
        for number, line in enumerate(lines):
            if len(line) * LETTERS * CHARACTER > width:
                raise ValueError(f"{line!r} is too wide for its box")
            ink = INK if fill in (PALE, PAPER, MINT) else PAPER
            self.text(x + width / 2, top + 20 * number, line, anchor="middle", ink=ink)

    def text(
        self, x: float, y: float, line: str, *, anchor: str = "start", size: int = LETTERS, ink: str = INK
    ) -> None:
        """Add a line of text; *anchor* is `start`, `middle` or `end`."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{ink}">{escape(line)}</text>'
        )

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Add a line through the points, with a head at the last one."""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{way}" fill="none" stroke="{INK}" stroke-width="1.5"{dash} marker-end="url(#head)"/>'
        )

    def svg(self) -> str:
        """Return the file."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" '
                'font-family="system-ui, sans-serif">',
                f"<title>{escape(self.title)}</title>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                f'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>',
                f'<rect width="{WIDTH}" height="{self.height}" rx="8" fill="{PAPER}"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def way_of_a_record() -> Picture:
    """From `send` to the result."""
    picture = Picture(title="The way of a record from send to its result", height=470)
    picture.box(20, 20, 440, 50, "your thread: send(topic, value, key)", fill=TEAL)
    picture.arrow((240, 70), (240, 112))
    picture.text(252, 96, "serialized, and given a partition", size=SMALL, ink=GREY)
    picture.box(20, 114, 440, 150, fill=PALE)
    picture.text(34, 136, "accumulator: batches of each partition, in buffer.memory", size=SMALL)
    for number, batches in enumerate((3, 1, 2)):
        top = 148 + 37 * number
        picture.text(34, top + 20, f"orders-{number}")
        for place in range(batches):
            open_batch = place == batches - 1
            picture.box(
                120 + 110 * place, top, 100, 30, "open" if open_batch else "full", fill=PAPER if open_batch else MINT
            )
    picture.arrow((240, 264), (240, 312))
    picture.text(252, 292, "full, or older than linger.ms", size=SMALL, ink=GREY)
    picture.box(20, 314, 440, 50, "I/O thread: one request for each broker", fill=TEAL)
    for number in range(3):
        left = 20 + 150 * number
        picture.arrow((left + 70, 364), (left + 70, 412))
        picture.box(left, 414, 140, 40, f"broker {number + 1}")
    picture.arrow((460, 434), (610, 434), (610, 45), (464, 45), dashed=True)
    for number, line in enumerate(("acknowledged,", "or failed:", "result(),", "on_delivery,", "flush()")):
        picture.text(600, 190 + 20 * number, line, anchor="end", size=SMALL, ink=GREY)
    return picture


GUARANTEES: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "at least once": (("a", "b", "a", "b", "c"), "rows of a repeated task arrive twice"),
    "exactly once": (("a", "b", "c"), "each row once, task after task"),
    "all or nothing": (("a", "b", "c"), "each row once, all of them at one moment"),
}
"""What a reader sees of the rows a, b and c if a task fails after it has sent two of them."""


def guarantees() -> Picture:
    """What readers see with each guarantee of Spark's writes."""
    picture = Picture(title="What a reader sees if a task of Spark fails after two of three rows", height=300)
    picture.text(20, 36, "A task sends rows a and b, fails, and is run again. A reader sees:")
    for number, (name, (rows, remark)) in enumerate(GUARANTEES.items()):
        top = 64 + 78 * number
        picture.text(20, top + 25, name)
        for place, row in enumerate(rows):
            repeated = place < len(rows) - 3
            picture.box(180 + 52 * place, top, 42, 38, row, fill=RED if repeated else TEAL)
        picture.text(180, top + 58, remark, size=SMALL, ink=GREY)
    return picture


def rates() -> Picture:
    """Ottla's rates against the C client's, as docs/performance.md has them."""
    found = list(compared((ROOT / "docs/performance.md").read_text(encoding="utf-8")))
    left, step, room = 262, 38, 40
    unit = int((WIDTH - left - room) / max(1.0, *(figure for _name, figures in found for figure in figures)))
    picture = Picture(
        title="Ottla's rate divided by confluent-kafka's, at its better setting", height=90 + step * len(found)
    )
    picture.box(20, 18, 16, 16, fill=TEAL)
    picture.text(44, 31, "with ottla-accel", size=SMALL)
    picture.box(180, 18, 16, 16, fill=MINT)
    picture.text(204, 31, "pure Python", size=SMALL)
    picture.text(320, 31, "red line: confluent-kafka", size=SMALL, ink=RED)
    for number, (name, figures) in enumerate(found):
        top = 52 + step * number
        picture.text(left - 10, top + 20, name.removeprefix("a record at a time: "), anchor="end", size=SMALL)
        for place, (figure, fill) in enumerate(zip(figures, (TEAL, MINT), strict=True)):
            picture.parts.append(
                f'<rect x="{left}" y="{top + 14 * place}" width="{figure * unit:g}" height="13" fill="{fill}"/>'
            )
            picture.text(left + max(figure, 1) * unit + 5, top + 11 + 14 * place, f"{figure:g}", size=12, ink=GREY)
    bottom = 52 + step * len(found)
    picture.parts.append(
        f'<line x1="{left + unit}" y1="46" x2="{left + unit}" y2="{bottom}" stroke="{RED}" stroke-width="2"/>'
    )
    picture.text(
        20,
        bottom + 22,
        "values of 100 bytes unless the row says otherwise; from docs/performance.md",
        size=SMALL,
        ink=GREY,
    )
    return picture


def compared(page: str) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield each row of the table of rates: its name, and its figures against the better setting."""
    table = _TABLE.search(page)
    assert table is not None, "the page has another table"
    for row in table["rows"].splitlines():
        name, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        rates = cells[:_ENCODERS]
        yield name, [float(_FIGURE.fullmatch(cell)["figure"]) for cell in rates]  # type: ignore[index]


PICTURES: Final[Mapping[str, Callable[[], Picture]]] = {
    "guarantees.svg": guarantees,
    "rates.svg": rates,
    "record.svg": way_of_a_record,
}


def main() -> None:
    """Write all of them."""
    for name, draw in PICTURES.items():
        (ROOT / "docs" / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""docs/log-lines.md and the source agree: every line at INFO or above, by logger, level and format string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "log-lines.md"
OPERATORS_PAGE: Final = ROOT / "docs" / "logging.md"
LOGGERS: Final = ("logger", "_log", "_logger")
RATE_LIMITED: Final = "_throttled_log"
BEHIND_THE_LOCK: Final = ("_lock", "lock")
PASSED_ON: Final = ("ottla.errors.log_throttle", "ottla.concurrency.locks")
"""Modules that log what others gave them."""
LEVELS: Final = {
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "CRITICAL",
}
UNWANTED: Final = (
    "told", "somebody", "nobody", "whoever", "whom", "anew", "in vain", "for want of", "hope", "look", "fares",
    "beside", "comes to nothing", "is said",
)  # fmt: skip


@attrs.frozen(order=True)
class Line:
    """One line that may be logged."""

    logger: str
    level: str
    format: str


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Each module of what is shipped for programs, which the testkit is not."""
    for folder in sorted(ROOT.glob("packages/*/src")):
        if folder.parent.name != "testkit":
            for file in sorted(folder.rglob("*.py")):
                name = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
                yield name, ast.parse(file.read_text(encoding="utf-8"))


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Each call that logs: the method, and what stands where the format string should."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name in LOGGERS and node.func.attr in (*LEVELS, "debug", "log"):
                yield node.func.attr, node.args[0]
            elif name == RATE_LIMITED and node.func.attr == "error":
                yield "error", node.args[1]
            elif name in BEHIND_THE_LOCK and node.func.attr == "log":
                yield ast.unparse(node.args[1]).removeprefix("logging.").lower(), node.args[2]


def in_the_source() -> list[Line]:
    return sorted(
        {
            Line(module, LEVELS[method], line.value)
            for module, tree in sources()
            for method, line in calls(tree)
            if method in LEVELS and isinstance(line, ast.Constant) and isinstance(line.value, str)
        }
    )


def on_the_page() -> list[Line]:
    found: list[Line] = []
    module = ""
    for text in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"### `(\S+)`", text):
            module = heading[1]
        elif row := re.fullmatch(r"\| ([A-Z]+) \| `(.+?)` \| .+ \|", text):
            found.append(Line(module, row[1], row[2]))
    return found


def test_every_log_line_is_on_the_logging_page() -> None:
    logged, described = set(in_the_source()), on_the_page()

    missing = sorted(logged.difference(described))
    assert not missing, "describe each in docs/log-lines.md: a row below the heading of its logger"
    gone = sorted(set(described) - logged)
    assert not gone, "no module logs these: remove their rows from docs/log-lines.md"
    assert len(described) == len(set(described))


def test_operators_are_shown_loggers_that_log_at_this_level() -> None:
    """The page for operators names the lines to act on by level and logger; it links each logger."""
    rows = re.findall(r"(?m)^\| ([A-Z]+) \| (\[`[^|]+) \|", OPERATORS_PAGE.read_text(encoding="utf-8"))
    named = {(module, level) for level, loggers in rows for module in re.findall(r"\[`([\w.]+)`\]", loggers)}

    assert len(named) > 5
    assert named <= {(line.logger, line.level) for line in in_the_source()}


def test_every_log_line_has_a_literal_format_string() -> None:
    """No level or format is known only when it is logged."""
    for module, tree in sources():
        for method, line in calls(tree):
            if module not in PASSED_ON:
                assert method != "log", module
                assert isinstance(line, ast.Constant), module


@pytest.mark.parametrize("line", in_the_source(), ids=lambda line: f"{line.logger}-{line.format[:30]}")
def test_log_lines_are_plain_english(line: Line) -> None:
    words = re.sub(r"[^a-z ]", " ", line.format.lower())

    unwanted = [word for word in UNWANTED if re.search(rf"\b{word}(s|ed|ing)?\b", words)]
    assert not unwanted, "say what happened without these words"

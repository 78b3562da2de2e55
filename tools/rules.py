"""Map of rules and their tests: writes docs/rules.md from rules.toml and the markers in the tests, or checks it.

python tools/rules.py           writes the page
python tools/rules.py --check   changes nothing; prints what is wrong, and ends with 1 if anything is

A test carries a rule as `@pytest.mark.rule("accumulator.ready.full")`, and each rule has a test that is not `thorough`.
Tests are parsed, never imported.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RULES = "packages/core/tests/rules.toml"
PAGE = "docs/rules.md"
TESTS = ("packages/*/tests/**/test_*.py", "tests/**/test_*.py")

INTRODUCTION = f"""\
# Rules of the delivery machine

What the producer promises between `send` and a record's outcome, rule by rule, and the tests that would fail without
each. Written by `python tools/rules.py` from `{RULES}` and the `rule` markers of the tests; do not edit.
"""


@dataclass(frozen=True)
class Rule:
    """One promise; `later` names the part of the project that will have it."""

    id: str
    says: str
    later: str | None = None

    @property
    def part(self) -> str:
        """The topic of the rule: its id up to the first dot."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Test:
    """A test with rules: its file, relative to the root, and its name."""

    file: str
    name: str
    thorough: bool = False

    @property
    def sentence(self) -> str:
        """The test's name as a sentence."""
        return self.name.removeprefix("test_").replace("_", " ")


@dataclass
class Map:
    """The rules, the titles of their parts, and the tests of each id that a marker names."""

    parts: dict[str, str]
    rules: Sequence[Rule]
    tests: dict[str, list[Test]] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield contradictions between the rules and the markers."""
        ids = [rule.id for rule in self.rules]
        for twice in sorted({each for each in ids if ids.count(each) > 1}):
            yield f"{RULES}: {twice} is there twice"
        for rule in self.rules:
            if rule.part not in self.parts:
                yield f"{RULES}: {rule.id} is of no part; name it under [parts]"
            if not rule.later and rule.id not in self.tests:
                yield f"{rule.id}: no test carries this rule ({rule.says})"
            elif not rule.later and all(test.thorough for test in self.tests[rule.id]):
                yield f"{rule.id}: `tox` has no test of this rule, because all are thorough ({rule.says})"
            if rule.later and rule.id in self.tests:
                yield f"{rule.id}: has a test, so it is not for later ({rule.later}) any more"
        for unknown in sorted(self.tests.keys() - set(ids)):
            for test in self.tests[unknown]:
                yield f"{test.file}: {test.name} carries {unknown}, which is no rule"

    def page(self) -> str:
        """Return the page: each part, its rules, their tests."""
        lines = [INTRODUCTION]
        for part, title in self.parts.items():
            lines += [f"## {part.capitalize()}", "", f"{title}.", ""]
            own = [rule for rule in self.rules if rule.part == part]
            for rule in own:
                if not rule.later:
                    lines.append(f"- **{rule.id}** {rule.says}")
                    lines += [f"    - [{test.sentence}](../{test.file})" for test in self.tests.get(rule.id, ())]
            waiting = [rule for rule in own if rule.later]
            if waiting:
                lines += ["", "Not yet:", ""]
                lines += [f"- **{rule.id}** ({rule.later}) {rule.says}" for rule in waiting]
            lines.append("")
        return "\n".join(lines)


def read(root: Path) -> Map:
    """Read the rules of a tree and the markers of its tests."""
    stated = tomllib.loads((root / RULES).read_text())
    found = Map(parts=stated["parts"], rules=[Rule(**rule) for rule in stated["rule"]])
    for path in sorted({path for pattern in TESTS for path in root.glob(pattern)}):
        for test, rule in _marked(path, root):
            found.tests.setdefault(rule, []).append(test)
    return found


def _marked(path: Path, root: Path) -> Iterator[tuple[Test, str]]:
    """Yield the tests of a file with each of their rules, in the order of the file."""
    tree = ast.parse(path.read_text(), filename=str(path))
    module = any(_is_thorough(each.value) for each in tree.body if isinstance(each, ast.Assign))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        thorough = module or any(_is_thorough(decorator) for decorator in node.decorator_list)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
                for argument in decorator.args:
                    test = Test(path.relative_to(root).as_posix(), node.name, thorough)
                    yield test, ast.literal_eval(argument)


def _is_thorough(expression: ast.expr) -> bool:
    """Whether it is the marker, alone or in a list. Parameters that have it leave others to `tox`."""
    marks = expression.elts if isinstance(expression, ast.List) else [expression]
    return any(ast.unparse(mark).startswith("pytest.mark.thorough") for mark in marks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report what is wrong")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the tree to read")
    options = parser.parse_args(arguments)
    found = read(options.root)
    problems = list(found.problems())
    page = options.root / PAGE
    if not options.check:
        page.parent.mkdir(exist_ok=True)
        page.write_text(found.page())
    elif not page.exists() or page.read_text() != found.page():
        problems.append(f"{PAGE} is stale: run python tools/rules.py")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

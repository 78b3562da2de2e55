"""Names and words: exceptions end in Error; names that the glossary replaces and unusual words are used nowhere."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
GLOSSARY: Final = ROOT / "docs" / "glossary.md"
ERRORS: Final = ROOT / "docs" / "reference" / "errors.md"
SOURCES: Final = ("packages", "examples", "tests", "demo", "benchmarks", "tools")
WORDS: Final = re.compile(
    r"\b(told|tells?|telling|somebody|nobody|whoever|whom|anew|hopes?|hopeless|in vain|for want of|look(s|ed|ing)? at|"
    r"fares?|beside|com(e|es|ing) to nothing|came to nothing|is said|go(es)? the way of|strangers?|witness(es)?|doors?|"
    r"knock(s|ed)?)\b",
    re.IGNORECASE,
)
"""Words that docstrings, comments, messages and documents do without: plainer ones say the same."""
VAGUE_NAMES: Final = frozenset(
    {
        "began",
        "beside",
        "complaint",
        "course",
        "heard",
        "hearing",
        "hopeless",
        "judge",
        "least",
        "left",
        "most",
        "patience",
        "patient",
        "quiet",
        "room",
        "talk",
        "told",
        "undo",
        "unfit",
        "wished",
        "world",
    }
)
"""Names that do not say what they hold; `timeout`, `started_at`, `remaining`, `max_bytes` and the like do."""
ALLOWED: Final = re.compile(r"--beside|\{[^{}]*\}")
"""Text in which such a word is a name of something else; names in a text's braces are code."""
WORDS_ARE_NAMED_IN: Final = ("test_glossary.py", "test_test_names.py", "test_logging_page.py", "LICENSE", "glossary.md")
"""Files with a list of such words."""
MODULES: Final = (
    "ottla.errors",
    "ottla_spark.errors",
    "ottla_spark.atomic.errors",
    "ottla_spark.exactly_once.errors",
    "ottla_testkit.errors",
)


def replaced_names() -> frozenset[str]:
    """The names in the last column of the glossary's tables."""
    rows = [line.split("|") for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return frozenset(name for row in rows for name in re.findall(r"`(\w+)`", row[3]))


def python_files() -> list[Path]:
    found = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if not {"build", ".tox", "third_party_packages"} & set(path.relative_to(ROOT).parts)]


@functools.cache
def tokens(path: Path) -> tuple[frozenset[str], Sequence[str]]:
    """The names of a program, and its texts and comments."""
    names, texts = set(), []
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NAME:
                names.add(token.string)
            elif token.type in (tokenize.STRING, tokenize.COMMENT):
                texts.append(token.string)
    return frozenset(names), texts


def identifiers(path: Path) -> Iterator[str]:
    """The names in a program, and those of `__slots__`, `getattr` and the like, which are written as strings."""
    names, texts = tokens(path)
    yield from names
    for text in texts:
        if written := re.fullmatch(r"""["'](\w+)["']""", text):
            yield written.group(1)


def sentences(path: Path) -> Iterator[str]:
    """The lines of a document, or of a program's comments and texts; a text that is one name is no sentence."""
    if path.suffix not in (".py", ".pyx"):
        lines = path.read_text(encoding="utf-8").splitlines()
        # A changelog names what was renamed.
        is_changelog = path.name == "CHANGELOG.md" or path.parent.name == "changelog.d"
        yield from (re.sub("`[^`]*`", "", line) if is_changelog else line for line in lines)
        return
    for text in tokens(path)[1]:
        if not re.fullmatch(r"""["'][\w.-]*["']""", text):
            yield from text.splitlines()


def exceptions_of(module: ModuleType) -> Iterator[type[BaseException]]:
    for _, value in inspect.getmembers(module, inspect.isclass):
        if issubclass(value, BaseException) and value.__module__.partition(".")[0] == module.__name__.partition(".")[0]:
            yield value


def code_blocks(text: str) -> Iterator[str]:
    yield from re.findall(r"(?ms)^ *```+python[^\n]*\n(.*?)^ *```+ *$", text)


def test_names_that_the_glossary_replaces_are_used_nowhere() -> None:
    replaced = replaced_names()
    used = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        if path != Path(__file__)
        for name in identifiers(path)
        if name in replaced
    }

    assert not used


def test_the_packages_have_no_vague_names() -> None:
    used = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        if "src" in path.relative_to(ROOT).parts
        for name in tokens(path)[0]
        if name.strip("_").lower() in VAGUE_NAMES and name != "_LEFT"  # a direction
    }

    assert not used


def test_documents_use_the_names_of_the_glossary() -> None:
    replaced = replaced_names()
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
    used = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        if page != GLOSSARY and page.name != "CHANGELOG.md"
        for text in (page.read_text(encoding="utf-8"),)
        for part in (*code_blocks(text), *re.findall(r"`([\w.]+)`", text))
        for name in re.findall(r"\w+", part)
        if name in replaced
    }

    assert not used


def test_sentences_do_without_unusual_words() -> None:
    documents = [
        path
        for pattern in (
            "*.md",
            "docs/**/*.md",
            "changelog.d/*.md",
            "benchmarks/*.md",
            "examples/*/README.md",
            "packages/*/README.md",
            "packages/*/pyproject.toml",
            "packages/*/src/**/*.pyx",
            "packages/*/src/**/*.pxd",
            "packages/testkit/src/**/*.in",
            "packages/testkit/tests/third_party_packages/*/README.md",
            "packages/testkit/tests/third_party_packages/*/src/**/*.py",
            "packages/core/tests/rules.toml",
            "tox.ini",
            ".github/**/*.yml",
        )
        for path in ROOT.glob(pattern)
    ]
    used = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (*documents, *python_files())
        if path.name not in WORDS_ARE_NAMED_IN
        for line in sentences(path)
        if WORDS.search(ALLOWED.sub("", line))
    }

    assert not used


def test_every_exception_class_ends_in_error() -> None:
    """Also those that are private: of the sources, by their bases."""
    # Relative to the checkout, which may itself lie below a folder with the name "src".
    sources = [path for path in python_files() if "src" in path.relative_to(ROOT).parts]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    known = {
        name for name, value in vars(builtins).items() if inspect.isclass(value) and issubclass(value, BaseException)
    }
    bases = {name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for name, node in classes.items()}
    found: set[str] = set()
    while more := {name for name in classes if name not in found and bases[name] & (known | found)}:
        found |= more

    assert found
    assert not {name for name in found if not name.endswith(("Error", "Warning"))}


@pytest.mark.parametrize("module", MODULES)
def test_no_exception_has_the_name_of_a_builtin(module: str) -> None:
    try:
        found = list(exceptions_of(importlib.import_module(module)))
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")

    assert found
    assert not [cls.__name__ for cls in found if hasattr(builtins, cls.__name__)]


def test_the_error_page_has_a_row_for_every_exception() -> None:
    rows = re.findall(r"(?m)^\| `(?:\w+\.)*(\w+)` \|", ERRORS.read_text(encoding="utf-8"))
    ours = importlib.import_module("ottla.errors")

    assert sorted(rows) == sorted({cls.__name__ for cls in exceptions_of(ours)})

"""Pages of the documentation site that are not in docs/, and links that work on the site.

This is a hook of MkDocs, named in mkdocs.yml. The README is the first page. DESIGN, CONTRIBUTING, the changelog and the
READMEs of packages and examples are pages, too, from their places in the repository, without copies. Links between
files of the repository become links between pages. A link to a file that is no page leads to `repo_url` if mkdocs.yml
has one; else only its text stays.
"""

from __future__ import annotations

import ast
import inspect
import logging
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ALONE: Final = {
    "README.md": "index.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting-vulnerabilities.md",
}
CHANGELOG: Final = "CHANGELOG.md"
READMES: Final = ("packages/*/README.md", "examples/*/README.md")
KINDS: Final = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security"}

CONFORMANCE: Final = "packages/testkit/src/ottla_testkit/conformance"
SUITES: Final = """\
# Suites for plugins

What the core expects of a plugin, as tests: subclass a suite of `ottla_testkit.conformance`, give its fixtures, and run
pytest. Each line is a test.
"""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)[^\n]*\n.*?^(?P=indent)(?P=fence) *$", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]\[]*)\]\((?P<target>[^)\s]+)\)")
_TITLE: Final = re.compile(r"^# (?P<title>[^\n]+)$", re.MULTILINE)
_HEADING: Final = re.compile(r"<h[12] id=\"[^\"]*\">(.*?)(?:<a class=\"headerlink\"|</h[12]>)", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
# The elements that our pages use. An autoref is what a plugin replaces later.
_ELEMENTS: Final = (
    "a|article|autoref|b|br|code|dd|del|details|div|dl|dt|em|figure|h[1-6]|hr|i|img|input|label|li|ol|p|pre|s|small|"
    "span|strong|sub|summary|sup|svg|table|tbody|td|th|thead|tr|ul"
)
_NO_ELEMENT: Final = re.compile(rf"<(?!(?:{_ELEMENTS})\b)([a-zA-Z][\w-]*)")
_QUOTED_EMPHASIS: Final = re.compile(r"\"<(?:em|strong)>[^<]*")
_ABROAD: Final = re.compile(r"[a-z]+:|#|/")


def outside(root: Path) -> dict[str, str]:
    """Return the files outside of docs/ that are pages: path in the repository, and path on the site."""
    readmes = sorted(path.relative_to(root).as_posix() for pattern in READMES for path in root.glob(pattern))
    return ALONE | {CHANGELOG: "changelog.md"} | {name: f"{posixpath.dirname(name)}.md" for name in readmes}


def text_of(root: Path, name: str) -> str:
    """Return the text of such a page; the changelog begins with unreleased changes."""
    text = (root / name).read_text(encoding="utf-8")
    if name == CHANGELOG:
        head, mark, rest = text.partition("<!-- towncrier")
        text = head + "\n".join(unreleased(root / "changelog.d")) + "\n" + mark + rest
    return text


def unreleased(folder: Path) -> Iterator[str]:
    """Yield the fragments, as the changelog will contain them."""
    fragments = sorted(folder.glob("*.md"), key=lambda path: (int(path.name.partition(".")[0]), path.name))
    yield "## Not released yet\n"
    for kind, title in KINDS.items():
        own = [path for path in fragments if path.name.split(".")[1] == kind]
        if own:
            yield f"### {title}\n"
        for path in own:
            text = path.read_text(encoding="utf-8").strip()
            yield (text if text.startswith("- ") else "- " + text.replace("\n", "\n    ")) + "\n"


def suites(root: Path) -> str:
    """Return the page of the testkit's suites: each suite, and a sentence for each of its tests."""
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((root / CONFORMANCE).glob("*.py"))]
    classes = {each.name: each for module in modules for each in module.body if isinstance(each, ast.ClassDef)}
    lines = [SUITES]
    for name, suite in classes.items():
        if name.endswith("Conformance"):
            lines += [f"## {name}", "", inspect.cleandoc(ast.get_docstring(suite) or ""), ""]
            lines += [*(f"- {_sentence(test)}" for test in _tests(suite, classes)), ""]
    return "\n".join(lines)


def _tests(suite: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """Yield the tests of a suite, with those of its bases among these classes."""
    for base in suite.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _tests(classes[base.id], classes)
    for each in suite.body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            yield each.name


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_s_", "'s ").replace("_", " ")


def relinked(
    text: str,
    *,
    source: str,
    pages: Mapping[str, str],
    repository: str | None,
    titles: Mapping[str, str | None] | None = None,
) -> str:
    """Return the text of the file *source*, its links leading to *pages* (by file) or into the *repository*.

    The site shows no files: a link whose text is its file gets the page's title, from *titles* by page.
    """

    def lead(link: re.Match[str]) -> str:
        target, hash_, anchor = link["target"].partition("#")
        if _ABROAD.match(link["target"]):
            return link[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if file in pages:
            way = posixpath.relpath(pages[file], posixpath.dirname(pages[source]) or ".")
            title = (titles or {}).get(pages[file]) if link["text"] in (target, file) else None
            return f"[{title or link['text']}]({way}{hash_}{anchor})"
        return f"[{link['text']}]({repository.rstrip('/')}/blob/HEAD/{file})" if repository else link["text"]

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(lead, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(lead, text[end:])])


def listed(nav: Iterable[Any], pages: Iterable[str], taken: set[str] | None = None) -> list[Any]:
    """Return the navigation; a name with `*` stands for the matching pages that are not listed elsewhere."""
    entries = list(nav)
    taken = set(_named(entries)) if taken is None else taken
    found: list[Any] = []
    for entry in entries:
        match entry:
            case dict():
                found += [{title: _listed(below, pages, taken) for title, below in entry.items()}]
            case str() if "*" in entry:
                found += [page for page in sorted(pages) if fnmatchcase(page, entry) and page not in taken]
            case _:
                found.append(entry)
    return found


def _listed(below: Any, pages: Iterable[str], taken: set[str]) -> Any:
    return listed(below, pages, taken) if isinstance(below, list) else below


def _named(entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case dict():
                for below in entry.values():
                    yield from _named(below if isinstance(below, list) else [below])
            case _:
                yield entry


def faults(html: str) -> Iterator[str]:
    """Yield a built page's faults: a heading of a section twice, text that was read as emphasis or as an element."""
    headings = Counter(_TAG.sub("", each).strip() for each in _HEADING.findall(html))
    yield from (f"the heading {text!r} stands {count} times" for text, count in headings.items() if count > 1)
    yield from (f"write the asterisks as code: {found}" for found in _QUOTED_EMPHASIS.findall(html))
    yield from (f"write <{name}> as code: HTML has no such element" for name in sorted(set(_NO_ELEMENT.findall(html))))


# Hooks that MkDocs calls


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside of docs/."""
    file = import_module("mkdocs.structure.files").File
    root = _root(config)
    for name, page in outside(root).items():
        files.append(file.generated(config, page, content=text_of(root, name)))
    files.append(file.generated(config, "reference/suites.md", content=suites(root)))
    config.nav = listed(config.nav, [each.src_uri for each in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the page's links; the first page needs no list of itself."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]
    sources = {name: uri for name, uri in outside(_root(config)).items()}
    sources |= {f"docs/{file.src_uri}": file.src_uri for file in files if file.src_uri not in set(sources.values())}
    here = next(name for name, uri in sources.items() if uri == page.file.src_uri)
    titles = {file.src_uri: _title(file.content_string) for file in files.documentation_pages()}
    return relinked(markdown, source=here, pages=sources, repository=config.repo_url, titles=titles)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Log a warning, which ends a strict build, for each fault of the page."""
    for fault in faults(html):
        logging.getLogger("mkdocs.plugins.pages").warning("%s: %s", page.file.src_uri, fault)
    return html


def _title(text: str) -> str | None:
    found = _TITLE.search(text)
    return found["title"] if found else None


def _root(config: Any) -> Path:
    return Path(config.config_file_path).parent

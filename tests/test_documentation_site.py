"""The site has every document once, its links lead somewhere, and what is made of declarations is up to date."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from reference import PAGES as TABLE_PAGES
from reference import PLACE, TABLES

import ottla
from documents import ROOT
from documents import pages as documents
from ottla.config import describe
from ottla.errors import ErrorCode
from pages import CONFORMANCE, faults, listed, outside, relinked, suites, text_of

PAGES = {"README.md": "index.md", "docs/tables.md": "tables.md", "packages/core/README.md": "packages/core.md"}
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\((?P<target>[^)\s#]+)")
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
BLOCK = re.compile(r"(?ms)^ *```.*?^ *```$")
CODE = re.compile(r"(?ms)^ *```.*?^ *```$|`[^`\n]*`")


def led(text: str, *, source: str, repository: str | None = None) -> str:
    return relinked(text, source=source, pages=PAGES, repository=repository, titles={"tables.md": "Tables"})


def reference(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "reference.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_link_between_documents_becomes_one_between_pages() -> None:
    assert led("see [the tables](docs/tables.md#memory)", source="README.md") == "see [the tables](tables.md#memory)"
    assert led("[core](../packages/core/README.md)", source="docs/tables.md") == "[core](packages/core.md)"
    assert led("[all of\nit](../../README.md)", source="packages/core/README.md") == "[all of\nit](../index.md)"


def test_a_link_with_a_file_name_as_text_gets_the_page_title() -> None:
    assert led("[docs/tables.md](docs/tables.md)", source="README.md") == "[Tables](tables.md)"
    assert (
        led("[docs/tables.md](../../docs/tables.md#a)", source="packages/core/README.md") == "[Tables](../tables.md#a)"
    )
    assert led("[packages/core/README.md](packages/core/README.md)", source="README.md") == (
        "[packages/core/README.md](packages/core.md)"
    )


def test_a_link_to_another_file_points_to_the_repository_or_is_removed() -> None:
    text = "[the test](../tests/test_tables.py)"

    assert led(text, source="docs/tables.md") == "the test"
    assert (
        led(text, source="docs/tables.md", repository="https://example.com/ottla/")
        == "[the test](https://example.com/ottla/blob/HEAD/tests/test_tables.py)"
    )


@pytest.mark.parametrize("text", ["[out](https://kafka.apache.org/)", "[down](#memory)", "```python\na[0](b)\n```"])
def test_other_links_and_code_are_unchanged(text: str) -> None:
    assert led(text, source="README.md") == text


def test_every_readme_is_a_page_and_the_changelog_starts_with_news(tmp_path: Path) -> None:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "10.fixed.md").write_text("It no longer does\nthat.\n\nNor this.\n")
    (tmp_path / "changelog.d" / "9.added.md").write_text("- This.\n- And that.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n<!-- towncrier: here -->\n## 0.1\n")

    assert outside(ROOT)["packages/core/README.md"] == "packages/core.md"
    assert text_of(tmp_path, "CHANGELOG.md") == (
        "# Changelog\n\n## Not released yet\n\n### Added\n\n- This.\n- And that.\n\n"
        "### Fixed\n\n- It no longer does\n    that.\n    \n    Nor this.\n\n"
        "<!-- towncrier: here -->\n## 0.1\n"
    )


def test_every_suite_is_on_its_page_with_its_promises(tmp_path: Path) -> None:
    folder = tmp_path / CONFORMANCE
    folder.mkdir(parents=True)
    (folder / "clock.py").write_text(
        'class ClockConformance(HandRequirements):\n    """Give `clock`."""\n\n'
        "    def test_a_second_s_length_stays(self): ...\n"
    )
    (folder / "hand.py").write_text("class HandRequirements:\n    def test_it_turns(self): ...\n")

    expected = "## ClockConformance\n\nGive `clock`.\n\n- it turns\n- a second's length stays\n"
    assert suites(tmp_path).endswith(expected)
    assert suites(ROOT).count("\n- ") > 50


def test_a_star_stands_for_pages_that_are_not_listed_otherwise() -> None:
    pages = ["index.md", "packages/core.md", "packages/spark.md", "spark-more.md"]

    assert listed(["index.md", {"Spark": ["packages/spark.md", "spark*.md"]}, {"All": ["packages/*.md"]}], pages) == [
        "index.md",
        {"Spark": ["packages/spark.md", "spark-more.md"]},
        {"All": ["packages/core.md"]},
    ]


def test_every_link_between_files_has_a_target() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in documents()
        for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
        if not re.match("[a-z]+:", target) and not (page.parent / target).exists()
    ]

    assert broken == []


def test_no_page_has_a_heading_of_a_section_twice() -> None:
    headings = {
        page.relative_to(ROOT).as_posix(): re.findall(r"(?m)^##? [^\n]+$", CODE.sub("", page.read_text("utf-8")))
        for page in documents()
    }

    assert [(page, each) for page, found in headings.items() for each in set(found) if found.count(each) > 1] == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<h2 id="a">A<a class="headerlink">¶</a></h2><h2 id="a_1"><code>A</code></h2>', "'A' stands 2 times"),
        ('"<em>" is all columns, without "</em>"', 'as code: "<em>" is all columns'),
        ("<p>compression.<type>.level</p>", "write <type> as code"),
    ],
)
def test_a_fault_of_a_built_page_is_reported(html: str, fault: str) -> None:
    [found] = faults(html)

    assert fault in found


def test_a_page_of_usual_elements_has_no_fault() -> None:
    assert (
        list(faults('<h2 id="a">A</h2><p><em>topic</em> is "given", <a href="b">as here</a></p><h2 id="b">B</h2>'))
        == []
    )


def test_every_public_name_is_in_the_reference_with_a_description() -> None:
    listed_names = set(re.findall(r"(?m)^::: ottla\.(\w+)$", "".join(page.read_text() for page in REFERENCE)))
    wanted = {name for name in ottla.__all__ if not hasattr(ottla.errors, name)} - {"__version__"}
    objects = {name: getattr(ottla, name) for name in ottla.__all__ if name != "__version__"}
    methods = {
        f"{name}.{method}": found
        for name, owner in objects.items()
        if inspect.isclass(owner) and not issubclass(owner, Exception)
        for method, found in vars(owner).items()
        if inspect.isfunction(found) and not method.startswith("_")
    }

    assert listed_names >= wanted
    assert "::: ottla.errors.exceptions" in (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert [name for name, found in (objects | methods).items() if not found.__doc__] == []


def test_the_pages_made_of_declarations_are_current() -> None:
    done = reference("--check")

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_an_outdated_table_is_reported_and_rewritten(tmp_path: Path) -> None:
    for name in TABLE_PAGES:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(f"{PLACE.sub(emptied, text)}\nWritten by hand.\n", encoding="utf-8")

    check = reference("--check", "--pages", str(tmp_path))
    assert check.stdout.count("is stale: run python tools/reference.py\n") == len(TABLE_PAGES)
    assert reference("--pages", str(tmp_path)).returncode == 0

    for name in TABLE_PAGES:
        expected = (ROOT / "docs" / name).read_text(encoding="utf-8") + "\nWritten by hand.\n"
        assert (tmp_path / name).read_text(encoding="utf-8") == expected
    assert reference("--check", "--pages", str(tmp_path)).returncode == 0


def emptied(place: re.Match[str]) -> str:
    return place["begin"] + "| an old table |\n" + place["end"]


def test_each_table_of_the_reference_has_one_place() -> None:
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in TABLE_PAGES)

    assert sorted(place["name"] for place in PLACE.finditer(text)) == sorted(TABLES)
    assert text.count("<!-- end of reference -->") == len(TABLES)


def test_every_setting_and_every_code_is_on_its_page() -> None:
    settings = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    codes = (ROOT / "docs" / "error-codes.md").read_text(encoding="utf-8")

    assert [row.key for row in describe() if settings.count(f"#### `{row.key}`\n") != 1] == []
    assert [code.name for code in ErrorCode if f"| {code.value} | `{code.name}` |" not in codes] == []
    assert "#### `ssl.truststore.location`\n" in settings
    assert "#### `sasl.username`\n" in settings


def test_the_copy_button_of_a_console_block_copies_only_commands() -> None:
    # The button's script marks the code with this attribute, and copies the text that the page then shows.
    rule = r"code\[data-md-copying\] :is\(\.gp, \.go\) \{ display: none; \}"

    assert re.search(rule, (ROOT / "docs" / "site.css").read_text("utf-8"))
    assert "content.code.copy" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_prose_is_wrapped() -> None:
    generated = ("docs/rules.md", "docs/configuration.md", "docs/reference/")
    long = [
        f"{name}: {line}"
        for page in documents()
        if not (name := page.relative_to(ROOT).as_posix()).startswith(generated)
        for line in BLOCK.sub("", page.read_text(encoding="utf-8")).splitlines()
        if len(line) > 122 and " " in line.strip() and not line.lstrip().startswith(("|", "#", "<!--"))
    ]

    assert long == []

"""Blocks are found where readers see them, and run as the comment before them says."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import Block, blocks, chains


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_a_block_is_found_with_its_position_language_and_text(page: Path) -> None:
    page.write_text("# Title\n\n```python\nsend(1)\n```\n\n- in a list:\n\n  ```console\n  $ ottla\n  ```\n")

    assert list(blocks(page)) == [
        Block(page="page.md", line=4, language="python", text="send(1)\n"),
        Block(page="page.md", line=10, language="console", text="$ ottla\n"),
    ]


def test_a_comment_states_the_inputs_and_exit_codes_of_a_block(page: Path) -> None:
    page.write_text("<!-- block: given producer, a table; ends 1 -->\n```console\n$ ottla\n```\n")

    [block] = blocks(page)

    assert block.given == ["producer", "a table"]
    assert block.exit_code == 1
    assert block.runs


def test_a_comment_replaces_text_that_must_exist(page: Path) -> None:
    page.write_text("<!-- block: with `range(3)` for `forever` -->\n```python\nfor _ in forever: ...\n```\n")
    [block] = blocks(page)

    assert block.program == "for _ in range(3): ...\n"

    page.write_text(page.read_text().replace("in forever", "in eternity"))
    [block] = blocks(page)
    with pytest.raises(AssertionError, match="'forever' is not in the block"):
        block.program  # noqa: B018 - asked for what it raises


def test_a_block_that_is_not_run_has_a_reason(page: Path) -> None:
    page.write_text(
        "<!-- block: not run, it needs AWS -->\n```python\nsend(1)\n```\n"
        "<!-- block: compiled, it needs a proxy -->\n```python\nsend(2)\n```\n"
    )

    first, second = blocks(page)

    assert (first.runs, first.compiled, first.reason) == (False, False, "it needs AWS")
    assert (second.runs, second.compiled, second.reason) == (False, True, "it needs a proxy")
    assert list(chains(page, "python")) == []


def test_a_block_that_continues_runs_after_the_one_before(page: Path) -> None:
    page.write_text("```python\na = 1\n```\n<!-- block: continues -->\n```python\na\n```\n\n```python\nb = 1\n```\n")

    assert [[block.text for block in chain] for chain in chains(page, "python")] == [["a = 1\n", "a\n"], ["b = 1\n"]]


def test_a_comment_without_a_following_block_is_reported(page: Path) -> None:
    page.write_text("<!-- block: not run, because -->\n\nText between.\n\n```python\nsend(1)\n```\n")

    with pytest.raises(ValueError, match=r"page\.md has a comment about a block that does not stand right before one"):
        list(blocks(page))

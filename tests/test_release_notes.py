"""The notes of a release are the section of its version in the changelog; a build removes only what one has written."""

from __future__ import annotations

from pathlib import Path

import pytest
from release import LONGEST_NOTES, ReleaseError, clear, notes

FRAGMENT = "- Records arrive. (#1)\n"


def changelog(fragments: int) -> str:
    newer = f"## 0.2.0 (2026-11-28)\n\n### Fixed\n\n{FRAGMENT * fragments}\n"
    return f"# Changelog\n\n{newer}## 0.1.0 (2026-10-28)\n\n- First.\n"


def test_notes_are_the_section_of_the_version() -> None:
    assert notes(changelog(2), "0.2.0") == f"### Fixed\n\n{FRAGMENT * 2}"
    assert notes(changelog(2), "0.1.0") == "- First.\n"


def test_notes_of_a_version_without_a_section_are_refused() -> None:
    with pytest.raises(ReleaseError, match=r"CHANGELOG.md has no section 0.3.0: run python tools/release.py prepare"):
        notes(changelog(2), "0.3.0")


def test_notes_that_are_too_long_for_github_end_with_a_link_to_all() -> None:
    made = notes(changelog(10_000), "0.2.0")

    assert LONGEST_NOTES - 200 < len(made) < LONGEST_NOTES + 200
    assert made.endswith(
        f"\n{FRAGMENT}\nThis list is shortened. All changes: https://github.com/ottla/ottla/blob/v0.2.0/CHANGELOG.md\n"
    )


def test_a_build_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    clear(folder)
    (folder / "work").mkdir(parents=True)
    (folder / "notes.md").write_text("- First.")
    clear(folder)

    assert not folder.exists()


def test_a_build_removes_no_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("- First.")
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(ReleaseError, match=r"contains thesis\.txt, which no build has written"):
        clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.md", "thesis.txt"]

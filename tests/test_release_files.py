"""What a release publishes: the built files, unchanged, and wheels of ottla-accel that were built on other systems."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import pytest
from release_files import SUMS, ReleaseFilesError, gather, main, sums, version_of_core

CORE: Final = "ottla-1.2.3-py3-none-any.whl"
LINUX: Final = "ottla_accel-1.2.3-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
MACOS: Final = "ottla_accel-1.2.3-cp313-cp313-macosx_11_0_arm64.whl"
WINDOWS: Final = "ottla_accel-1.2.3-cp314-cp314-win_amd64.whl"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder as `tools/release.py build` writes it."""
    folder = tmp_path / "release"
    (folder / "dist").mkdir(parents=True)
    for name in (f"dist/{CORE}", f"dist/{LINUX}", "dist/ottla-1.2.3.tar.gz", "notes.md", "sbom.cdx.json"):
        (folder / name).write_text(f"built: {name}")
    (folder / SUMS).write_text(sums(folder))
    return folder


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with a folder of wheels of each other system."""
    for system, name in (("macos", MACOS), ("windows", WINDOWS)):
        (tmp_path / "wheels" / system).mkdir(parents=True)
        (tmp_path / "wheels" / system / name).write_text(f"built on {system}")
    return tmp_path / "wheels"


def hashes(folder: Path) -> dict[str, str]:
    """The lines of SHA256SUMS, by file."""
    lines = (folder / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_wheels_of_other_systems_are_added_with_their_hashes(built: Path, wheels: Path) -> None:
    before = hashes(built)

    gather(built, wheels)

    added = {f"dist/{MACOS}": "built on macos", f"dist/{WINDOWS}": "built on windows"}
    expected = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in added.items()}
    assert hashes(built) == before | expected


def test_a_wheel_that_the_release_has_already_stays(built: Path, wheels: Path) -> None:
    (wheels / LINUX).write_text("built again")

    gather(built, wheels)

    assert (built / "dist" / LINUX).read_text() == f"built: dist/{LINUX}"


@pytest.mark.parametrize("name", [f"dist/{CORE}", "notes.md", "dist/another.whl"])
def test_a_changed_or_added_file_ends_the_release(name: str, built: Path, wheels: Path) -> None:
    (built / name).write_text("changed")

    with pytest.raises(ReleaseFilesError, match=rf"^not the files of SHA256SUMS: {name}; build the release again$"):
        gather(built, wheels)


def test_a_lost_file_ends_the_release(built: Path, wheels: Path) -> None:
    (built / "sbom.cdx.json").unlink()

    with pytest.raises(ReleaseFilesError, match=r"not the files of SHA256SUMS: sbom\.cdx\.json"):
        gather(built, wheels)


@pytest.mark.parametrize(
    "name",
    [
        "ottla_accel-1.2.4-cp313-cp313-macosx_11_0_arm64.whl",
        "ottla_spark-1.2.3-py3-none-any.whl",
        "ottla_accel-1.2.3.tar.gz",
        "ottla_accel-1.2.3-cp313-cp313-win_amd64.exe",
    ],
)
def test_nothing_but_wheels_of_accel_in_this_version_is_added(name: str, built: Path, wheels: Path) -> None:
    (wheels / name).write_text("")

    with pytest.raises(ReleaseFilesError, match=r"is not a wheel of ottla-accel 1\.2\.3; nothing else is added"):
        gather(built, wheels)
    assert not (built / "dist" / name).exists()


@pytest.mark.parametrize("names", [(), (CORE, "ottla-1.2.4-py3-none-any.whl")], ids=["none", "two"])
def test_the_version_is_that_of_the_one_wheel_of_the_core(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("")

    with pytest.raises(ReleaseFilesError, match=rf"has {len(names)} wheels of ottla and not one"):
        version_of_core(tmp_path)


def test_the_command_prints_the_hashes_or_the_reason(
    built: Path, wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(str(built), str(wheels)) == 0
    assert capsys.readouterr().out == (built / SUMS).read_text()

    (built / "notes.md").write_text("changed")

    assert main(str(built), str(wheels)) == 1
    assert "notes.md" in capsys.readouterr().err

"""Wheels of all packages, clean environments, and third-party plugins.

Needs what builds the wheels (`tox run -e installation`), so elsewhere these tests do not exist.
"""

from __future__ import annotations

import importlib.util
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest
from installation.clean_environment import COMPILED, EXAMPLES, PURE, ROOT, Environment, MakePlugin, build
from long_forms import LONG

collect_ignore_glob = [] if importlib.util.find_spec("hatchling") else ["test_*.py"]

METADATA = "Metadata-Version: 2.1\nName: {distribution}\nVersion: 3.1\nRequires-Dist: ottla\n"
TAGS = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of every package and example."""
    folder = tmp_path_factory.mktemp("wheels")
    packages = [ROOT / "packages" / name for name in (*PURE, *(COMPILED if LONG else ()))]
    build(folder, packages + [ROOT / "examples" / name for name in EXAMPLES])
    return folder


@pytest.fixture
def environment(tmp_path: Path, wheels: Path) -> Environment:
    """A new one for each test."""
    folder = tmp_path / "environment"
    venv.EnvBuilder(symlinks=True).create(folder)
    return Environment(folder=folder, wheels=wheels)


@pytest.fixture
def plugin(tmp_path: Path) -> MakePlugin:
    """Make the wheel of a third-party partitioner, without a build: a wheel is an archive of five files."""

    def plugin(distribution: str, source: str, *, name: str) -> Path:
        module = distribution.replace("-", "_")
        path = tmp_path / f"{module}-3.1-py3-none-any.whl"
        files = {
            f"{module}.py": textwrap.dedent(source),
            f"{module}-3.1.dist-info/METADATA": METADATA.format(distribution=distribution),
            f"{module}-3.1.dist-info/WHEEL": TAGS,
            f"{module}-3.1.dist-info/entry_points.txt": f"[ottla.partitioners]\n{name} = {module}\n",
        }
        record = f"{module}-3.1.dist-info/RECORD"
        with zipfile.ZipFile(path, "w") as wheel:
            for file, content in files.items():
                wheel.writestr(file, content)
            wheel.writestr(record, "".join(f"{file},,\n" for file in [*files, record]))
        return path

    return plugin

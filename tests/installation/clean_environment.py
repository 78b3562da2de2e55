"""Wheels of our packages, and clean virtual environments to install them into.

`OTTLA_SOAK` adds what takes minutes: the compiler for ottla-accel, and PySpark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
from long_forms import LONG

ROOT: Final = Path(__file__).parents[2]
PURE: Final = (
    "core",
    "transport-plaintext",
    "transport-ssl",
    "authenticator-sasl",
    "opentelemetry",
    "reporter-prometheus",
    "serializer-schema-registry",
    "testkit",
    "spark",
)
COMPILED: Final = ("accel",)
EXAMPLES: Final = (
    "transport-socks5",
    "transport-http-connect",
    "transport-unix",
    "authenticator-msk-iam",
)

MakePlugin = Callable[..., Path]

_QUIET: Final = ("--quiet", "--disable-pip-version-check", "--no-input")
_TIMEOUT: Final = 1800 if LONG else 300


def pip(*arguments: str | Path, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    """pip of this environment, for another one if *python* is given."""
    into = ["--python", str(python)] if python else []
    return run(sys.executable, "-m", "pip", *into, *arguments)


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The ended command, without this process's own paths."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV_"))}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
        env=environment,
        cwd=cwd,
    )


def done(ended: subprocess.CompletedProcess[str]) -> str:
    """The command's output; it must have succeeded."""
    assert ended.returncode == 0, f"{ended.args}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@attrs.frozen(kw_only=True)
class Environment:
    """A virtual environment with nothing in it but what a test installs."""

    folder: Path
    wheels: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *wanted: str | Path) -> None:
        """Install, our own packages from the wheels, others from the registry. What is installed must fit together."""
        done(pip("install", *_QUIET, "--find-links", self.wheels, *wanted, python=self.python))
        assert (
            done(pip("check", "--disable-pip-version-check", python=self.python)) == "No broken requirements found.\n"
        )

    def replace(self, wheel: Path) -> None:
        """Install this wheel in the place of what is installed under its name and version."""
        done(pip("install", *_QUIET, "--force-reinstall", "--no-deps", wheel, python=self.python))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """`python ...` in it, in an empty folder."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        return run(self.python, *command, cwd=work)

    def program(self, source: str) -> subprocess.CompletedProcess[str]:
        """The program, in which every warning is an error."""
        return self.run("-W", "error", "-c", textwrap.dedent(source))

    def _wheels(self) -> Sequence[Path]:
        return sorted(self.wheels.glob("*.whl"))


def listed(environment: Environment) -> dict[str, str | None]:
    """Every installed plugin, with what is wrong with it."""
    said = done(environment.run("-m", "ottla", "plugins", "--json"))
    return {f"{entry['kind']}:{entry['name']}": entry["problem"] for entry in json.loads(said)["plugins"]}


def build(folder: Path, sources: Sequence[Path]) -> None:
    """Wheels of these sources, by what is installed here: nothing is fetched."""
    done(pip("wheel", *_QUIET, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *sources))

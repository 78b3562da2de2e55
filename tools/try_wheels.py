"""Installs the wheels of a folder into a clean environment, and sends a record there.

python tools/try_wheels.py DIST FOLDER      tries the wheels in DIST, in an environment in FOLDER

It installs exactly the versions of these wheels, and what they require from the index. Needs nothing but Python and
pip, so that it runs on every system for which a release has wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from release_files import version_of_core

INSTALLED: Final = ("ottla[cli]", "ottla-transport-plaintext", "ottla-accel", "ottla-testkit")
"""What the clean environment gets: all that a first record needs, without PySpark."""
OURS: Final = "ottla,ottla-accel,ottla-testkit,ottla-transport-plaintext"

SEND: Final = """
import ottla_accel.sending
from ottla import Producer
from ottla_testkit.mock_producer import MockProducer

Producer(bootstrap_servers="127.0.0.1:9092").close()
with MockProducer() as producer:
    delivery = producer.send("orders", b"value", key=b"42")
    producer.complete_next()
    print(delivery.result(timeout=10))
"""


def run(*command: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """The output of a command, which must succeed."""
    ended = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))} has failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def clean_environment(folder: Path, dist: Path) -> Path:
    """The Python of an environment with the wheels and what they require."""
    shutil.rmtree(folder, ignore_errors=True)
    windows = sys.platform == "win32"
    venv.EnvBuilder(symlinks=not windows).create(folder)
    python = folder / ("Scripts/python.exe" if windows else "bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python)
    version = version_of_core(dist)
    exact = [f"{name}=={version}" for name in INSTALLED]
    run(*pip, "install", "--quiet", "--only-binary", OURS, "--find-links", dist, *exact)
    run(*pip, "check")
    return python


def send_a_record(python: Path, cwd: Path) -> str:
    """What a program prints that sends a record to a mock of a cluster, where each warning is an error."""
    return run(python, "-W", "error", "-c", SEND, cwd=cwd).strip()


def main(dist: Path, folder: Path) -> None:
    """Install and send; print the record's metadata."""
    python = clean_environment(folder / "environment", dist)
    print(send_a_record(python, folder))


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))

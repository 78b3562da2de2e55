"""The Java that runs the brokers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ottla_testkit.errors import KafkaUnavailableError, tail

OLDEST = 17  # Kafka 4 brokers need it
_REMEDY = f"install a Java runtime of version {OLDEST} or later and put `java` on PATH or set JAVA_HOME"


def java_command() -> str:
    """Return the path of a `java` that can run a broker; `KafkaUnavailableError` if there is none."""
    java = _find()
    ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    printed = ran.stderr + ran.stdout
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None:
        raise KafkaUnavailableError(f"`{java} -version` printed no version; {_REMEDY}. It printed:\n{tail(printed)}")
    if int(version[1]) < OLDEST:
        raise KafkaUnavailableError(f"{java} is Java {version[1]}, too old for a Kafka broker; {_REMEDY}")
    return java


def _find() -> str:
    home = os.environ.get("JAVA_HOME")
    places = [str(Path(home, "bin"))] if home else []
    for place in (*places, os.environ.get("PATH", "")):
        if found := shutil.which("java", path=place):
            return found
    raise KafkaUnavailableError(f"there is no `java` on PATH nor in JAVA_HOME ({home or 'not set'}); {_REMEDY}")

"""Apicurio Registry for the duration: a registry that companies run, with Confluent's REST interface.

Maven fetches its archive once, into the cache of Kafka's jars. Unlike the demo's registry it judges schemas itself,
stores them in a database, and has no GUIDs.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from ottla_testkit.java.jars import cache_folder
from ottla_testkit.java.runtime import java_command

VERSION: Final = "3.0.9"
"""The newest release that runs on Java 17."""

ARCHIVE: Final = f"apicurio-registry-app-{VERSION}-all.tar.gz"

DIGEST: Final = (
    "1ed16d7284599c705a1ccbc551b307064990eb1f58c340e37eedc80716f24aba"
    "6216b85db35bc6c1651e44fdfd3598c4c6daa082f18e020e6b8f192036e609c0"
)
"""SHA-512 of the archive."""

OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0")

READY_WITHIN: Final = 120.0


@contextmanager
def apicurio() -> Iterator[str]:
    """Run a registry whose database is in memory, and yield the address of its Confluent interface."""
    [jar] = _program().glob("*-runner.jar")
    with tempfile.TemporaryFile() as log:
        command = [java_command(), *OPTIONS, "-jar", str(jar)]
        with subprocess.Popen(command, cwd=jar.parent, stdout=log, stderr=subprocess.STDOUT) as process:
            try:
                yield _address(process)
            except TimeoutError as error:
                log.seek(0)
                raise AssertionError(
                    f"Apicurio Registry {error}: {log.read()[-4000:].decode(errors='replace')}"
                ) from error
            finally:
                process.kill()


def _address(process: subprocess.Popen[bytes]) -> str:
    """The address, once the registry answers. Raises TimeoutError."""
    until = time.monotonic() + READY_WITHIN
    while process.poll() is None and time.monotonic() < until:
        listening = [each for each in psutil.Process(process.pid).net_connections("tcp") if each.status == "LISTEN"]
        if listening:
            address = f"http://127.0.0.1:{listening[0].laddr.port}/apis/ccompat/v7"
            with urllib.request.urlopen(f"{address}/subjects", timeout=READY_WITHIN):
                return address
        time.sleep(0.1)
    raise TimeoutError("ended" if process.poll() is not None else f"does not listen after {READY_WITHIN:g} s")


def _program() -> Path:
    """The folder of the unpacked archive."""
    target = cache_folder() / f"apicurio-{VERSION}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            archive, unpacked = Path(folder, ARCHIVE), Path(folder, "unpacked")
            artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(copy, check=True, timeout=600)
            found = hashlib.sha512(archive.read_bytes()).hexdigest()
            assert found == DIGEST, f"{ARCHIVE} is another file than the pinned one: its SHA-512 is {found}"
            with tarfile.open(archive) as files:
                files.extractall(unpacked, filter="data")
            try:
                unpacked.rename(target)
            except OSError:
                assert target.is_dir()  # another process was faster
    return target

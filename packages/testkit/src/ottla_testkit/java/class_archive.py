"""An archive of a Kafka version's classes (AppCDS), which halves the time until a broker serves.

The first cluster of a version that shuts down normally stores it in the folder of the jars. Brokers and tools that
start later map it into memory instead of loading and verifying thousands of classes. An archive belongs to one Java and
to exactly these jars: Java checks both and ignores an archive that does not fit. It does not check whether the file is
complete, and crashes when it is not, so the file's name has its size.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

# A Java without these options (OpenJ9) starts nevertheless, and no Java prints the classes that it skips.
_WITHOUT_LOGS: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable", "-Xlog:all=error:stderr")


class ClassArchive:
    """The class archive of a folder's jars for one Java; a recording stays in the folder `scratch` until `keep`."""

    def __init__(self, java: str, *, jars: Path, scratch: Path) -> None:
        self._jars = jars
        self._name = f"classes-{_identity(java)}"
        self._recorded = scratch / "recorded.jsa"

    @property
    def options(self) -> Sequence[str]:
        """JVM options to use the archive; empty if there is no archive, or an empty one."""
        found = self._find()
        return (*_WITHOUT_LOGS, f"-XX:SharedArchiveFile={found}") if found is not None and found.stat().st_size else ()

    @property
    def wanted(self) -> bool:
        """Whether an archive should be recorded: there is none yet, and the folder is writable."""
        return self._find() is None and os.access(self._jars, os.W_OK)

    @property
    def recording(self) -> Sequence[str]:
        """JVM options to write the classes to a recording, for `keep`, when the JVM ends normally."""
        return (*_WITHOUT_LOGS, f"-XX:ArchiveClassesAtExit={self._recorded}")

    def keep(self) -> None:
        """Publish the recording atomically, also when other processes do so at the same time.

        If Java recorded nothing, an empty file is published, so that later clusters do not try again.
        """
        if not self._recorded.exists():
            _log.debug("Java recorded no class archive for %s; brokers start without one", self._jars)
            self._recorded.touch()
        path = self._jars / f"{self._name}-{self._recorded.stat().st_size}.jsa"
        copy = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            try:
                shutil.copyfile(self._recorded, copy)
                copy.replace(path)
            finally:
                copy.unlink(missing_ok=True)
        except OSError as error:
            _log.debug("cannot keep the class archive %s; brokers start without one: %s", path, error)

    def _find(self) -> Path | None:
        """Return an archive that is as large as its name says."""
        for found in sorted(self._jars.glob(f"{self._name}-*.jsa")):
            if found.stem.endswith(f"-{found.stat().st_size}"):
                return found
        return None


def _identity(java: str) -> str:
    """Return a name that changes with Java: a hash of its executable's path, size and time."""
    executable = Path(java).resolve()
    found = executable.stat()
    return hashlib.sha256(f"{executable} {found.st_size} {found.st_mtime_ns}".encode()).hexdigest()[:16]

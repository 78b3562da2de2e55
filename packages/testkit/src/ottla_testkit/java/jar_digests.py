"""The SHA-512 of every jar that is fetched, pinned in `jar_digests.txt` and compared before Java runs any of them.

Another file under the name of a pinned jar is an error, from a registry, a mirror or a cache, and so is a jar that is
not pinned. `python -m ottla_testkit.pin_jars` prints the lines of such a file for other versions of Kafka; the
environment variable OTTLA_KAFKA_DIGESTS names the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from ottla_testkit.errors import JarDigestError

VARIABLE: Final = "OTTLA_KAFKA_DIGESTS"
"""Environment variable with the path of the user's file: lines of `sha512sum`."""

PINNED: Final = "jar_digests.txt"

_RECORD: Final = ".verified.json"
_HEX: Final = 128


def verify(folder: Path, *, digests: Mapping[str, str] | None = None) -> None:
    """Raise `JarDigestError` unless each jar in a folder is pinned and has the pinned digest.

    Every byte is read the first time. Later, a jar with the same size, times and inode counts as unchanged.
    """
    known = all_digests() if digests is None else digests
    before, now = _record_of(folder), dict[str, list[object]]()
    for jar in sorted(folder.glob("*.jar")):
        expected = known.get(jar.name)
        if expected is None:
            raise JarDigestError(
                f"{jar} is not pinned, so Java does not run it; to use another version of Kafka, write the output of "
                f"`python -m ottla_testkit.pin_jars VERSION` to a file, and set {VARIABLE} to its path"
            )
        state = _state(jar)
        now[jar.name] = [expected, *state]
        if before.get(jar.name) == now[jar.name]:
            continue
        found = digest_of(jar)
        if found != expected:
            raise JarDigestError(
                f"{jar} is not the file that is pinned, so Java does not run it: its SHA-512 begins with {found[:16]}, "
                f"the pinned one with {expected[:16]}. Delete it from this cache, and from Maven's or Ivy's, to fetch "
                "it again; if the digest still differs, the registry or mirror serves another file under this name"
            )
    if before != now:
        _keep_record(folder, now)


@cache
def pinned() -> Mapping[str, str]:
    """Return the digests in this package, by the jar's name."""
    return parse(resources.files("ottla_testkit.java").joinpath(PINNED).read_text())


def all_digests() -> Mapping[str, str]:
    """Return the pinned digests, and those of the file that OTTLA_KAFKA_DIGESTS names; pinned ones take precedence."""
    extra = os.environ.get(VARIABLE)
    if not extra:
        return pinned()
    try:
        more = parse(Path(extra).expanduser().read_text())
    except (OSError, ValueError) as error:
        raise JarDigestError(f"{VARIABLE}={extra} cannot be read as lines of sha512sum: {error}") from error
    return {**more, **pinned()}


def parse(text: str) -> dict[str, str]:
    """Parse lines of `sha512sum` into digests by name. Raises ValueError."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        digest, _space, name = line.partition(" ")
        name = name.strip().removeprefix("*")
        if len(digest) != _HEX or set(digest) - set("0123456789abcdef") or not name.endswith(".jar") or "/" in name:
            raise ValueError(f"line {number} is not a SHA-512 in lower case and the name of a jar")
        if found.setdefault(name, digest) != digest:
            raise ValueError(f"line {number} gives a different digest for {name} than an earlier line")
    return found


def digest_of(jar: Path) -> str:
    """Return the SHA-512 of a file, in lower case."""
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()


def _state(jar: Path) -> list[object]:
    """Return a file's size, times and inode, which change with its bytes unless its writer hides the change."""
    found = jar.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _record_of(folder: Path) -> dict[str, object]:
    """Return the stored result of the last digest check of a folder; empty if it cannot be read."""
    try:
        found = json.loads((folder / _RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep_record(folder: Path, record: Mapping[str, object]) -> None:
    """Store the result of a check atomically. If the cache is read-only, each check reads every byte."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=_RECORD, delete=False) as file:
            json.dump(record, file)
        Path(file.name).replace(folder / _RECORD)
    except OSError:
        return

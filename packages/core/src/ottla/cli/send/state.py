"""The STATE file of `ottla send --resume`: the position up to which records are committed, and what is prepared.

It is replaced as a whole and synced to the disk, so after a crash it is the old or the new one. It has a checksum: a
position that a disk or an editor changed would send records twice, or leave them out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import attrs

from ottla.cli.send.columns import InputError
from ottla.cli.send.target import Target
from ottla.transactions import PreparedTransaction

_FORM: Final = 3


@attrs.frozen
class Position:
    """The next record: its input's number and its own, which both count from 0."""

    input: int = 0
    record: int = 0


@attrs.frozen(kw_only=True)
class Prepared:
    """A prepared transaction, and the position after it. *in_doubt*: whether it was committed is not known."""

    transaction: PreparedTransaction
    position: Position
    in_doubt: bool = False


@attrs.frozen(kw_only=True)
class State:
    """What a run has to know of the one before. *subject* is what it sends, which must not change.

    *target* has the ids of the cluster and of the topic that the committed records are in.
    """

    subject: Mapping[str, Any]
    target: Target
    transactional_id: str
    position: Position = attrs.field(factory=Position)
    prepared: Prepared | None = None

    @property
    def begun(self) -> bool:
        """Whether the topic has, or may have, committed records of this run."""
        return self.position != Position() or self.prepared is not None

    @classmethod
    def new(cls, subject: Mapping[str, Any], target: Target) -> Self:
        """The state before the first record, with a transactional id that no other producer has."""
        return cls(subject=subject, target=target, transactional_id=f"ottla-send-{uuid.uuid4()}")

    def save(self, path: Path) -> None:
        """Write the state, so that it survives a crash of the machine. Raises InputError if it cannot be written."""
        document: dict[str, Any] = {
            "subject": self.subject,
            "cluster": self.target.cluster,
            "topic_id": self.target.topic_id,
            "transactional_id": self.transactional_id,
            "position": attrs.asdict(self.position),
            "prepared": self.prepared
            and {
                "transaction": str(self.prepared.transaction),
                "position": attrs.asdict(self.prepared.position),
                "in_doubt": self.prepared.in_doubt,
            },
        }
        document |= {"form": _FORM, "checksum": _checksum(document)}
        try:
            _write(path, json.dumps(document, indent=2))
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a state. Raises InputError for another file, and for one that was changed."""
        try:
            document = json.loads(path.read_bytes())
            if not isinstance(document, dict) or document.pop("form", None) != _FORM:
                raise InputError(f"{path} is not a state that this version of `ottla send` wrote")
            if document.pop("checksum", None) != _checksum(document):
                raise InputError(
                    f"{path} was changed or damaged after `ottla send` wrote it, so it does not say what is committed; "
                    "use a new file, and send only what the topic lacks"
                )
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path} is not a state that this version of `ottla send` wrote: it is not JSON") from None
        prepared = document["prepared"]
        return cls(
            subject=document["subject"],
            target=Target(cluster=document["cluster"], topic_id=document["topic_id"]),
            transactional_id=document["transactional_id"],
            position=Position(**document["position"]),
            prepared=prepared
            and Prepared(
                transaction=PreparedTransaction.from_string(prepared["transaction"]),
                position=Position(**prepared["position"]),
                in_doubt=prepared.get("in_doubt", False),
            ),
        )


def _write(path: Path, text: str) -> None:
    """Replace the file, on the disk."""
    scratch = path.with_name(f"{path.name}.new")
    scratch.unlink(missing_ok=True)  # it may be a link that another user of the folder has made
    with open(scratch, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    _sync_folder(path.parent)


def _checksum(document: Mapping[str, Any]) -> str:
    """The checksum of a state without its form and checksum."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def subject_of(topic: str, names: Sequence[str], choices: Mapping[str, Any]) -> dict[str, Any]:
    """What a run sends: the topic, the files with their sizes and times, and the options that make records."""
    files = []
    for name in names:
        found = os.stat(name)
        files.append({"name": str(Path(name).resolve()), "size": found.st_size, "modified": found.st_mtime_ns})
    subject: dict[str, Any] = json.loads(json.dumps({"topic": topic, "files": files, **choices}))
    return subject


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of what is not as it was."""
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the state for one process, where the system has locks; the transactional id fences others anyway."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = _opened(path.with_name(f"{path.name}.lock"))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process uses {path}") from None
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """The descriptor of a regular file, which is made if there is none, and not changed.

    Another user of the folder may have made a link there, or a pipe, of which `open` would wait for a writer.
    """
    if sys.platform == "win32":
        raise AssertionError("it has no locks")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR):
            raise InputError(f"{path} cannot be opened, and --resume needs this file: {error.strerror}") from None
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise InputError(
        f"{path} is not a regular file, and the lock of the state would be: remove it, or use another STATE"
    )


def _sync_folder(folder: Path) -> None:
    """Sync the new name to the disk, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

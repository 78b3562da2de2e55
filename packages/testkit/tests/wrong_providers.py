"""Configuration providers that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.config.allow_lists import NotAllowedError, check_file, from_others
from ottla.errors import ConfigError

VALUES: Final = {"here": {"user": "ann", "password": "hunter-2"}}


class Right:
    """Has a user and a password, and reads them at each call."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        values = self.values(path)
        return {key: values[key] for key in keys if key in values}

    def values(self, path: str) -> Mapping[str, str]:
        return VALUES.get(path, {})


class HasAnotherName:
    def read(self, path: str, keys: Collection[str]) -> None: ...


class ReturnsNothingForNothing(Right):
    def get(self, path: str, keys: Collection[str]) -> Any:
        return super().get(path, keys) or None


class ReturnsPairs(Right):
    def get(self, path: str, keys: Collection[str]) -> Any:
        return list(super().get(path, keys).items())


class ReturnsOneValue(Right):
    """As if one key was asked for."""

    def get(self, path: str, keys: Collection[str]) -> Any:
        return next(iter(super().get(path, keys).values()), "")


class ReturnsBytes(Right):
    def get(self, path: str, keys: Collection[str]) -> Any:
        return {key: value.encode() for key, value in super().get(path, keys).items()}


class ReturnsNoneForMissing(Right):
    def get(self, path: str, keys: Collection[str]) -> Any:
        return {key: self.values(path).get(key) for key in keys}


class RaisesForMissing(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        values = self.values(path)
        return {key: values[key] for key in keys}


class EmptyForMissing(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        values = self.values(path)
        return {key: values.get(key, "") for key in keys}


class ReturnsAllOfThePath(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        return self.values(path)


class IgnoresThePath(Right):
    def values(self, path: str) -> Mapping[str, str]:
        return VALUES["here"]


class KeysInUpperCase(Right):
    """As environment variables are."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        return {key.upper(): value for key, value in super().get(path, keys).items()}


class NeedsAPath(Right):
    def values(self, path: str) -> Mapping[str, str]:
        return VALUES[path]


class WantsAscii(Right):
    def values(self, path: str) -> Mapping[str, str]:
        path.encode("ascii")
        return super().values(path)


class WantsAList(Right):
    """Takes its keys one by one from a list, which the core does not give."""

    def get(self, path: str, keys: Any) -> Mapping[str, str]:
        values, found = self.values(path), {}
        while keys:
            key = keys.pop()
            if key in values:
                found[key] = values[key]
        return found


class OneKeyAtATime(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        [key] = keys
        return super().get(path, [key])


class RefusesTheSecondTime(Right):
    """Has a token that can be used once."""

    used = False

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        if self.used:
            raise ConfigError(["the token was used"])
        self.used = True
        return super().get(path, keys)


class AsksAServerForEver(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        time.sleep(1.5)  # what is caught is just this
        return super().get(path, keys)


class TornByThreads(Right):
    """Puts the path aside where other threads put theirs."""

    keys: Collection[str] = ()

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        if self.keys:
            raise RuntimeError("a call is under way")
        self.keys = keys
        time.sleep(0.001)  # what a longer computation does now and then
        found = super().get(path, self.keys)
        self.keys = ()
        return found


class SharesItsAnswer(Right):
    """Fills one dictionary at each call, which the caller of the last one still reads."""

    def __init__(self) -> None:
        self.answer: dict[str, str] = {}

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        self.answer.clear()
        self.answer.update(super().get(path, keys))
        return self.answer


class ShowsValuesInItsErrors(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        if unknown := [key for key in keys if key not in self.values(path)]:
            raise ConfigError([f"{unknown[0]!r} is none of {VALUES['here']}"])
        return super().get(path, keys)


class PrintsValues(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        found = super().get(path, keys)
        print(found)
        return found


class LogsValues(Right):
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        found = super().get(path, keys)
        logging.getLogger(__name__).debug("found %s", found)
        return found


class ShowsValuesInItsRepr(Right):
    def __repr__(self) -> str:
        return f"ShowsValuesInItsRepr({VALUES})"


class LocksItselfOut(Right):
    """Keeps its lock after an error."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        self.lock.acquire()
        if path not in VALUES:
            raise ConfigError(["there is no such path"])
        self.lock.release()
        return super().get(path, keys)


class RefusesAfterAnError(Right):
    """Counts what failed, and gives up."""

    failed = False

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        self.failed = self.failed or path not in VALUES
        if self.failed:
            raise ConfigError(["the server is down"])
        return super().get(path, keys)


class KeepsItsValuesForEver(Right):
    """Reads each value once, whatever becomes of it."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        for key in keys:
            if (path, key) not in self.kept and key in self.values(path):
                self.kept[path, key] = self.values(path)[key]
        return {key: self.kept[path, key] for key in keys if (path, key) in self.kept}


class ReadsAnyFile(Right):
    """Takes the path for the name of a file, and does not check the file."""

    def values(self, path: str) -> Mapping[str, str]:
        lines = Path(path).read_text().splitlines() if Path(path).is_file() else []
        return dict(line.split("=") for line in lines)


class ReadsOtherFiles(Right):
    """Looks for files of its own, of which one does not exist; its values are not from there, and one is empty."""

    def values(self, path: str) -> Mapping[str, str]:
        with contextlib.suppress(OSError):
            Path(os.devnull, "nothing").read_text()
        assert not Path(os.devnull).read_text()
        return {"user": "ann", "password": ""}


class ReadsListedFiles(ReadsAnyFile):
    def values(self, path: str) -> Mapping[str, str]:
        try:
            return super().values(check_file(path) if from_others() else path)
        except NotAllowedError as error:
            raise ConfigError([str(error)]) from None

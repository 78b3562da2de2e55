"""A layer wrapper that checks each call: type and range of its result, its errors, and that it does not block."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeGuard, TypeVar

import pytest

from ottla.errors import InvalidPluginError, OttlaError
from ottla.interfaces import Buffer, Interest, SupportsCipher, SupportsDetails, TransportLayer, supports

_Ability = TypeVar("_Ability")

_FOLDER: Final = str(Path(__file__).parent.parent)


class CheckedLayer:
    """Wrap a layer and check its calls.

    A call that does not return within *timeout* seconds fails as blocking; *release* is then called from another
    thread, to make it return.
    """

    def __init__(self, layer: TransportLayer, *, timeout: float, release: Callable[[], None]) -> None:
        self._layer = layer
        self._timeout = timeout
        self._release = release
        self._started_at: float | None = None
        self.running = ""
        """The call that has not returned."""
        self._over = threading.Event()
        self._guard = threading.Thread(target=self._watch_for_blocking, name="conformance-guard", daemon=True)
        self._guard.start()

    def handshake(self) -> bool:
        with self._watched("handshake()"):
            done = self._layer.handshake()
        return _checked_bool("handshake()", done)

    def write(self, chunks: Sequence[Buffer]) -> int:
        offered, before = sum(len(chunk) for chunk in chunks), list(chunks)
        with self._watched("write()"):
            taken = self._layer.write(chunks)
        check(
            isinstance(taken, int) and 0 <= taken <= offered,
            f"write() was offered {offered} bytes and returned {taken!r}; it must say how many it took",
        )
        check(
            len(before) == len(chunks) and all(one is other for one, other in zip(before, chunks, strict=True)),
            "write() changed the list of chunks, which is the caller's",
        )
        return taken

    def flush(self) -> bool:
        with self._watched("flush()"):
            done = self._layer.flush()
        return _checked_bool("flush()", done)

    def read_into(self, buffer: memoryview) -> int | None:
        with self._watched("read_into()"):
            got = self._layer.read_into(buffer)
        check(
            got is None or (isinstance(got, int) and 0 <= got <= len(buffer)),
            f"read_into() was given room for {len(buffer)} bytes and returned {got!r}; "
            "it must be how many it put there, None for nothing now, 0 for closed",
        )
        return got

    def interest(self) -> Interest:
        with self._watched("interest()"):
            wanted = self._layer.interest()
        check(isinstance(wanted, Interest), f"interest() returned {wanted!r}, which is not an Interest")
        return wanted

    def may_read(self) -> bool:
        with self._watched("may_read()"):
            more = self._layer.may_read()
        return _checked_bool("may_read()", more)

    def details(self) -> Sequence[tuple[str, str]]:
        layer = self._layer
        if not has_ability(layer, SupportsDetails):
            return ()
        with self._watched("details()"):
            response: Any = layer.details()
        check(
            all(isinstance(label, str) and isinstance(text, str) for label, text in response),
            f"details() returned {response!r}; it must be pairs of a label and a text",
        )
        return list(response)

    def cipher(self) -> tuple[str, str] | None:
        layer = self._layer
        if not has_ability(layer, SupportsCipher):
            return None
        with self._watched("cipher()"):
            names: Any = layer.cipher()
        check(
            names is None or (type(names) is tuple and [type(name) for name in names] == [str, str]),
            f"cipher() returned {names!r}; it must be a tuple of the names of a cipher suite and a protocol, or None",
        )
        return names  # type: ignore[no-any-return]

    def shown(self) -> str:
        """The layer's repr and str."""
        return f"{self._layer!r} {self._layer!s}"

    def close(self) -> None:
        started_at = time.monotonic()
        try:
            with self._watched("close()"):
                self._layer.close()
        except (OSError, OttlaError) as error:
            fail(f"close() raised {error!r} after {time.monotonic() - started_at:.1f} s; it must never raise", error)

    def dismiss(self) -> None:
        """Check no more calls."""
        self._over.set()
        self._guard.join()

    @contextmanager
    def _watched(self, call: str) -> Iterator[None]:
        self._started_at = started_at = time.monotonic()
        self.running = call
        late: BaseException | None = None
        try:
            yield
        except (OSError, OttlaError) as error:
            if time.monotonic() - started_at < self._timeout:
                raise
            late = error
        except Exception as error:
            fail(f"{call} raised {error!r}; what fails must be an OSError or an OttlaError", error)
        finally:
            self._started_at, self.running = None, ""
        if time.monotonic() - started_at >= self._timeout:
            fail(f"{call} blocked: it did not return within {self._timeout:g} s; no method may wait", late)

    def _watch_for_blocking(self) -> None:
        while not self._over.wait(self._timeout / 4):
            started_at = self._started_at
            if started_at is not None and time.monotonic() - started_at >= self._timeout:
                self._release()


def check(kept: bool, broken: str) -> None:
    """Fail with the message *broken* unless *kept* is true."""
    if not kept:
        fail(broken)


def has_ability(plugin: object, ability: Callable[..., _Ability]) -> TypeGuard[_Ability]:
    """Return whether a plugin's object has an optional ability; fail if it has to be a method, and is none."""
    try:
        return supports(plugin, ability)
    except InvalidPluginError as error:
        fail(str(error), error)


def needed(plugin: object, ability: Callable[..., _Ability]) -> _Ability:
    """The plugin's object with an optional ability; skip the test if it lacks the ability."""
    if not has_ability(plugin, ability):
        members = [name for name in (*vars(ability), *getattr(ability, "__annotations__", {})) if name[0] != "_"]
        pytest.skip(f"optional: the plugin has no {' or '.join(members)} ({ability.__name__})")
    return plugin


def fail(broken: str, cause: BaseException | None = None, *, with_suite: bool = False) -> NoReturn:
    """Fail the test with a message and the traceback of *cause*; *with_suite* keeps the suite's own lines in it."""
    lines = cause.lines if isinstance(cause, RequirementNotMetError) else _lines_of(cause, with_suite=with_suite)
    raise RequirementNotMetError(broken, lines) from None  # pytest would show a cause before the message


class RequirementNotMetError(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A plugin does not meet a requirement: the sentence that says so, and the plugin's part of a traceback."""

    def __init__(self, sentence: str, lines: str) -> None:
        super().__init__(f"{sentence}\n\n{lines}" if lines else sentence, pytrace=False)
        self.sentence = sentence
        self.lines = lines


def sentence_of(error: BaseException) -> str:
    """Return what an error says, for another message: without the traceback that `fail` has added."""
    return error.sentence if isinstance(error, RequirementNotMetError) else str(error)


def _lines_of(cause: BaseException | None, *, with_suite: bool) -> str:
    """Return the traceback of an exception; empty if no line is in it, or none but the suite's own are."""
    if cause is None:
        return ""
    whole = traceback.TracebackException.from_exception(cause)
    parts: list[traceback.TracebackException | None] = [whole]
    for part in parts:
        if part is not None:
            part.stack[:] = [frame for frame in part.stack if with_suite or not frame.filename.startswith(_FOLDER)]
            parts += [part.__cause__, part.__context__]
    return "".join(whole.format()).rstrip() if whole.stack else ""


def _checked_bool(call: str, answer: object) -> bool:
    check(isinstance(answer, bool), f"{call} returned {answer!r}, which is neither True nor False")
    return bool(answer)

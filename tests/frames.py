"""Local variables of our frames, collected as error reporters collect them."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from types import FrameType
from typing import Final

_DEEP: Final = 5
_MAX_ITEMS: Final = 200


def found_in_frames(error: BaseException, secrets: Collection[str]) -> set[str]:
    """Each local variable of a frame of ours that shows one of the secrets, as file:function:variable.

    Everything that the error leads to counts: causes, and contexts too, which are hidden from people only.
    """
    forms = [form for secret in secrets for form in _forms(secret)]
    return {
        f"{frame.f_code.co_filename.rpartition('/src/')[2]}:{frame.f_code.co_qualname}:{name}"
        for each in _chain(error)
        for frame in _frames(each)
        if "/src/ottla" in frame.f_code.co_filename
        for name, value in frame.f_locals.items()
        if any(form in shown for shown in _shown(value, _DEEP) for form in forms)
    }


def our_frames(error: BaseException) -> int:
    """Their number: a search through none would find nothing."""
    return sum("/src/ottla" in frame.f_code.co_filename for each in _chain(error) for frame in _frames(each))


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in found:
            found.append(each)
            waiting += [each.__cause__, each.__context__]
            waiting += each.exceptions if isinstance(each, BaseExceptionGroup) else []
    return found


def _frames(error: BaseException) -> Iterator[FrameType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _shown(value: object, depth: int) -> Iterator[str]:
    """The repr, and what is inside of containers, however long they are."""
    try:
        yield repr(value)
    except Exception:
        yield ""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for key, inner in list(value.items())[:_MAX_ITEMS]:
            yield from _shown(key, depth - 1)
            yield from _shown(inner, depth - 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in list(value)[:_MAX_ITEMS]:
            yield from _shown(inner, depth - 1)
    elif isinstance(value, bytes | bytearray | memoryview):
        yield bytes(value).decode("latin-1")


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]
    yield secret.encode().hex()

"""Hostile bytes for every decoder of the protocol: what is sent to which, and what it may cost.

An input may be read or refused; what was read can be written and read again. Steps and memory are bounded by the
input's length. OTTLA_FUZZ_INPUTS and OTTLA_FUZZ_SEED: see `fuzzing`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from drawn import Draw
from fuzzing import Bounds, Target, inputs, spoiled
from golden import KINDS, cases, codec_of, root_of

from ottla.protocol import API_VERSIONS, Codec, Message, peek_error_code, read_response_header
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import ArrayOf, Fixed, StructOf, Text, WireType, fields_of

INPUTS: Final = inputs(default=100_000)
"""For all targets together; each gets as many."""

EACH: Final = 1 + INPUTS // sum(2 * (1 + message.max_version - message.min_version) for message in MESSAGES)

BOUNDS: Final = Bounds(steps=1_000, steps_per_byte=40, memory=12_000, memory_per_byte=160)
"""An empty topic of a few bytes is the dearest: lengths to check, an object with its lists, a place in a list."""

DRAWN: Final = 8
"""Genuine messages of each codec, in addition to the golden ones."""

CROWD: Final = 100
ZEROS: Final[dict[WireType, Any]] = {Fixed("b"): 0, Fixed("i"): 0, Fixed("q"): 0, Text(): ""}


def targets(message: Message[Any, Any]) -> Iterator[Target]:
    """Every decoder of a message, with the headers of its answers."""
    for kind in KINDS:
        for version in range(message.min_version, message.max_version + 1):
            codec = codec_of(message, kind, version)
            genuine = [*_golden(message, kind, version), *_made(message, kind, version)]
            yield _target(codec.label, _reader(codec), genuine)
    newest = message.max_version
    yield _target(
        f"{message.name} response header",
        lambda data: read_response_header(message, newest, data),
        [bytes.fromhex(header) for header in ("0102030400", "01020304020002ffff914e03010203")],
    )
    if message is API_VERSIONS:
        yield _target("peek_error_code", peek_error_code, [b"\0\0", b"\0#\0\0\0\0"])


def crowded(message: Message[Any, Any]) -> Iterator[tuple[Target, bytes]]:
    """Every decoder of a message, with the bytes that cost it most."""
    for kind in KINDS:
        for version in range(message.min_version, message.max_version + 1):
            codec = codec_of(message, kind, version)
            data = codec.encode(_crowded(root_of(message, kind), version))
            yield _target(codec.label, _reader(codec), [data]), data


def _golden(message: Message[Any, Any], kind: str, version: int) -> Iterator[bytes]:
    for case in cases(message, kind):
        if case.version == version:
            yield case.body
            if case.with_unknown_tag is not None:
                yield case.with_unknown_tag


def _made(message: Message[Any, Any], kind: str, version: int) -> Iterator[bytes]:
    codec, root, draw = codec_of(message, kind, version), root_of(message, kind), Draw(seed=version)
    for _ in range(DRAWN):
        yield codec.encode(draw.struct(root, version))
    yield codec.encode(_crowded(root, version))


def _crowded(root: type, version: int) -> Any:
    """A struct whose arrays have many items that are as small as can be: the most objects for the fewest bytes."""
    value = root()
    for field in fields_of(root):
        if version in field.versions and isinstance(field.type, ArrayOf):
            item = field.type.item
            setattr(value, field.name, [item.type() if isinstance(item, StructOf) else ZEROS[item]] * CROWD)
    return value


def _target(label: str, read: Callable[[bytes], object], genuine: Sequence[bytes]) -> Target:
    return Target(label=label, read=read, spoiled=functools.partial(spoiled, genuine), bounds=BOUNDS)


def _reader(codec: Codec[Any]) -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        value = codec.decode(data, exact=False)
        assert codec.decode(codec.encode(value)) == value

    return read

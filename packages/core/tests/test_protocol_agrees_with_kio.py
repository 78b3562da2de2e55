"""kio, a protocol library that others made from the same schemas, reads what we write and writes what we read.

It has only versions that Kafka 4 has. Nothing else is left out: where its types hold less than the wire does, such
as error codes without a name and times far away, we draw values that both can hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from drawn import Draw
from golden import KINDS, codec_of, plain, root_of
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from long_forms import share

from ottla.protocol import Codec, Message
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import ZERO_UUID, fields_of

pytestmark = pytest.mark.unmeasured

VALUES: Final = 40
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)
CODES: Final = [code.value for code in ErrorCode]
FAR: Final = 4 * 10**12
"""Milliseconds, as far as the end of this century: later times lose microseconds in kio's reader."""


class Pair(NamedTuple):
    """The same struct of both sides at one version."""

    codec: Codec[Any]
    version: int
    ours: type[Any]
    theirs: type[Any]


def common_versions(message: Message[Any, Any]) -> list[int]:
    known = schema_name_map[api_key_map[message.key]]
    return [version for version in range(message.min_version, message.max_version + 1) if version in known]


OTHER_VERSIONS: Final = "a third of the versions has the same in the gate, which compares with Java, too"


def pairs() -> list[Any]:
    load: dict[str, Callable[[int, int], type[Any]]] = {
        "request": load_request_schema,
        "response": load_response_schema,
    }
    return [
        pytest.param(
            Pair(codec, version, root_of(message, kind), load[kind](message.key, version)),
            id=codec.label.replace(" ", "-"),
        )
        for message in MESSAGES
        for kind in KINDS
        for version in common_versions(message)
        for codec in (codec_of(message, kind, version),)
    ]


def matched(ours: type, theirs: type[Any], version: int) -> list[tuple[str, dataclasses.Field[Any]]]:
    """Our fields' names and their fields, which they may have renamed: without `_ms`, for a duration."""
    names = [field.name for field in fields_of(ours) if version in field.versions]
    fields = dataclasses.fields(theirs)
    assert [plain(name).removesuffix("ms") for name in names] == [plain(f.name).removesuffix("ms") for f in fields]
    return list(zip(names, fields, strict=True))


def fit(value: Any, theirs: type[Any], version: int) -> None:
    """Change in our value what their types cannot hold."""
    for name, field in matched(type(value), theirs, version):
        found, inner = getattr(value, name), entity_in(field.type)
        if inner is not None:
            for each in found if isinstance(found, list) else [found]:
                if each is not None:
                    fit(each, inner, version)
        elif kafka_type(field) == "error_code":
            setattr(value, name, CODES[found % len(CODES)])
        elif kafka_type(field) == "timedelta_i64":
            setattr(value, name, found % FAR)
        elif kafka_type(field) == "datetime_i64":
            setattr(value, name, found % FAR if found >= 0 or not allows_none(field.type) else -1)


def to_theirs(value: Any, theirs: type[Any], version: int) -> Any:
    return theirs(
        **{
            field.name: item_to_theirs(getattr(value, name), field, version)
            for name, field in matched(type(value), theirs, version)
        }
    )


def item_to_theirs(value: Any, field: dataclasses.Field[Any], version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(item_to_theirs(item, field, version) for item in value)
    inner = entity_in(field.type)
    if inner is not None:
        return to_theirs(value, inner, version)
    match kafka_type(field):
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case "uuid":
            return None if value == ZERO_UUID else uuid.UUID(bytes=value)
        case _:
            return value


def entity_in(hint: Any) -> type[Any] | None:
    """The struct in a type such as `tuple[Topic, ...] | None`."""
    if dataclasses.is_dataclass(hint):
        return hint if isinstance(hint, type) else None
    return next(filter(None, map(entity_in, getattr(hint, "__args__", ()))), None)


def allows_none(hint: Any) -> bool:
    return type(None) in getattr(hint, "__args__", ())


def kafka_type(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata["kafka_type"])


def written_by_kio(value: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


@pytest.mark.parametrize("pair", share(pairs(), gate=90, why=OTHER_VERSIONS))
def test_both_write_the_same_bytes_and_read_the_same_value(pair: Pair) -> None:
    draw = Draw(seed=20_260_000 + pair.version)
    read = entity_reader(pair.theirs)
    for _ in range(VALUES):
        value = draw.struct(pair.ours, pair.version)
        fit(value, pair.theirs, pair.version)
        same = to_theirs(value, pair.theirs, pair.version)
        body = pair.codec.encode(value)

        assert body == written_by_kio(same)
        assert read(body, 0) == (same, len(body))
        assert pair.codec.decode(body) == value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_only_versions_removed_in_kafka_4_are_not_compared(message: Message[Any, Any]) -> None:
    gone = {
        "Produce": 3,
        "Fetch": 4,
        "ListOffsets": 1,
        "OffsetFetch": 1,
        "CreateTopics": 2,
        "DeleteTopics": 1,
        "DescribeConfigs": 1,
    }

    assert common_versions(message) == list(range(gone.get(message.name, 0), message.max_version + 1))

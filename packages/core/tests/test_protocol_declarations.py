"""Our declarations agree with Kafka's own schemas, and the catalogue has all of them."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs
import pytest
from golden import KINDS, plain, root_of, schemas

import ottla.protocol.messages
from ottla.protocol import Message
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.notation import (
    LATEST,
    ZERO_UUID,
    ArrayOf,
    Blob,
    Fixed,
    In,
    StructOf,
    Text,
    WireType,
    fields_of,
)

OF_KAFKA = "if Kafka has it now, take its schema into vectors/api_schemas.json, see vectors/README.md"

every_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)


def structs_below(root: type) -> Iterator[type]:
    yield root
    for field in fields_of(root):
        kind: WireType = field.type
        while isinstance(kind, ArrayOf):
            kind = kind.item
        if isinstance(kind, StructOf):
            yield from structs_below(kind.type)


def test_the_catalogue_has_each_declared_message_in_order_of_keys() -> None:
    modules = [
        importlib.import_module(f"{ottla.protocol.messages.__name__}.{found.name}")
        for found in pkgutil.iter_modules(ottla.protocol.messages.__path__)
    ]
    declared = [[found for found in vars(module).values() if isinstance(found, Message)] for module in modules]

    assert [len(found) for found in declared] == [1] * len(modules), "a module is one API"
    assert {id(found) for [found] in declared} == set(map(id, MESSAGES))
    assert [message.key for message in MESSAGES] == sorted({message.key for message in MESSAGES})


def test_a_producer_does_not_create_classes_of_messages_it_never_sends() -> None:
    program = "import sys, ottla.producer.build; print(*(name for name in sys.modules if '.messages.' in name))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    needed = {"api_versions", "init_producer_id", "metadata", "produce"}
    assert {name.rpartition(".")[2] for name in printed.stdout.split()} == needed


@every_message
def test_every_struct_has_slots_and_needs_no_init(message: Message[Any, Any]) -> None:
    for struct in {*structs_below(message.request_type), *structs_below(message.response_type)}:
        assert not hasattr(struct(), "__dict__")
        assert not hasattr(struct, "__attrs_post_init__")
        assert not any(attribute.converter or attribute.validator for attribute in attrs.fields(struct))


@every_message
def test_versions_are_those_of_kafka(message: Message[Any, Any]) -> None:
    schema = schemas()[message.name]

    assert message.key == schema["apiKey"]
    assert f"{message.min_version}-{message.max_version}" == schema["validVersions"], OF_KAFKA
    flexible = versions(schema["flexibleVersions"])
    assert message.flexible_from == (flexible and flexible.first)


@pytest.mark.parametrize("kind", KINDS)
@every_message
def test_every_field_is_declared_as_in_the_kafka_schema(message: Message[Any, Any], kind: str) -> None:
    everywhere = In(message.min_version, message.max_version)
    schema = schemas()[message.name][kind]

    ours, kafkas = list(declared(root_of(message, kind), everywhere)), list(described(schema, everywhere))

    assert [field for field in ours if field not in kafkas] == [], f"no such fields: {OF_KAFKA}"
    assert [field for field in kafkas if field not in ours] == [], "declare these fields in protocol/messages"
    assert ours == kafkas, "the order is that of the schema"


Facts: TypeAlias = tuple[int, str, str, range, range, int | None, bool, Any]
"""Depth, name, type, versions, those with null, tag, whether it may be dropped, default."""

LETTERS = {"?": "bool", "b": "int8", "h": "int16", "i": "int32", "q": "int64", "16s": "uuid"}
ZEROS = {"string": "", "bool": False, "uuid": ZERO_UUID, "bytes": b"", "records": None}


def declared(struct: type, within: In, depth: int = 0) -> Iterator[Facts]:
    """The facts of our declarations, fields of fields behind their field."""
    for field in fields_of(struct):
        there, null = common(field.versions, within), common(field.null, within)
        kind, type_name = field.type, ""
        if isinstance(kind, ArrayOf):
            kind, type_name = kind.item, "[]"
        inner = kind.type if isinstance(kind, StructOf) else None
        default = "struct" if inner and isinstance(field.default, inner) else field.default
        yield depth, plain(field.name), type_name + name_of(kind), there, null, field.tag, field.ignorable, default
        if inner:
            yield from declared(inner, In(there[0], there[-1]), depth + 1)


def described(fields: list[dict[str, Any]], within: In, depth: int = 0) -> Iterator[Facts]:
    """The facts of a schema in the same form. That a field is ignorable says nothing where no version lacks it."""
    for field in fields:
        there, null = (
            common(versions(field["versions"]), within),
            common(versions(field.get("nullableVersions")), within),
        )
        lacking = there != common(within, within)
        yield (
            depth,
            plain(field["name"]),
            "bytes" if field["type"] == "records" else field["type"],
            there,
            range(max(null.start, there.start), null.stop) if null else null,
            field.get("tag"),
            lacking and field.get("ignorable", False),
            default_of(field),
        )
        yield from described(field.get("fields", []), In(there[0], there[-1]), depth + 1)


def versions(text: str | None) -> In | None:
    """Versions as schemas write them: `3`, `3+`, `3-5`, or `none`."""
    if text is None or text == "none":
        return None
    first, _, last = text.partition("-")
    return In(int(first.rstrip("+")), LATEST if "+" in text else int(last or first))


def common(versions: In | None, within: In) -> range:
    if versions is None:
        return range(0)
    return range(max(versions.first, within.first), min(versions.last, within.last) + 1)


def name_of(kind: WireType) -> str:
    match kind:
        case Fixed(letter):
            return LETTERS[letter]
        case Text():
            return "string"
        case Blob():
            return "bytes"
        case StructOf(inner):
            return inner.__name__
        case ArrayOf():
            raise AssertionError("Kafka has no arrays of arrays")


def default_of(field: dict[str, Any]) -> Any:
    default, kind = field.get("default"), field["type"]
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if "fields" in field:
        return "struct"
    if kind == "bool":
        return str(default).lower() == "true"
    if kind.startswith("int"):
        return int(str(default or 0), 0)
    return ZEROS[kind] if default is None else default

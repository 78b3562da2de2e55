"""Java's class names as values: common ones stand for plugins, others raise an error that names the alternative."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.config.value_types import NAMES, ValueType, items, plugin_name
from ottla.config.values import brief

SERIALIZERS: Final = {
    "ByteArraySerializer": "bytes",
    "ByteBufferSerializer": "bytes",
    "BytesSerializer": "bytes",
    "StringSerializer": "string",
}
PARTITIONERS: Final = {"RoundRobinPartitioner": "round_robin", "RoundRobin": "round_robin"}

_REMOVED: Final = {
    "DefaultPartitioner": "leave partitioner.class out",
    "UniformStickyPartitioner": "leave partitioner.class out and set partitioner.ignore.keys=true",
}
_KAFKA: Final = "org.apache.kafka."
_CLASS: Final = re.compile(
    r"(?:[\w$]+\.)+[A-Z][\w$]*|[A-Z]\w+(?:Serializer|Partitioner|Reporter|Interceptor)|RoundRobin"
)


def partitioner() -> ValueType:
    """A plugin's name, or one of Java's partitioners."""
    allowed = "the name of a partitioner plugin"

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(
                f"{brief(raw)} is not {allowed}; "
                "register your own as an entry point of the group ottla.partitioners and write its name here"
            )
        removed = _counterpart(raw, _REMOVED)
        if removed is not None:
            raise ValueError(f"{brief(raw)} was removed in Kafka 4.0; {removed}")
        return _name(raw, PARTITIONERS, "write the name of a plugin of the group ottla.partitioners instead")

    return ValueType(allowed=allowed, parse=parse)


def serializer() -> ValueType:
    """A plugin's name, a callable, or one of Java's serializers."""
    allowed = "the name of a serializer plugin, or a function that returns bytes"
    remedy = 'write the name of a plugin of the group ottla.serializers instead, such as "string", or a function'

    def parse(raw: object) -> Any:
        if isinstance(raw, str):
            return _name(raw, SERIALIZERS, remedy)
        if callable(raw):
            return raw
        raise ValueError(f"{brief(raw)} is not {allowed}")

    return ValueType(allowed=allowed, parse=parse, annotation="str | Callable[..., Any]")


def interceptors() -> ValueType:
    """Names of plugins, in the order in which they process a record."""
    return _names("interceptor", "write the names of plugins of the group ottla.interceptors instead")


def reporters() -> ValueType:
    """Names of plugins; Java's only reporter needs a JVM."""
    jmx = "there is no JMX without Java; leave it out, or name a plugin of the group ottla.reporters"
    return _names(
        "reporter", "write the names of plugins of the group ottla.reporters instead", special={"JmxReporter": jmx}
    )


def _names(kind: str, remedy: str, *, special: Mapping[str, str] = MappingProxyType({})) -> ValueType:
    allowed = f"names of {kind} plugins, as a list or a string with commas"

    def parse(raw: object) -> tuple[str, ...]:
        names: list[str] = []
        problems: list[str] = []
        for item in items().parse(raw):
            if not isinstance(item, str):
                problems.append(f"{brief(item)} is not a plugin's name; {remedy}")
                continue
            known = _counterpart(item, special)
            if known is not None:
                problems.append(f"{brief(item)} is a Java class; {known}")
                continue
            try:
                names.append(_name(item, {}, remedy))
            except ValueError as error:
                problems += error.args
        problems += [f"{name!r} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1]
        if problems:
            raise ValueError(*problems)
        return tuple(names)

    return ValueType(allowed=allowed, parse=parse, annotation=NAMES)


def _name(raw: str, known: Mapping[str, str], remedy: str) -> str:
    counterpart = _counterpart(raw, known)
    if counterpart is not None:
        return counterpart
    if _CLASS.fullmatch(raw.strip()):
        raise ValueError(f"{brief(raw)} is a Java class, which Ottla cannot load; {remedy}")
    name: str = plugin_name().parse(raw)
    return name


def _counterpart(raw: str, known: Mapping[str, str]) -> str | None:
    package, _, name = raw.strip().rpartition(".")
    return known.get(name) if not package or raw.strip().startswith(_KAFKA) else None

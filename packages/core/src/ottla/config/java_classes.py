"""Java's class names as values: common ones stand for plugins, others raise an error that names the alternative."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.config.plugin_choice import GivenPlugin, PluginChoice, choice_of, is_data, name_of, parts
from ottla.config.value_types import ValueType
from ottla.config.values import brief

SERIALIZERS: Final = {
    "ByteArraySerializer": "bytes",
    "ByteBufferSerializer": "bytes",
    "BytesSerializer": "bytes",
    "StringSerializer": "string",
}
_OF_THE_REGISTRY: Final = {
    "KafkaAvroSerializer": "avro",
    "KafkaJsonSchemaSerializer": "json-schema",
    "KafkaProtobufSerializer": "protobuf",
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
    """A plugin, or the name of one of Java's partitioners."""
    allowed = "the name of a partitioner plugin, a partitioner, its class, or a function"

    def parse(raw: object) -> PluginChoice:
        if not isinstance(raw, str):
            return choice_of(raw, allowed)
        removed = _counterpart(raw, _REMOVED)
        if removed is not None:
            raise ValueError(f"{brief(raw)} was removed in Kafka 4.0; {removed}")
        return _name(raw, PARTITIONERS, "write the name of a plugin of the group ottla.partitioners instead")

    annotation = "PluginOf[Partitioner] | PartitionFunction"
    return ValueType(allowed=allowed, parse=parse, annotation=annotation, kind="partitioner")


def serializer() -> ValueType:
    """A plugin, a function, or the name of one of Java's serializers."""
    allowed = "the name of a serializer plugin, a function that returns bytes, a serializer, or its class"
    remedy = 'write the name of a plugin of the group ottla.serializers instead, such as "string", or a function'

    def parse(raw: object) -> PluginChoice:
        if not isinstance(raw, str):
            return choice_of(raw, allowed)
        plugin = _OF_THE_REGISTRY.get(raw.strip().rpartition(".")[2])
        if plugin is None:
            return _name(raw, SERIALIZERS, remedy)
        raise ValueError(f"{brief(raw)} is a Java class; write {plugin!r}, of ottla-serializer-schema-registry")

    annotation = "PluginOf[Serializer] | Callable[[Any], bytes | None]"
    return ValueType(allowed=allowed, parse=parse, annotation=annotation, kind="serializer")


def interceptors() -> ValueType:
    """Plugins, in the order in which they process a record."""
    return _plugins(
        "interceptor",
        "write the names of plugins of the group ottla.interceptors instead",
        annotation="PluginsOf[Interceptor]",
    )


def reporters() -> ValueType:
    """Plugins; Java's only reporter needs a JVM."""
    jmx = "there is no JMX without Java; leave it out, or name a plugin of the group ottla.reporters"
    return _plugins(
        "reporter",
        "write the names of plugins of the group ottla.reporters instead",
        annotation="PluginsOf[MetricsReporter]",
        special={"JmxReporter": jmx},
    )


def _plugins(
    kind: str, remedy: str, *, annotation: str, special: Mapping[str, str] = MappingProxyType({})
) -> ValueType:
    allowed = f"names of {kind} plugins, as a list or a string with commas; an item may also be a Python object"

    def parse(raw: object) -> tuple[PluginChoice, ...]:
        names: list[PluginChoice] = []
        problems: list[str] = []
        for item in parts(raw):
            if not isinstance(item, str):
                if is_data(item):
                    problems.append(f"{brief(item)} is not a plugin's name; {remedy}")
                else:
                    names.append(GivenPlugin(item))
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

    return ValueType(allowed=allowed, parse=parse, annotation=annotation, kind=kind)


def _name(raw: str, known: Mapping[str, str], remedy: str) -> str:
    counterpart = _counterpart(raw, known)
    if counterpart is not None:
        return counterpart
    if _CLASS.fullmatch(raw.strip()):
        raise ValueError(f"{brief(raw)} is the name of a class, and Ottla loads none by its name; {remedy}")
    return name_of(raw)


def _counterpart(raw: str, known: Mapping[str, str]) -> str | None:
    package, _, name = raw.strip().rpartition(".")
    return known.get(name) if not package or raw.strip().startswith(_KAFKA) else None

"""Settings of other clients whose values mean something else here: units, switches, and names of partitioners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ottla.config.value_types import INT_MAX

Convert: TypeAlias = Callable[[object, Mapping[str, object]], tuple[Mapping[str, str], str]]
"""Takes a value and all values by dotted key; returns the settings in its place, and a remark."""


class TranslationError(ValueError):
    """Why a setting has no translation."""


def _kilobytes(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    text = str(value).strip()
    if not text.isdecimal():
        raise TranslationError("it is not a whole number")
    return {"buffer.memory": str(int(text) * 1024)}, "buffer.memory is in bytes"


def _record_timeout(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    if str(value).strip() == "0":
        return {"delivery.timeout.ms": str(INT_MAX)}, "0 is no limit in librdkafka; this is the longest time, 25 days"
    return {"delivery.timeout.ms": str(value)}, "it is called delivery.timeout.ms here"


def _left_out(remark: str) -> Convert:
    return lambda _value, _values: ({}, remark)


def _switch(value: object) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "t", "1"):
        return True
    if text in ("false", "f", "0"):
        return False
    raise TranslationError("it is neither true nor false")


def _verification(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    if _switch(value):
        return {}, "certificates are always verified"
    raise TranslationError("certificates are always verified; ssl.truststore.location names the authorities")


def _host_names(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    if _switch(value):
        return {}, "host names are verified by default"
    return {"ssl.endpoint.identification.algorithm": ""}, "empty: host names are not verified"


def _algorithm(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    if str(value).strip().lower() == "none":  # librdkafka's word for it
        return {"ssl.endpoint.identification.algorithm": ""}, "empty: host names are not verified"
    return {"ssl.endpoint.identification.algorithm": str(value)}, ""


def _compression(value: object, values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    codec = str(value).strip().lower()
    if codec not in _CODECS_OF_EXTRAS:
        return {
            "compression.type": str(value)
        }, "" if "compression.type" in values else "it is called compression.type here"
    return {"compression.type": str(value)}, f'{codec} needs an extra: pip install "ottla[{codec}]"'


def _level(value: object, values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    codec = str(values.get("compression.codec", values.get("compression.type", "none"))).strip().lower()
    if str(value).strip() == "-1":
        return {}, "-1 is the codec's default"
    if codec == "none":
        return {}, "there is no compression"
    if codec == "snappy":
        return {}, "snappy has no levels"
    return {f"compression.{codec}.level": str(value)}, f"the level of {codec}"


def _certificate(value: object, values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    """A file of a certificate or its key: one PEM file is both here."""
    files = {str(values[key]) for key in _CERTIFICATE_FILES if values.get(key) is not None}
    if len(files) > 1:
        raise TranslationError(
            "one PEM file has the certificates and the key here: join both files, and name it in ssl.keystore.location"
        )
    return {"ssl.keystore.location": str(value)}, "the file must have the certificates and the key, as PEM"


def _authorities(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    return {"ssl.truststore.location": str(value)}, "it is called ssl.truststore.location here"


def _store_type(key: str) -> Convert:
    def convert(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
        if str(value).strip().upper() == "JKS":
            raise TranslationError("JKS files cannot be read; convert it with `keytool -importkeystore` to PKCS12")
        return {key: str(value)}, ""

    return convert


def _partitioner(value: object, _values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    name = str(value).strip()
    if name in _SAME_PARTITIONERS:
        return {"partitioner.class": name}, "each key stays in its partition"
    if name == "murmur2":
        return {"partitioner.class": "murmur2"}, "keys stay; records without a key are not all in one partition"
    if name == "random":
        return {"partitioner.ignore.keys": "true"}, "one partition until it has batch.size bytes"
    raise TranslationError("it is not a partitioner of librdkafka; plugins are named in partitioner.class")


_SAME_PARTITIONERS: Final = frozenset({"consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2_random"})
_CODECS_OF_EXTRAS: Final = frozenset({"lz4", "snappy", "zstd"})
_CERTIFICATE_FILES: Final = (
    "ssl.certificate.location",
    "ssl.certfile",
    "ssl.key.location",
    "ssl.keyfile",
)

_SYSTEMS_BUFFER: Final[tuple[Mapping[str, str], str]] = (
    {},
    "0 is the system's size in librdkafka, which is the default here",
)

LIBRDKAFKA_VALUES: Final[Mapping[tuple[str, str], tuple[Mapping[str, str], str]]] = {
    ("compression.codec", "inherit"): ({}, "compression.type of the producer counts"),
    ("compression.type", "inherit"): ({}, "compression.type of the producer counts"),
    ("connections.max.idle.ms", "0"): ({"connections.max.idle.ms": "-1"}, "0 is never in librdkafka"),
    ("socket.receive.buffer.bytes", "0"): _SYSTEMS_BUFFER,
    ("socket.send.buffer.bytes", "0"): _SYSTEMS_BUFFER,
    ("ssl.ca.location", "probe"): ({}, "without ssl.truststore.location the system's authorities count"),
    ("topic.metadata.refresh.interval.ms", "-1"): (
        {"metadata.max.age.ms": str(INT_MAX)},
        "-1 is never in librdkafka; this is the longest time, 25 days",
    ),
}
"""Keys with values of a meaning of their own in librdkafka, and what takes their place, with a remark."""

CONVERSIONS: Final[Mapping[str, Convert]] = {
    "batch.num.messages": _left_out("batches are limited by bytes only: batch.size"),
    "compression.codec": _compression,
    "compression.level": _level,
    "compression.type": _compression,
    "enable.ssl.certificate.verification": _verification,
    "message.timeout.ms": _record_timeout,
    "partitioner": _partitioner,
    "queue.buffering.max.kbytes": _kilobytes,
    "queue.buffering.max.messages": _left_out("records are not counted; buffer.memory limits their bytes"),
    "ssl.ca.location": _authorities,
    "ssl.cafile": _authorities,
    "ssl.check.hostname": _host_names,
    "ssl.endpoint.identification.algorithm": _algorithm,
    "ssl.keystore.type": _store_type("ssl.keystore.type"),
    "ssl.truststore.type": _store_type("ssl.truststore.type"),
    **dict.fromkeys(_CERTIFICATE_FILES, _certificate),
}

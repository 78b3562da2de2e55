"""Names of keys: Kafka's dotted names, Python's keywords, and suggestions for unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.errors.secret import revealed

_OTHER_CLIENTS: Final = {
    "compression.codec": "compression.type",
    "compression.level": "compression.<type>.level",
    "max.batch.size": "batch.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "partitioner": "partitioner.class",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.plain.password": "sasl.password",
    "sasl.plain.username": "sasl.username",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.cafile": "ssl.truststore.location",
}
"""Keys of librdkafka, kafka-python or aiokafka, with Kafka's names for them."""


def merge(settings: Mapping[str, object], keywords: Mapping[str, object], *, problems: list[str]) -> dict[str, object]:
    """Merge both spellings into one mapping with dotted names. As in Java, a key with the value None is not set."""
    merged: dict[str, object] = {}
    if not isinstance(settings, Mapping):
        problems.append(
            f"the settings must be a mapping with Kafka's names, not {type(revealed(settings)).__name__}; or use "
            "keywords such as bootstrap_servers='localhost:9092'"
        )
        settings = {}
    for name, value in settings.items():
        if isinstance(name, str):
            merged[name] = value
        else:
            problems.append(f"{name!r} is not a key; keys are strings such as 'linger.ms'")
    for keyword, value in keywords.items():
        key = keyword.replace("_", ".")
        if merged.get(key) is None:
            merged[key] = value
        elif value is not None:
            problems.append(f"{key} is given twice, as {key!r} and as {keyword}=...; leave one out")
    return merged


def unknown(key: str, *, known: Iterable[str]) -> str:
    """The message about an unknown key; it suggests the most similar known key."""
    dotted = key.strip().lower().replace("_", ".").replace("-", ".")
    names = sorted(known)
    matches = difflib.get_close_matches(dotted, names, n=1, cutoff=0.6)
    meant = _OTHER_CLIENTS.get(dotted) or (matches[0] if matches else None)
    hint = f"did you mean {meant!r}?" if meant else "neither Kafka nor a plugin that the configuration chooses has it"
    return f"{key!r} is not a known key; {hint}"

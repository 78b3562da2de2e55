"""Options that make no sense in a write, with reasons: of Spark's Kafka source, of consumers, and of Java's classes."""

from __future__ import annotations

from typing import Final

_READING: Final = (
    'it is for reading from Kafka, but Ottla only writes; leave it out, and read with Spark\'s format("kafka")'
)
_SOURCE: Final = frozenset(
    {
        "assign",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
        "failondataloss",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "maxoffsetspertrigger",
        "maxrecordsperpartition",
        "maxtriggerdelay",
        "minoffsetspertrigger",
        "minpartitions",
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "startingtimestamp",
        "subscribe",
        "subscribepattern",
    }
)
_CONSUMER: Final = frozenset(
    {
        "auto.offset.reset",
        "check.crcs",
        "enable.auto.commit",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)
_SERIALIZED: Final = (
    "the bytes of column {!r} are sent as they are; serialize with DataFrame functions and leave the option out"
)
_TRANSACTIONAL_ID: Final = (
    "Spark runs tasks in parallel and repeats them, but one id belongs to one producer; leave it out, and for a stream "
    "set guarantee=exactly-once and transactional.id.prefix"
)

_PROVIDERS: Final = (
    "it would show files and environment variables of the cluster's machines to the author of the options; give the "
    "value itself, which Spark does not show, but for some of the options of SQL and of tables (docs/spark.md)"
)


def reason_against(name: str) -> str | None:
    """Return why the option of this name, in lower case, is refused, or None."""
    if name in _SOURCE or name.startswith("kafkaconsumer."):
        return _READING
    match name.removeprefix("kafka.") if name.startswith("kafka.") else "":
        case "key.serializer" | "value.serializer" as setting:
            return _SERIALIZED.format(setting.partition(".")[0])
        case "transactional.id":
            return _TRANSACTIONAL_ID
        case setting if setting == "config.providers" or setting.startswith("config.providers."):
            return _PROVIDERS
        case setting if setting in _CONSUMER:
            return "it is a setting of consumers, but Ottla only writes; leave it out"
    return None

"""The options of a write: a few of the sink's own, and the producer's settings with the prefix `kafka.`.

The driver parses them, where Spark passes all keys in lower case; the tasks get the checked values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.config import as_written, describe
from ottla.config.plugin_choice import GivenPlugin, is_data
from ottla.errors import printable
from ottla.errors.secret import revealed
from ottla.producer.record_checks import TOPIC_NAME
from ottla_spark.options.formats import KEY_FORMAT, VALUE_FORMAT, read_formats
from ottla_spark.options.producer_settings import problems_of
from ottla_spark.options.refused import reason_against
from ottla_spark.options.write_options import DEFAULT_IDLE_MS, ErrorTolerance, Guarantee, WriteOptions

PREFIX: Final = "kafka."

TOPIC: Final = "topic"
GUARANTEE: Final = "guarantee"
ERRORS_TOLERANCE: Final = "errors.tolerance"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
IDLE_MS: Final = "producer.idle.ms"
REPORT: Final = "report"
TRACEPARENT: Final = "traceparent"

EXACTLY_ONCE: Final = (
    "transactional.id.prefix",
    "ledger.topic",
    "ledger.shared",
    "ledger.earlier.topic",
    "ledger.replication.factor",
    "two.phase.commit",
)
"""Options of guarantee=exactly-once, passed on as they were written."""

SPARK_OPTIONS: Final = (
    "path",
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "includeHeaders",
)
"""Options that Spark itself reads, or that its own sink ignores, such as includeHeaders."""

OWN: Final = {
    name.lower(): name
    for name in (
        TOPIC,
        GUARANTEE,
        VALUE_FORMAT,
        KEY_FORMAT,
        ERRORS_TOLERANCE,
        DEAD_LETTER_TOPIC,
        IDLE_MS,
        REPORT,
        TRACEPARENT,
        *EXACTLY_ONCE,
        *SPARK_OPTIONS,
    )
}
"""The keys of options as users write them, by the keys in lower case that Spark passes."""

MAX_IDLE_MS: Final = 2**31 - 1
"""25 days, which every platform accepts as a thread's time-out."""

VALID_TRACEPARENT: Final = re.compile("[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A context as in W3C's Trace Context: version, trace, span and flags."""

_BOOLEANS: Final = {"true": True, "false": False}


def read_options(options: Mapping[str, str], *, problems: list[str]) -> WriteOptions:
    """Parse the options, and add all problems to *problems*."""
    settings: dict[str, str] = {}
    own: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if (reason := reason_against(name)) is not None:
            problems.append(f"option {key} cannot be set: {reason}")
        elif name.startswith(PREFIX) and (bare := OWN.get(name.removeprefix(PREFIX))) is not None:
            problems.append(f"option {key} is not the producer's but the sink's own; write it as {bare!r}")
        elif name.startswith(PREFIX):
            settings[name.removeprefix(PREFIX)] = value
        elif name in OWN:
            own[name] = value.strip()
        else:
            others[name] = value
    formats, known = read_formats(own, others, problems)
    problems += [_unknown(key) for key in others if key not in known]
    problems += [f"in the kafka.* options, {problem}" for problem in problems_of(settings)]
    guarantee = _guarantee(own, problems)
    return WriteOptions(
        topic=_topic(own, problems),
        producer=as_written(settings),
        guarantee=guarantee,
        formats=formats,
        tolerance=_tolerance(own, problems),
        idle=_idle(own, problems),
        report=_report(own, problems),
        trace=_trace(own, problems),
        exactly_once=_exactly_once(own, guarantee, problems),
    )


def not_for_batches(options: WriteOptions) -> list[str]:
    """Return the problem of a guarantee that a batch write cannot give, if any."""
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        return []
    return [
        f"option guarantee={options.guarantee.value} is for streams, whose micro-batches have numbers; leave it out to "
        "write a batch at least once, or write it exactly once with ottla_spark.write_once. In a function of "
        "foreachBatch, call the one that ottla_spark.foreach_batch(options) returns, with the frame and the batch id"
    ]


def read_hidden(options: Mapping[str, Any], *, problems: list[str]) -> WriteOptions:
    """Parse options that `hide_settings` has hidden, and add all problems to *problems*."""
    problems += [f"option {key} is None; give it a value, or leave it out" for key in options if options[key] is None]
    given = {key: value for key, value in options.items() if value is not None}
    for key in [key for key, value in given.items() if not is_data(revealed(value))]:
        problems.append(
            f"option {key} is the object {GivenPlugin(revealed(given.pop(key)))}; the options reach the tasks as text, "
            "so register such a plugin as an entry point of a package on all machines, and write its name"
        )
    return read_options({key: _text(revealed(value)) for key, value in given.items()}, problems=problems)


def _text(value: Any) -> str:
    """Return a value as Spark's `option` passes it on; a list, which a producer takes, as text with commas."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topic(own: Mapping[str, str], problems: list[str]) -> str | None:
    topic = own.get(TOPIC)
    if topic == "":
        problems.append("option topic is empty; name a topic, or leave it out and add a column 'topic'")
    elif topic is not None:
        _check_name(TOPIC, topic, problems)
    return topic


def _check_name(key: str, topic: str, problems: list[str]) -> None:
    if not TOPIC_NAME.fullmatch(topic):
        problems.append(
            f"option {key}={topic!r} is not a topic name: a name has 1 to 249 characters of a-z, A-Z, 0-9, "
            "'.', '_' and '-', and is not '.' or '..'"
        )


def _tolerance(own: Mapping[str, str], problems: list[str]) -> ErrorTolerance | None:
    written, topic = own.get(ERRORS_TOLERANCE, "none"), own.get(DEAD_LETTER_TOPIC)
    if written.lower() not in ("none", "all"):
        problems.append(f"option {ERRORS_TOLERANCE}={written!r} is neither none nor all")
    if topic is not None:
        _check_name(DEAD_LETTER_TOPIC, topic, problems)
        if written.lower() == "none":
            problems.append(
                f"option {DEAD_LETTER_TOPIC} has no effect while a row that cannot be sent fails its task; set "
                f"{ERRORS_TOLERANCE}=all too, or leave it out"
            )
        if topic == own.get(TOPIC):
            problems.append(f"option {DEAD_LETTER_TOPIC}={topic!r} is the topic of the rows; name another one")
    return ErrorTolerance(dead_letter_topic=topic) if written.lower() == "all" else None


def _guarantee(own: Mapping[str, str], problems: list[str]) -> Guarantee:
    written = own.get(GUARANTEE, Guarantee.AT_LEAST_ONCE.value).lower()
    try:
        return Guarantee(written)
    except ValueError:
        allowed = " or ".join(each.value for each in Guarantee)
        problems.append(f"option guarantee={written!r} is not known; it must be {allowed}")
        return Guarantee.AT_LEAST_ONCE


def _exactly_once(own: Mapping[str, str], guarantee: Guarantee, problems: list[str]) -> Mapping[str, str]:
    found = {key: own[key] for key in EXACTLY_ONCE if key in own}
    if found and guarantee is not Guarantee.EXACTLY_ONCE:
        problems.append(f"option {', '.join(found)} is for guarantee=exactly-once; set that too, or leave it out")
    return found


def _idle(own: Mapping[str, str], problems: list[str]) -> float:
    written = own.get(IDLE_MS, str(DEFAULT_IDLE_MS))
    if not re.fullmatch("[0-9]{1,10}", written) or int(written) > MAX_IDLE_MS:
        problems.append(f"option producer.idle.ms={written!r} is not a number of milliseconds from 0 to {MAX_IDLE_MS}")
        return DEFAULT_IDLE_MS / 1000
    return int(written) / 1000


def _report(own: Mapping[str, str], problems: list[str]) -> bool:
    return boolean(own, REPORT, problems)


def _trace(own: Mapping[str, str], problems: list[str]) -> Mapping[str, str]:
    written = own.get(TRACEPARENT)
    if written is None:
        return {}
    if not VALID_TRACEPARENT.fullmatch(written):
        problems.append(
            f"option {TRACEPARENT}={printable(written)!r} is not a context as in W3C's Trace Context, "
            "such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        )
    return {TRACEPARENT: written}


def boolean(given: Mapping[str, str], key: str, problems: list[str]) -> bool:
    """Return whether an option is set to true; an option that is left out is false."""
    written = given.get(key, "false")
    if written.lower() not in _BOOLEANS:
        problems.append(f"option {key}={written!r} is neither true nor false")
    return _BOOLEANS.get(written.lower(), False)


def _unknown(key: str) -> str:
    names = OWN | {row.key: PREFIX + row.key for row in describe()}
    if key.startswith(("schema.registry.", "value.schema", "key.schema")):
        return f"option {key!r} is read only with value.format=avro, json-schema or protobuf, or key.format; set that"
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]!r}?" if near else "the producer's own options begin with 'kafka.'"
    return f"option {key!r} is not known; {hint}"

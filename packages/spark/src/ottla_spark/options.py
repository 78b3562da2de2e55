"""The options of a write: the sink's own few, and the producer's behind `kafka.`.

Read on the driver, where Spark hands over all keys in lower case; the tasks get what was found good.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import Enum
from typing import Final

import attrs

from ottla.config import PluginValues, describe
from ottla_spark.producer_settings import problems_of, with_defaults

PREFIX: Final = "kafka."

GUARANTEE: Final = "guarantee"

EXACTLY_ONCE: Final = {
    "transactional.id.prefix": "transactional.id.prefix",
    "ledger.topic": "ledger.topic",
    "ledger.replication.factor": "ledger.replication.factor",
}
"""What belongs to guarantee=exactly-once; handed over as it was written."""

SPARKS: Final = {
    "path": "path",
    "checkpointlocation": "checkpointLocation",
    "asyncprogresstrackingenabled": "asyncProgressTrackingEnabled",
    "asyncprogresstrackingcheckpointintervalms": "asyncProgressTrackingCheckpointIntervalMs",
    "includeheaders": "includeHeaders",
}
"""What Spark itself reads, or, as includeHeaders, its own sink takes without effect."""

OWN: Final = {"topic": "topic", GUARANTEE: GUARANTEE, **EXACTLY_ONCE, **SPARKS}
"""Keys as Spark hands them over, and as people write them."""

SERIALIZERS: Final = ("key.serializer", "value.serializer")
TRANSACTIONAL_ID: Final = "transactional.id"


class Guarantee(Enum):
    """What a reader may rely on."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@attrs.frozen(kw_only=True)
class WriteOptions:
    """What the tasks need. `topic` None: each row names its own. A repr shows no secrets.

    `exactly_once` has those of the options of that guarantee that were set.
    """

    topic: str | None
    producer: PluginValues
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    idle: float = 300.0
    exactly_once: Mapping[str, str] = attrs.field(factory=dict)


def read_options(options: Mapping[str, str], *, problems: list[str]) -> WriteOptions:
    """The options, with everything that is wrong with them added to *problems*."""
    settings: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(PREFIX):
            settings[name.removeprefix(PREFIX)] = value
        elif name not in OWN:
            problems.append(_unknown(key))
    producer = with_defaults(_without_what_is_ours(settings, problems))
    problems += [f"in the kafka.* options, {problem}" for problem in problems_of(producer)]
    own = {key.lower(): value for key, value in options.items() if key.lower() in OWN}
    guarantee = _guarantee(own, problems)
    return WriteOptions(
        topic=_topic(own, problems),
        producer=producer,
        guarantee=guarantee,
        exactly_once=_exactly_once(own, guarantee, problems),
    )


def _guarantee(own: Mapping[str, str], problems: list[str]) -> Guarantee:
    written = own.get(GUARANTEE, Guarantee.AT_LEAST_ONCE.value).strip().lower()
    try:
        return Guarantee(written)
    except ValueError:
        allowed = " or ".join(each.value for each in Guarantee)
        problems.append(f"option guarantee={written!r} is not known; it is {allowed}")
        return Guarantee.AT_LEAST_ONCE


def _exactly_once(own: Mapping[str, str], guarantee: Guarantee, problems: list[str]) -> Mapping[str, str]:
    found = {key: own[key].strip() for key in EXACTLY_ONCE if key in own}
    if found and guarantee is not Guarantee.EXACTLY_ONCE:
        problems.append(f"option {', '.join(found)} is for guarantee=exactly-once; set that too, or leave it out")
    return found


def _topic(own: Mapping[str, str], problems: list[str]) -> str | None:
    if "topic" not in own:
        return None
    topic = own["topic"].strip()
    if not topic:
        problems.append("option topic is empty; name a topic, or leave it out and have a column 'topic'")
    return topic


def _without_what_is_ours(settings: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    for name in SERIALIZERS:
        if name in settings:
            column = name.partition(".")[0]
            problems.append(
                f"option kafka.{name} cannot be set: the bytes of column {column!r} are sent as they are; "
                "serialize with DataFrame functions and leave the option out"
            )
    if TRANSACTIONAL_ID in settings:
        problems.append(
            f"option kafka.{TRANSACTIONAL_ID} cannot be set: tasks run at the same time and again, and one id belongs "
            "to one producer; leave it out, and for a stream set guarantee=exactly-once and transactional.id.prefix"
        )
    return {name: value for name, value in settings.items() if name not in (*SERIALIZERS, TRANSACTIONAL_ID)}


def _unknown(key: str) -> str:
    names = OWN | {row.key: PREFIX + row.key for row in describe()}
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]!r}?" if near else "the producer's own options begin with 'kafka.'"
    return f"option {key!r} is not known; {hint}"

"""The options of a write: the sink's own few, and the producer's behind `kafka.`.

Read on the driver, where Spark hands over all keys in lower case; the tasks get what was found good.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

import attrs

from ottla.config import PluginValues, describe
from ottla_spark.producer_settings import problems_of, with_defaults

PREFIX: Final = "kafka."

OWN: Final = {"topic": "topic", "includeheaders": "includeHeaders", "path": "path"}
"""Keys as Spark hands them over, and as people write them. Only `topic` does anything: Spark's sink takes
includeHeaders and has no use for it either, and `path` is what somebody said in `save(...)`."""

SERIALIZERS: Final = ("key.serializer", "value.serializer")
TRANSACTIONAL_ID: Final = "transactional.id"


@attrs.frozen(kw_only=True)
class WriteOptions:
    """What the tasks need. `topic` None: each row names its own. A repr shows no secrets."""

    topic: str | None
    producer: PluginValues


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
    return WriteOptions(topic=_topic(options, problems), producer=producer)


def _topic(options: Mapping[str, str], problems: list[str]) -> str | None:
    written = next((value for key, value in options.items() if key.lower() == "topic"), None)
    if written is None:
        return None
    topic = written.strip()
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
            "to one producer; leave it out, the rows of a job are written at least once"
        )
    return {name: value for name, value in settings.items() if name not in (*SERIALIZERS, TRANSACTIONAL_ID)}


def _unknown(key: str) -> str:
    names = OWN | {row.key: PREFIX + row.key for row in describe()}
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]!r}?" if near else "the producer's own options begin with 'kafka.'"
    return f"option {key!r} is not known; {hint}"

"""The parsed options of a write, as the tasks get them. Spark's processes import this module without the parser."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

import attrs

from ottla import __version__
from ottla.config import PluginValues
from ottla_spark.errors import WriteError
from ottla_spark.options.column_formats import Formats

DEFAULT_IDLE_MS: Final = 300_000

GivenOptions: TypeAlias = Mapping[str, str | int | float | bool | Sequence[str]]
"""Options as programs write them: of the types that Spark's `option` takes, and lists, which a producer takes."""


class Guarantee(Enum):
    """The delivery guarantee of a write."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@attrs.frozen(kw_only=True)
class ErrorTolerance:
    """`errors.tolerance=all`: rows that cannot be sent do not fail their task.

    `dead_letter_topic` gets a record for each of them. If it is None, they are skipped.
    """

    dead_letter_topic: str | None = None


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The parsed options, for the tasks. `topic` None: each row names its own. A repr shows no secrets.

    `idle`: for how many seconds a producer waits for its next task. `exactly_once` holds the options of that guarantee
    that were set. `tolerance` None: a row that cannot be sent fails its task. `trace`: the context of the write's span,
    for `worker.traces`. `version` is that of the driver's packages.
    """

    topic: str | None
    producer: PluginValues
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    formats: Formats = attrs.field(factory=Formats)
    tolerance: ErrorTolerance | None = None
    idle: float = DEFAULT_IDLE_MS / 1000
    report: bool = False
    trace: Mapping[str, str] = attrs.field(factory=dict)
    exactly_once: Mapping[str, str] = attrs.field(factory=dict)
    version: str = attrs.field(default=__version__, eq=False, repr=False)

    def check_version(self) -> None:
        """Raise WriteError, in a task, if the driver has other packages than this Python.

        Their options may be others, and a task ignores those that its own version lacks.
        """
        of_driver = getattr(self, "version", "of an earlier version")  # which pickled the options without it
        if of_driver != __version__:
            raise WriteError(
                f"the driver has Ottla {of_driver}, but the Python of this task, {sys.executable}, has {__version__}: "
                "install the same version of the packages on the driver and on all executors"
            )

    @property
    def encoder(self) -> str | None:
        """The name of the record encoder, if it is set."""
        return self.producer.get("record.encoder")

"""The options of exactly-once, parsed and checked: prefix, ledger topic, and transaction timeout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import PluginValues, as_written
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.ledger.topic import LedgerTopic, own_topic
from ottla_spark.options.known_defaults import TRANSACTION_TIMEOUT
from ottla_spark.options.options import GUARANTEE, boolean, read_hidden
from ottla_spark.options.producer_settings import problems_of
from ottla_spark.options.shipped_files import with_shipped_files
from ottla_spark.options.write_options import Guarantee, WriteOptions

PREFIX: Final = "transactional.id.prefix"
TOPIC: Final = "ledger.topic"
REPLICATION: Final = "ledger.replication.factor"
SHARED: Final = "ledger.shared"
EARLIER: Final = "ledger.earlier.topic"
TWO_PHASE: Final = "two.phase.commit"

EARLIER_TOPIC: Final = "ottla-exactly-once"
"""Topic in which earlier versions kept the entries of all prefixes, unless the options named another one."""

SHARED_PARTITIONS: Final = 8

_CORES_TWO_PHASE: Final = "transaction.two.phase.commit.enable"

_QUICK: Final = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "1000"}
"""Defaults for requests without records: coordinators are often busy when transactions end one after another."""


@attrs.frozen(kw_only=True)
class Settings:
    """Settings that planner, tasks and commit share. `producer` lacks the settings of a single transaction.

    `shared`: other prefixes may write to the ledger topic, too. `earlier` is the topic in which entries of an earlier
    version may be, "" for none. `count_all_writers`: entries of all writers count. `timeout_ms` None: the longest
    that the brokers allow. With `two_phase` there is no time-out at all (KIP-939).
    """

    name: str
    topic: LedgerTopic
    producer: PluginValues
    timeout_ms: int | None
    two_phase: bool = False
    shared: bool = False
    earlier: str = ""
    count_all_writers: bool = False

    @property
    def connection(self) -> PluginValues:
        """Settings for connections like those of the tasks' producers, with the files that Spark distributed."""
        return with_shipped_files({**_QUICK, **self.producer})

    def for_task(self, transactional_id: str, *, timeout_ms: int) -> PluginValues:
        """Return the settings of the producer with this id."""
        lasting = {_CORES_TWO_PHASE: "true"} if self.two_phase else {TRANSACTION_TIMEOUT: str(timeout_ms)}
        return as_written({**self.producer, "transactional.id": transactional_id, **lasting})


def read_with_guarantee(
    options: Mapping[str, Any], *, job: str | None = None, problems: Sequence[str] = ()
) -> tuple[WriteOptions, Settings]:
    """Parse options that `hide_settings` has hidden, of a function that needs no guarantee but refuses another one.

    Raises InvalidWriteError with their problems and those found before.
    """
    problems = list(problems)
    found = read_hidden({GUARANTEE: Guarantee.EXACTLY_ONCE.value, **options}, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return found, read_settings(found, job=job)


def read_settings(options: WriteOptions, *, job: str | None = None) -> Settings:
    """Parse the settings of a query, or of one job under a prefix. Raises InvalidWriteError with all problems."""
    problems: list[str] = []
    given = options.exactly_once
    prefix = given.get(PREFIX, "")
    if not prefix:
        problems.append(
            f"guarantee=exactly-once needs the option {PREFIX}: a word that no other query or job uses, and that "
            "stays the same over restarts"
        )
    two_phase = boolean(given, TWO_PHASE, problems)
    if two_phase and TRANSACTION_TIMEOUT in options.producer:
        problems.append(
            f"{TWO_PHASE}=true and kafka.{TRANSACTION_TIMEOUT}: such transactions have no time-out; leave one of them "
            "out"
        )
    name = prefix if job is None else f"{prefix}/job/{job}"
    topic = given.get(TOPIC)
    shared = boolean(given, SHARED, problems) if SHARED in given else bool(topic)
    if shared and not topic:
        problems.append(f"{SHARED}=true needs the option {TOPIC}, the name of the shared topic")
    earlier = given.get(EARLIER, "" if topic else EARLIER_TOPIC)
    settings = Settings(
        name=name,
        topic=LedgerTopic(
            name=topic or own_topic(prefix),
            partitions=SHARED_PARTITIONS if shared else 1,
            replication=_number(given, REPLICATION, problems, usual=-1),
        ),
        producer=as_written({key: options.producer[key] for key in options.producer if key != TRANSACTION_TIMEOUT}),
        timeout_ms=_number(options.producer, TRANSACTION_TIMEOUT, problems, usual=0) or None,
        two_phase=two_phase,
        shared=shared,
        earlier=earlier if earlier != topic else "",
    )
    # Without a prefix there is an error already: an empty id would only add one about a key that was not written.
    of_a_task = settings.for_task(name or PREFIX, timeout_ms=60_000)
    problems += [f"with guarantee=exactly-once, {problem}" for problem in problems_of(of_a_task)]
    if problems:
        raise InvalidWriteError(problems)
    return settings


def _number(given: Mapping[str, object], key: str, problems: list[str], *, usual: int) -> int:
    if key not in given:
        return usual
    try:
        number = int(str(given[key]))
    except ValueError:
        number = 0
    if number < 1:
        problems.append(f"option {key}={given[key]!r} is not a positive integer")
    return number

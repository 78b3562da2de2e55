"""Translation of another client's configuration, one setting at a time, with a remark for what is not the same.

What changes without an error comes first, above all another default partitioner. Values are checked by their settings'
types, and together by the core's rules; plugins check their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from typing import Any, Final

import attrs

from ottla.config.config_def import OPTIONS
from ottla.config.draft import ConfigDraft
from ottla.config.java_keys import JAVA_KEYS
from ottla.config.key_names import KEYS_OF_OWN_PLUGINS, dotted, of_another_client, unknown
from ottla.config.producer_config import Idempotence
from ottla.config.refused_keys import REFUSED
from ottla.config.translated_values import CONVERSIONS, LIBRDKAFKA_VALUES, TranslationError
from ottla.errors.secret import revealed

SPARK_PREFIX: Final = "kafka."
_SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "path", "topic"})
_KNOWN: Final = frozenset(OPTIONS) | JAVA_KEYS | KEYS_OF_OWN_PLUGINS
_WITHOUT_EFFECT: Final = JAVA_KEYS - OPTIONS.keys()
_SET_BY_SPARK: Final = frozenset({"key.serializer", "value.serializer", "transactional.id"})


class Client(StrEnum):
    """A client whose configuration can be translated."""

    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    JAVA = "java"
    SPARK = "spark"


class Outcome(StrEnum):
    """What became of a setting."""

    KEPT = "kept"
    CHANGED = "changed"
    LEFT_OUT = "left out"
    FAILED = "failed"


@attrs.frozen(kw_only=True)
class Given:
    """A setting as it is in a file, in the line with this number."""

    key: str
    value: object
    line: int


@attrs.frozen(kw_only=True)
class Decided:
    """In place of a value: what becomes of a setting whatever its value, and why."""

    outcome: Outcome
    remark: str


@attrs.frozen(kw_only=True)
class Translated:
    """What became of a setting: *settings* are the ones in its place, *remark* says what there is to know."""

    given: Given
    outcome: Outcome
    settings: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    remark: str = ""


@attrs.frozen(kw_only=True)
class Translation:
    """A translated configuration. *added* are settings that keep a default of the other client."""

    client: Client
    warnings: Sequence[str]
    added: Mapping[str, str]
    lines: Sequence[Translated]
    problems: Sequence[str]
    """What is wrong with the translated settings together."""

    @property
    def complete(self) -> bool:
        """Whether each setting could be translated, and the translated ones can be used together."""
        return not self.problems and all(line.outcome is not Outcome.FAILED for line in self.lines)


def translate(given: Sequence[Given], client: Client) -> Translation:
    """Translate the settings of *client*."""
    values = {dotted(each.key).removeprefix(SPARK_PREFIX): each.value for each in given}
    lines = [_translated(each, client, values) for each in given]
    lines = list(_without_duplicates(lines))
    set_here = {key for line in lines for key in line.settings}
    added = {} if set_here & {"partitioner.class", "partitioner.ignore.keys"} else _ADDED.get(client, {})
    draft = _draft(lines, added)
    match draft.config.transactions.idempotence:
        case Idempotence.OFF:
            set_here.add("enable.idempotence")  # by other settings, such as acks=1
        case Idempotence.REQUIRED:
            set_here.add("acks")  # by idempotence, in the other clients, too
    warnings = [each.text for each in _WARNINGS[client] if not set_here & each.unless_set]
    return Translation(client=client, warnings=warnings, added=added, lines=lines, problems=draft.problems)


def _draft(lines: Iterable[Translated], added: Mapping[str, str]) -> ConfigDraft:
    """The translated settings together. The servers may be set in the program."""
    settings = {"bootstrap.servers": "localhost:9092", **added}
    for line in lines:
        settings |= {key.removeprefix(SPARK_PREFIX): value for key, value in line.settings.items()}
    return ConfigDraft.read(settings)


def _translated(given: Given, client: Client, values: Mapping[str, object]) -> Translated:
    if isinstance(given.value, Decided):
        return Translated(given=given, outcome=given.value.outcome, remark=given.value.remark)
    key = dotted(given.key)
    prefix = ""
    if client is Client.SPARK:
        if not key.startswith(SPARK_PREFIX):
            return _spark_option(given)
        key, prefix = key.removeprefix(SPARK_PREFIX), SPARK_PREFIX
        if key in _SET_BY_SPARK:
            return Translated(given=given, outcome=Outcome.FAILED, remark="a Spark write sets it itself; leave it out")
    if revealed(given.value) is None:
        return Translated(given=given, outcome=Outcome.LEFT_OUT, remark="it has no value")
    try:
        settings, remark = _special(key, given, client) or _converted(key, revealed(given.value), values)
        _check(settings)
    except TranslationError as reason:
        return Translated(given=given, outcome=Outcome.FAILED, remark=str(reason))
    unchanged = {*settings} == {key} and (not remark or settings[key] == str(revealed(given.value)))
    outcome = Outcome.KEPT if unchanged else Outcome.CHANGED
    if not settings:
        outcome = Outcome.LEFT_OUT
    return Translated(
        given=given,
        outcome=outcome,
        settings={f"{prefix}{name}": value for name, value in settings.items()},
        remark=remark,
    )


def _special(key: str, given: Given, client: Client) -> tuple[Mapping[str, str], str] | None:
    """The settings in place of a value that only librdkafka understands in this way."""
    if client is not Client.LIBRDKAFKA:
        return None
    return LIBRDKAFKA_VALUES.get((key, str(revealed(given.value)).strip().lower()))


def _converted(key: str, value: object, values: Mapping[str, object]) -> tuple[Mapping[str, str], str]:
    """The settings in place of one, and a remark. Raises TranslationError."""
    if (convert := CONVERSIONS.get(key)) is not None:
        return convert(value, values)
    other = of_another_client(key)
    if other is None:
        if key in REFUSED:
            problem = REFUSED[key].problem(value)
            if problem is not None:
                raise TranslationError(problem)
            return {}, "it has this value anyway"
        if key not in _KNOWN:
            raise TranslationError(unknown(key, known=_KNOWN))
        if key in _WITHOUT_EFFECT and not key.startswith(("sasl.", "ssl.", "https.")):
            return {}, "it has no effect here"
        return {key: text_of(value)}, ""
    if other.droppable:
        return {}, other.remark or "there is nothing to set in its place"
    if other.name is None:
        raise TranslationError(other.remark)
    if other.remark:
        raise TranslationError(f"set {other.name}. {other.remark}")
    return {other.name: text_of(value)}, f"it is called {other.name} here"


def text_of(value: object) -> str:
    """A value as a properties file has it. Raises TranslationError for code and other objects."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return ",".join(value)
    raise TranslationError("the value is not text; set it in the program")


def _check(settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        if key in OPTIONS:
            try:
                OPTIONS[key].type.parse(value)
            except ValueError as error:
                raise TranslationError("; ".join(map(str, error.args))) from None


def _spark_option(given: Given) -> Translated:
    if dotted(given.key) in _SPARK_OPTIONS:
        return Translated(given=given, outcome=Outcome.KEPT, settings={given.key: text_of(given.value)})
    return Translated(given=given, outcome=Outcome.LEFT_OUT, remark="it is not for writing")


def _without_duplicates(lines: Iterable[Translated]) -> Iterable[Translated]:
    """Fail a setting that has the same name here as one before it, but another value."""
    taken: dict[str, tuple[str, int]] = {}
    for line in lines:
        clash = next((key for key, value in line.settings.items() if taken.get(key, (value, 0))[0] != value), None)
        if clash is not None:
            remark = f"{clash} has another value from line {taken[clash][1]}; leave one out"
            yield Translated(given=line.given, outcome=Outcome.FAILED, remark=remark)
            continue
        taken |= {key: (value, line.given.line) for key, value in line.settings.items()}
        yield line


@attrs.frozen
class _Warning:
    """A default of Ottla that is another one than the other client's, as long as none of these settings is given."""

    text: str
    unless_set: Set[str] = frozenset()


_PARTITIONER: Final = _Warning(
    "librdkafka's default partitioner hashes keys with CRC-32, Ottla's with murmur2 as Java's: "
    "partitioner.class=consistent_random keeps each key in its partition, so leave it out for new topics only",
    {"partitioner.class", "partitioner.ignore.keys"},
)
_KEYLESS: Final = _Warning(
    "records without a key go to one partition until it has batch.size bytes, not to a random one each"
)
_IDEMPOTENT: Final = _Warning("the producer is idempotent", {"enable.idempotence", "transactional.id"})
_IDEMPOTENT_BEFORE_3: Final = attrs.evolve(_IDEMPOTENT, text=f"{_IDEMPOTENT.text}, as kafka-python's is from 3 on")
_ACKS: Final = _Warning("a record waits for all replicas in sync (acks=all)", {"acks"})
_ACKS_BEFORE_3: Final = attrs.evolve(_ACKS, text=f"{_ACKS.text}, as kafka-python's from 3 on")
_LINGER: Final = _Warning(
    "a batch waits up to 5 ms for more records (linger.ms), not 0 ms: set 0 if the program waits for each record",
    {"linger.ms"},
)
_TIME_OUT: Final = _Warning(
    "a record fails after 120 s (delivery.timeout.ms), librdkafka's after 300 s (message.timeout.ms)",
    {"delivery.timeout.ms"},
)
_TIME_OUT_OF_REQUEST: Final = _Warning(
    "a record fails after 120 s (delivery.timeout.ms), aiokafka's after request_timeout_ms, by default 40 s, and with "
    "idempotence never",
    {"delivery.timeout.ms"},
)
_JAVAS: Final = (_Warning("nothing: names, defaults and the partitions of keys are those of Java's producer"),)

_WARNINGS: Final[Mapping[Client, Sequence[_Warning]]] = {
    Client.LIBRDKAFKA: (_PARTITIONER, _TIME_OUT, _IDEMPOTENT),
    Client.KAFKA_PYTHON: (_KEYLESS, _LINGER, _IDEMPOTENT_BEFORE_3, _ACKS_BEFORE_3),
    Client.AIOKAFKA: (_KEYLESS, _LINGER, _TIME_OUT_OF_REQUEST, _IDEMPOTENT, _ACKS),
    Client.JAVA: _JAVAS,
    Client.SPARK: _JAVAS,
}

_ADDED: Final[Mapping[Client, Mapping[str, str]]] = {
    Client.LIBRDKAFKA: {"partitioner.class": "consistent_random"},
}


_ONLY_KAFKA_PYTHON: Final = frozenset({
    *("batch_size", "buffer_memory", "delivery_timeout_ms", "max_block_ms", "retries"),
    "max_in_flight_requests_per_connection",
})  # fmt: skip
"""Arguments that aiokafka does not have."""


def client_of(given: Iterable[Given]) -> Client:
    """The client that settings look like. Names that several clients have count as Java's."""
    keys: set[Any] = {each.key.strip() for each in given}
    if any(key.startswith(SPARK_PREFIX) for key in keys):
        return Client.SPARK
    if any("_" in key for key in keys) and not any("." in key for key in keys):
        of_aiokafka = {"max_batch_size", "loop"} | ({"enable_idempotence"} if not keys & _ONLY_KAFKA_PYTHON else set())
        return Client.AIOKAFKA if keys & of_aiokafka else Client.KAFKA_PYTHON
    if any(of_another_client(key) is not None for key in keys):
        return Client.LIBRDKAFKA
    return Client.JAVA

"""Text of a hostile broker's responses, as errors, logs and commands show it.

Each text field of each answer that a client reads is filled, from the messages' declarations: a field or a message that
is added is tested without a change here, and a line that shows it as it came fails.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import re
import tempfile
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pytest
from broker_on_a_socket import third_party_installed
from hostile_broker import FILLER, FORGED, NAMES, PASSWORD, TOPIC, TRANSACTIONAL_ID, HostileBroker, text_fields
from long_forms import share

from command_runner import CliRunner
from ottla import Producer
from ottla.cli.commands import ottla
from ottla.doctor import examine
from ottla.errors import ErrorCode, OttlaError
from ottla.errors.quoting import LONGEST
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE, Message
from ottla.protocol.catalogue import MESSAGES
from ottla.protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla.protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.list_offsets import LIST_OFFSETS
from ottla.protocol.messages.list_transactions import LIST_TRANSACTIONS
from ottla.protocol.messages.offset_fetch import OFFSET_FETCH
from ottla.protocol.messages.push_telemetry import PUSH_TELEMETRY
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla.transactions import abort, committed_offset, end_offsets, find_open_transactions, list_transactions

__all__ = ["third_party_installed"]

pytestmark = pytest.mark.usefixtures("third_party_installed")

NOT_READ: Final = {
    "Fetch",
    "CreateTopics",
    "DeleteTopics",
    "DescribeConfigs",
}
"""Messages that the core does not send: `ottla_spark` or tests do."""

BACKOFFS: Final[Mapping[str, object]] = {
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
QUICKLY: Final = 0.15
"""Seconds for a call. Enough for what fails at once; what is not shown in time is not shown wrongly either."""
PATIENTLY: Final = 20.0
"""Seconds for a call that has to succeed."""


def timeouts(milliseconds: int) -> Mapping[str, object]:
    """Return settings with which a producer gives up after so long."""
    return {
        **BACKOFFS,
        "max.block.ms": milliseconds,
        "request.timeout.ms": milliseconds,
        "delivery.timeout.ms": milliseconds,
    }


_RUN: Final = re.compile(rf"{FILLER}{{{LONGEST + 1},}}")
_HALF_A_PASSWORD: Final = PASSWORD[: len(PASSWORD) // 2]


@attrs.define
class Caught:
    """All text that a program reads: every error with its causes, and results. Its calls last *within* seconds."""

    within: float = QUICKLY
    texts: list[str] = attrs.field(factory=list)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Keep what is raised."""
        try:
            yield
        except (OttlaError, TimeoutError) as error:
            self.add(error)

    def add(self, error: BaseException | None) -> None:
        while error is not None:
            self.texts += [str(error), repr(error), *getattr(error, "__notes__", ())]
            error = error.__cause__ or error.__context__


def produce(settings: Mapping[str, object], caught: Caught) -> None:
    """Records, with and without a partition of their own."""
    with caught.errors():
        producer = Producer(settings)
        try:
            for partition in (None, 0):
                with caught.errors():
                    caught.add(producer.send(TOPIC, b"v", partition=partition).exception(caught.within))
            with caught.errors():
                caught.texts += [repr(producer.partitions_for(TOPIC)), repr(producer)]
            with caught.errors():
                producer.send("another", b"v")
        finally:
            with caught.errors():
                producer.close(caught.within)


def transact(settings: Mapping[str, object], caught: Caught) -> None:
    """A transaction with offsets."""
    with caught.errors():
        producer = Producer(settings, transactional_id=TRANSACTIONAL_ID)
        try:
            with caught.errors():
                producer.init_transactions(caught.within)
                producer.begin_transaction()
                caught.add(producer.send(TOPIC, b"v", partition=0).exception(caught.within))
                producer.send_offsets_to_transaction({("input", 0): 5}, "group", caught.within)
                producer.commit_transaction(caught.within)
            with caught.errors():
                producer.abort_transaction(caught.within)
        finally:
            with caught.errors():
                producer.close(caught.within)


def administrate(settings: Mapping[str, object], caught: Caught) -> None:
    """Everything in `ottla.transactions`."""
    tasks: list[Callable[[], object]] = [
        lambda: list_transactions(settings, TRANSACTIONAL_ID, timeout=caught.within) and None,
        lambda: [
            abort(settings, each, timeout=caught.within)
            for each in find_open_transactions(settings, "t", timeout=caught.within)
        ],
        lambda: committed_offset(settings, TRANSACTIONAL_ID, TOPIC, 0, timeout=caught.within) and None,
        lambda: end_offsets(settings, {TOPIC: [0]}, timeout=caught.within) and None,
    ]
    for task in tasks:
        with caught.errors():
            caught.texts.append(repr(task()))


def command(settings: Mapping[str, object], caught: Caught) -> None:
    """`ottla transactions`, as a table and as JSON."""
    for arguments in ([], ["--json"]):
        caught.texts += _run(["transactions", TRANSACTIONAL_ID, *arguments], settings, caught.within)


def doctor(settings: Mapping[str, object], caught: Caught) -> None:
    """`ottla doctor`, as a table and as JSON, and its function."""
    examination = examine(settings, topic=TOPIC, send=True, timeout=caught.within)
    caught.texts += [part for each in examination.findings for part in (each.subject, each.message, each.remedy)]
    for arguments in ([], ["--json"]):
        caught.texts += _run(["doctor", "--topic", TOPIC, *arguments], settings, caught.within)


def _run(arguments: list[str], settings: Mapping[str, object], within: float) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "c.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        result = CliRunner().invoke(ottla, [*arguments, "--command-config", str(file), "--timeout", str(within)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if "--json" in arguments and result.stdout:
        yield from _strings(json.loads(result.stdout))
    # Rich folds what is longer than a line.
    yield from result.output.splitlines()


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            yield from itertools.chain.from_iterable(map(_strings, value))
        case dict():
            yield from itertools.chain.from_iterable(map(_strings, value.values()))


Flow: TypeAlias = Callable[[Mapping[str, object], Caught], None]

ALL: Final = (produce, transact, administrate, command, doctor)
TRANSACTIONAL: Final = (transact, administrate, command)

READ_BY: Final[Mapping[Message[Any, Any], tuple[Flow, ...]]] = {
    PRODUCE: (produce, transact, doctor),
    LIST_OFFSETS: (administrate,),
    METADATA: ALL,
    OFFSET_FETCH: (administrate, command),
    FIND_COORDINATOR: TRANSACTIONAL,
    SASL_HANDSHAKE: (produce, command, doctor),
    API_VERSIONS: (produce, command, doctor),
    INIT_PRODUCER_ID: (produce, transact),
    ADD_PARTITIONS_TO_TXN: (transact,),
    ADD_OFFSETS_TO_TXN: (transact,),
    END_TXN: (transact, administrate),
    TXN_OFFSET_COMMIT: (transact,),
    SASL_AUTHENTICATE: (produce, command, doctor),
    DESCRIBE_TRANSACTIONS: (administrate, command),
    LIST_TRANSACTIONS: (administrate, command),
    GET_TELEMETRY_SUBSCRIPTIONS: (produce,),
    PUSH_TELEMETRY: (produce,),
}

FATAL: Final[Mapping[Message[Any, Any], ErrorCode]] = {
    SASL_HANDSHAKE: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    SASL_AUTHENTICATE: ErrorCode.SASL_AUTHENTICATION_FAILED,
    METADATA: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    PRODUCE: ErrorCode.INVALID_RECORD,
}
BEFORE_TRANSACTIONS_V2: Final = {ADD_PARTITIONS_TO_TXN.key: 3, FIND_COORDINATOR.key: 2, PRODUCE.key: 8, METADATA.key: 8}
"""Versions of messages as Kafka 2.3 has them: texts are short there, and more requests are needed."""


def _names(message: Message[Any, Any]) -> list[str]:
    """The fields of an answer that a client compares."""
    return sorted(set(text_fields(message.response_type)) & {*NAMES, "host"})


CASES: Final = [
    pytest.param(message, names, code, newest, id=f"{message.name}-{kind}")
    for message in READ_BY
    for fatal in [FATAL.get(message, ErrorCode.UNKNOWN_SERVER_ERROR)]
    for kind, names, code, newest in (
        ("as_it_should_be", (), ErrorCode.NONE, {}),
        *((f"with_a_wrong_{name}", (name,), ErrorCode.NONE, {}) for name in _names(message)),
        ("refused", (), fatal, {}),
        ("to_be_repeated", (), ErrorCode.COORDINATOR_NOT_AVAILABLE, {}),
        ("of_an_old_version", _names(message), fatal, BEFORE_TRANSACTIONS_V2),
    )
]

OTHER_ANSWERS: Final = "the gate has each kind of answer with some messages, and most messages with some kind"


class _Lines(logging.Handler):
    """Every line as it is when it is logged: secrets are hidden for as long as their producer is there."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if record.exc_info:
            self.lines.append("".join(traceback.format_exception(*record.exc_info)))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Log lines of any level."""
    handler, logger = _Lines(), logging.getLogger("ottla")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.mark.rule("security.foreign-text")
@pytest.mark.parametrize(("message", "names", "code", "newest"), share(CASES, gate=36, why=OTHER_ANSWERS))
def test_no_text_of_a_broker_is_shown_unescaped(
    message: Message[Any, Any],
    names: Collection[str],
    code: ErrorCode,
    newest: Mapping[int, int],
    logged: list[str],
) -> None:
    broker, caught = HostileBroker(spoilt=message.key, names=names, code=code, newest=newest), Caught()
    with broker.serving() as servers:
        settings = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "X-PLAIN",
            "x.plain.password": PASSWORD,
            **timeouts(120),
        }
        _run_all(READ_BY[message], settings, caught)

    problems = sorted({problem for text in [*caught.texts, *logged] for problem in found_in(text)})
    assert problems[:5] == []


def _run_all(flows: Iterable[Flow], settings: Mapping[str, object], caught: Caught) -> None:
    """Side by side, for they mostly wait; commands one after the other, since they share the standard output."""
    commands = [flow for flow in flows if flow in (command, doctor)]
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(flow, settings, caught) for flow in flows if flow not in commands]
        for flow in commands:
            flow(settings, caught)
        for other in others:
            other.result()


def found_in(text: str) -> Iterator[str]:
    """Characters that a line of ours may not have."""
    around = repr(text[:100])
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text.replace("\n", "")):
        yield f"characters for a terminal: {around}"
    if f"\n{FORGED}" in text or text.startswith(FORGED):
        yield f"a line of its own: {around}"
    if _RUN.search(text):
        yield f"more than {LONGEST} characters: {around}"
    if _HALF_A_PASSWORD in text:
        yield f"the password: {around}"


def test_each_response_that_is_read_has_a_hostile_case() -> None:
    assert {message.name for message in MESSAGES} - {message.name for message in READ_BY} == NOT_READ


@pytest.mark.parametrize("message", list(READ_BY), ids=lambda message: message.name)
def test_each_hostile_response_is_requested(message: Message[Any, Any]) -> None:
    broker = HostileBroker(spoilt=-1, newest=BEFORE_TRANSACTIONS_V2)
    with broker.serving() as servers:
        settings = {"bootstrap.servers": servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "X-PLAIN"}
        _run_all(READ_BY[message], {**settings, **timeouts(400)}, Caught(within=PATIENTLY))

    assert message.key in broker.asked


def test_fields_for_text_are_found_in_the_declarations() -> None:
    assert {"host", "rack", "cluster_id", "name"} <= set(text_fields(METADATA.response_type))
    assert {"error_message", "batch_index_error_message", "host"} <= set(text_fields(PRODUCE.response_type))

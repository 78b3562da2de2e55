"""Functions and plugins whose annotations name what only a type checker imports: Python 3.14 does not evaluate them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

import pytest

from ottla.config.rotating_values import problem_of_function
from ottla.errors import InvalidPluginError
from ottla.producer.callbacks import check_callback
from ottla.tables.progress import check_on_progress
from ottla_testkit.mock_producer import MockProducer

PROGRAM: Final = """\
from typing import TYPE_CHECKING

from ottla.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ottla import Delivery, TableProgress
    from ottla.interfaces import Header, PluginConfig, Serializer, TopicView
    from kafka import KafkaError, Message

def serialize(value: Mapping) -> bytes:
    return b"by a function"

def serialize_two(value: Mapping, topic: Sequence) -> bytes:
    return b""

class TextSerializer:
    def __init__(self, config: PluginConfig | None = None) -> None:
        self.config: PluginConfig | None = config

    def serialize(self, topic: str, data: Mapping, headers: Sequence[Header]) -> bytes | None:
        return b"by a class"

class FewerArguments:
    def serialize(self, topic: str, data: Mapping) -> bytes | None:
        return b""

@hookimpl
def ottla_serializer(config: PluginConfig) -> Serializer | None:
    return TextSerializer(config)

def partition(topic: str, key: bytes | None, view: TopicView) -> int:
    return view.partitions - 1

def on_delivery(delivery: Delivery) -> None: ...
def on_error(error: KafkaError, message: Message) -> None: ...
def on_progress(progress: TableProgress) -> None: ...
def on_two(progress: TableProgress, total: Sequence[int]) -> None: ...
def password() -> Mapping: ...
def password_of(user: Mapping) -> str: ...
"""


@pytest.fixture(scope="module")
def program() -> Any:
    """A program without `from __future__ import annotations`, which it needs before Python 3.14."""
    before = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
    made = ModuleType("a_program")
    exec(compile(before + PROGRAM, "a_program.py", "exec", dont_inherit=True), vars(made))
    return made


@pytest.mark.parametrize(
    ("kind", "sent"), [("function", b"by a function"), ("class", b"by a class"), ("object", b"by a class")]
)
def test_a_serializer_is_used(kind: str, sent: bytes, program: Any) -> None:
    given = {"function": program.serialize, "class": program.TextSerializer, "object": program.TextSerializer()}[kind]
    with MockProducer(value_serializer=given) as producer:
        producer.send("t", {"a": 1})

    assert [record.value for record in producer.history] == [sent]


def test_a_module_with_a_hook_is_used(program: Any) -> None:
    module = ModuleType("a_plugin")
    vars(module)["ottla_serializer"] = program.ottla_serializer
    with MockProducer(value_serializer=module) as producer:
        producer.send("t", {"a": 1})

    assert [record.value for record in producer.history] == [b"by a class"]


def test_a_partitioner_is_used(program: Any) -> None:
    with MockProducer(partitioner_class=program.partition, partitions=3) as producer:
        assert producer.send("t", b"x").result(0).partition == 2


def test_functions_that_fit_are_taken(program: Any) -> None:
    check_callback(program.on_delivery)
    check_on_progress(program.on_progress)

    assert problem_of_function(program.password) is None


def test_functions_that_do_not_fit_are_refused_with_their_arguments(program: Any) -> None:
    with pytest.raises(TypeError, match=r"on_error\(error: 'KafkaError', message: 'Message'\) -> 'None' takes more"):
        check_callback(program.on_error)
    with pytest.raises(
        TypeError, match=r"on_two\(progress: 'TableProgress', total: 'Sequence\[int\]'\) -> 'None' does"
    ):
        check_on_progress(program.on_two)

    assert "password_of needs user" in str(problem_of_function(program.password_of))


@pytest.mark.parametrize(
    ("name", "said"),
    [("serialize_two", "it cannot be called with one argument"), ("FewerArguments", "lacks the argument headers")],
)
def test_serializers_that_do_not_fit_are_refused(name: str, said: str, program: Any) -> None:
    given = getattr(program, name)
    with pytest.raises(InvalidPluginError, match=said):
        MockProducer(value_serializer=given() if isinstance(given, type) else given)

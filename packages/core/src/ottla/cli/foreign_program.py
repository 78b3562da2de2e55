"""Reading of a Python program that makes another client's producer: its settings when the producer is made.

The program is never run. What happens to the settings in a way that is not followed is reported as a setting that
failed, and never left out.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from ottla.cli.program_names import Unknown, function_name
from ottla.cli.program_reader import Reader
from ottla.cli.program_settings import Settings
from ottla.config.translation import Client, Decided, Given, Outcome

PRODUCERS: Final = {
    "Producer": Client.LIBRDKAFKA,
    "SerializingProducer": Client.LIBRDKAFKA,
    "AIOProducer": Client.LIBRDKAFKA,
    "KafkaProducer": Client.KAFKA_PYTHON,
    "AIOKafkaProducer": Client.AIOKAFKA,
}
_PACKAGES: Final = frozenset({"confluent_kafka", "kafka", "aiokafka"})
_CONFIGURATIONS: Final = frozenset({"conf", "config", "producer_conf"})
"""Names of the first argument of confluent-kafka's classes."""
_OF_POOL: Final = frozenset({"max_workers", "executor", "batch_size", "buffer_timeout"})
"""Arguments of AIOProducer for its threads, and for the messages that it gives to them together."""


def settings_of_program(text: str | bytes) -> tuple[Sequence[Given], Client]:
    """The settings of the first producer that a program makes. Raises ValueError without values.

    Bytes have the encoding that their byte order mark or first lines name, as for Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the program's own, such as of an invalid escape sequence
            module = ast.parse(text)
        calls = _calls(module)
        (first, name), *others = calls.items()
        client = PRODUCERS[name]
        settings = _of_call(first, module, client)
        if name == "AIOProducer":
            _leave_pool_out(settings)
    except (RecursionError, MemoryError):  # CPython's parser raises MemoryError
        raise ValueError("its expressions are nested too deeply") from None
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno or 1} is not Python: {error.msg}") from None
    only_first = Decided(outcome=Outcome.LEFT_OUT, remark="only the first producer of a program is translated")
    return [
        *settings.given(),
        *(Given(key=name, value=only_first, line=call.lineno) for call, name in others),
    ], client


def _calls(module: ast.Module) -> Mapping[ast.Call, str]:
    """The calls that make producers, of which there is at least one, in the order of the text, and the class of each.

    If some of them are of classes that the program imports from other clients, the others are no producers of Kafka:
    they are of the program's own classes, or of other packages.
    """
    imported = _imported(module)
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    calls = {node: name for node in nodes if (name := _class_imported(node.func, imported)) in PRODUCERS}
    if not calls:
        calls = {node: name for node in nodes if (name := function_name(node.func)) in PRODUCERS}
    if not calls:
        raise ValueError(f"it makes no producer: no call of {', '.join(PRODUCERS)}")
    return dict(sorted(calls.items(), key=lambda call: (call[0].lineno, call[0].col_offset)))


def _imported(module: ast.Module) -> Mapping[str, str]:
    """The names that imports from other clients bind, and what each of them is there; no text for a module."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        match node:
            case ast.ImportFrom(module=str(package), level=0) if package.partition(".")[0] in _PACKAGES:
                found |= {each.asname or each.name: each.name for each in node.names}
            case ast.Import():
                names = (each for each in node.names if each.name.partition(".")[0] in _PACKAGES)
                found |= {each.asname or each.name.partition(".")[0]: "" for each in names}
    return found


def _class_imported(function: ast.expr, imported: Mapping[str, str]) -> str:
    """The name of a class in the client from which the program imports it, also by a module; no text for others."""
    if isinstance(function, ast.Name):
        return imported.get(function.id, "")
    of = function
    while isinstance(of, ast.Attribute):
        of = of.value
    return function_name(function) if isinstance(of, ast.Name) and of.id in imported else ""


def _of_call(call: ast.Call, module: ast.Module, client: Client) -> Settings:
    """The settings in the arguments of a call, of which the later ones take precedence."""
    reader = Reader(module, call)
    found = Settings()
    for argument in _mappings(call, client):
        settings = reader.settings_of(argument)
        if isinstance(settings, Unknown):
            raise ValueError(f"line {settings.line} {settings.problem}")
        found.update(settings)
    for keyword in call.keywords:
        if keyword.value not in _mappings(call, client) and keyword.arg is not None:
            found.set(keyword.arg, keyword.value, line=keyword.lineno)
    return found


def _leave_pool_out(found: Settings) -> None:
    for name in _OF_POOL & found.items.keys():
        found.items[name] = attrs.evolve(
            found.items[name], value=Decided(outcome=Outcome.LEFT_OUT, remark="it needs no pool of threads")
        )


def _mappings(call: ast.Call, client: Client) -> Iterator[ast.expr]:
    """The arguments that are dicts of settings."""
    yield from call.args[:1]
    for keyword in call.keywords:
        if keyword.arg is None or (client is Client.LIBRDKAFKA and keyword.arg in _CONFIGURATIONS):
            yield keyword.value

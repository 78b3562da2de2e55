"""Reading of other programs' configurations: properties, JSON, and Python sources with a producer in them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from ottla.config.properties import check_encoding, numbered_settings
from ottla.config.translation import Client, Given, client_of

_PRODUCERS: Final = ("Producer", "SerializingProducer", "KafkaProducer", "AIOKafkaProducer", "AIOProducer")
_BETWEEN: Final = re.compile(r"[\s:,]*")
"""What is between the names and values of a valid JSON object."""


@attrs.frozen
class Code:
    """A value that a program computes, so it cannot be translated."""


def read_configuration(file: Path, client: Client | None) -> tuple[Sequence[Given], Client]:
    """Read the settings in a file, and the client that they are for. Raises OSError, and ValueError without values."""
    match file.suffix.lower():
        case ".py":
            settings, found = _of_program(file.read_text("utf-8"))
            return settings, client or found
        case ".json":
            settings = list(_of_json(file.read_text("utf-8")))
        case _:
            # UTF-8 is librdkafka's, ISO 8859-1 is Java's; the keys are the same in both.
            content = file.read_bytes()
            check_encoding(content)
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError:
                text = content.decode("iso-8859-1")
            settings = [Given(key=key, value=value, line=line) for line, key, value in numbered_settings(text)]
    return settings, client or client_of(settings)


def _of_json(text: str) -> Iterator[Given]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON: {error.msg}") from None
    if not isinstance(document, dict):
        raise ValueError("it must be a JSON object with a member for each setting")
    lines = _lines_of_members(text)
    for key, value in document.items():
        yield Given(key=key, value=value, line=lines[key])


def _lines_of_members(text: str) -> Mapping[str, int]:
    """The line of each member of a valid JSON object; of members with one name, that of the last, which counts."""
    decoder, lines = json.JSONDecoder(), {}

    def after_marks(at: int) -> int:
        marks = _BETWEEN.match(text, at)
        return marks.end() if marks else at

    at = after_marks(text.index("{") + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        lines[key] = text.count("\n", 0, at) + 1
        _value_of_key, end = decoder.raw_decode(text, after_marks(end))
        at = after_marks(end)
    return lines


def _of_program(text: str) -> tuple[Sequence[Given], Client]:
    """The settings of the first producer that a Python program makes."""
    try:
        module = ast.parse(text)
    except (RecursionError, MemoryError):  # CPython's parser raises MemoryError
        raise ValueError("its expressions are nested too deeply") from None
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno} is not Python: {error.msg}") from None
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and (name := _name(node.func)) in _PRODUCERS:
            settings = list(_of_call(node, module))
            if name == "KafkaProducer":
                return settings, Client.KAFKA_PYTHON
            if name == "AIOKafkaProducer":
                return settings, Client.AIOKAFKA
            return settings, Client.LIBRDKAFKA
    raise ValueError(f"it makes no producer: no call of {', '.join(_PRODUCERS)}")


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _of_call(call: ast.Call, module: ast.Module) -> Iterator[Given]:
    for argument in call.args[:1]:
        yield from _of_dict(_assigned(argument, module))
    for keyword in call.keywords:
        if keyword.arg is None:
            yield from _of_dict(_assigned(keyword.value, module))
        else:
            yield Given(key=keyword.arg, value=_value(keyword.value), line=keyword.lineno)


def _of_dict(node: ast.expr) -> Iterator[Given]:
    if not isinstance(node, ast.Dict):
        raise ValueError(f"line {node.lineno} computes the settings; only settings that are written out are read")
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield Given(key=key.value, value=_value(value), line=key.lineno)
        else:
            raise ValueError(f"line {value.lineno} computes settings; only settings that are written out are read")


def _assigned(node: ast.expr, module: ast.Module) -> ast.expr:
    """The value that a variable gets first, for its name; other expressions as they are."""
    if isinstance(node, ast.Name):
        for each in ast.walk(module):
            if isinstance(each, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in each.targets
            ):
                return each.value
    return node


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return Code()

"""Reading of other programs' configurations: properties, JSON, and Python sources with a producer in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.foreign_program import settings_of_program
from ottla.config.properties import check_encoding, numbered_settings
from ottla.config.translation import Client, Given, client_of

_BETWEEN: Final = re.compile(r"[\s:,]*")
"""What is between the names and values of a valid JSON object."""


def read_configuration(file: Path, client: Client | None) -> tuple[Sequence[Given], Client]:
    """Read the settings in a file, and the client that they are for. Raises OSError, and ValueError without values."""
    match file.suffix.lower():
        case ".py":
            settings, found = settings_of_program(file.read_bytes())
            return settings, client or found
        case ".json":
            settings = list(_of_json(file.read_text("utf-8-sig")))
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

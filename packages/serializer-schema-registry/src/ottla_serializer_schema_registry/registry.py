"""The part of a schema registry's interface that producers need. Its answers are checked; its words are quoted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import attrs

from ottla_serializer_schema_registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryAnswerError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from ottla_serializer_schema_registry.exchange import Answer, Request
from ottla_serializer_schema_registry.exchanges import Exchanges

MOST_WORDS: Final = 1000
"""Characters of the registry's words that an error quotes."""

MAX_ID: Final = 2**31 - 1

_REFUSALS: Final[Mapping[int, type[SchemaRegistryError]]] = {
    401: RegistryAccessError,
    403: RegistryAccessError,
    404: SchemaNotFoundError,
    409: IncompatibleSchemaError,
    422: InvalidSchemaError,
}


@attrs.frozen(kw_only=True)
class RegisteredSchema:
    """A schema of a subject, as the registry has it."""

    id: int
    text: str = attrs.field(repr=False)


class SchemaRegistry:
    """Registers and looks up Avro schemas. For any thread.

    All methods wait *timeout* seconds at most, and raise SchemaRegistryError.
    """

    def __init__(self, exchanges: Exchanges, *, normalize: bool = False) -> None:
        self._exchanges = exchanges
        self._query = "?normalize=true" if normalize else ""

    def register(self, subject: str, text: str, *, timeout: float) -> RegisteredSchema:
        """Register a schema, which may be registered already."""
        path = f"/subjects/{quote(subject, safe='')}/versions{self._query}"
        found = self._asked(Request(method="POST", path=path, body=_body(text)), timeout)
        return RegisteredSchema(id=_id(found, path), text=text)

    def look_up(self, subject: str, text: str, *, timeout: float) -> RegisteredSchema:
        """Find a schema that is registered. Raises SchemaNotFoundError."""
        path = f"/subjects/{quote(subject, safe='')}{self._query}"
        found = self._asked(Request(method="POST", path=path, body=_body(text)), timeout)
        _check_subject(found, subject, path)
        return RegisteredSchema(id=_id(found, path), text=text)

    def latest(self, subject: str, *, timeout: float) -> RegisteredSchema:
        """Fetch the newest version of a subject. Raises SchemaNotFoundError."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        found = self._asked(Request(method="GET", path=path), timeout)
        _check_subject(found, subject, path)
        return RegisteredSchema(id=_id(found, path), text=_avro_text(found, path))

    def by_id(self, schema_id: int, *, timeout: float) -> RegisteredSchema:
        """Fetch the schema that has an id. Raises SchemaNotFoundError."""
        path = f"/schemas/ids/{schema_id}"
        found = self._asked(Request(method="GET", path=path), timeout)
        return RegisteredSchema(id=schema_id, text=_avro_text(found, path))

    def _asked(self, request: Request, timeout: float) -> Mapping[str, Any]:
        answer = self._exchanges.send(request, timeout=timeout)
        where = f"{request.method} {request.path}"
        if answer.status == 200:
            return _object(answer, where)
        refusal = _REFUSALS.get(answer.status, RegistryAnswerError)
        raise refusal(f"the schema registry answered {where} with status {answer.status}{_words(answer)}")


def _body(text: str) -> bytes:
    return json.dumps({"schema": text}).encode()


def _object(answer: Answer, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryAnswerError(f"the answer to {where} is no JSON object: {answer.body[:100]!r}")
    return found


def _words(answer: Answer) -> str:
    try:
        found = json.loads(answer.body)
        code, message = found["error_code"], found["message"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    if type(code) is not int or not isinstance(message, str):
        return ""
    return f", error code {code}: {message[:MOST_WORDS]!r}"


def _id(found: Mapping[str, Any], path: str) -> int:
    schema_id = found.get("id")
    if type(schema_id) is not int or not 0 <= schema_id <= MAX_ID:
        raise RegistryAnswerError(f"the answer to {path} has no valid id of a schema: {repr(schema_id)[:50]}")
    return schema_id


def _check_subject(found: Mapping[str, Any], subject: str, path: str) -> None:
    if found.get("subject") != subject:
        raise RegistryAnswerError(f"the answer to {path} is for another subject: {repr(found.get('subject'))[:300]}")


def _avro_text(found: Mapping[str, Any], path: str) -> str:
    kind, text = found.get("schemaType", "AVRO"), found.get("schema")
    if kind != "AVRO" or not isinstance(text, str):
        raise InvalidSchemaError(f"the answer to {path} has no Avro schema, but one of type {repr(kind)[:50]}")
    if found.get("references"):
        raise InvalidSchemaError(f"the schema of {path} has references, which are not supported")
    return text

"""The part of a schema registry's interface that producers need. Its answers are checked; its words are quoted."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from ottla.errors import printable, quoted
from ottla_serializer_schema_registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryAnswerError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from ottla_serializer_schema_registry.registry.exchange import Answer, Request
from ottla_serializer_schema_registry.registry.exchanges import RETRIED, Exchanges
from ottla_serializer_schema_registry.registry.rules import rules_of_writers
from ottla_serializer_schema_registry.registry.schemas import AVRO, PROTOBUF, Reference, RegisteredSchema, Schema

MOST_WORDS: Final = 1000
"""Characters of the registry's words that an error quotes."""

MAX_ID: Final = 2**31 - 1
MAX_REFERENCES: Final = 1000
"""References of one schema that are read."""

LATEST: Final = -1
"""In place of a version: the newest."""

_REFUSALS: Final[Mapping[int, type[SchemaRegistryError]]] = {
    401: RegistryAccessError,
    403: RegistryAccessError,
    404: SchemaNotFoundError,
    409: IncompatibleSchemaError,
    422: InvalidSchemaError,
}


class SchemaRegistry:
    """Registers and looks up schemas. For any thread.

    All methods wait *timeout* seconds at most, and raise SchemaRegistryError.
    """

    def __init__(self, exchanges: Exchanges, *, normalize: bool = False) -> None:
        self._exchanges = exchanges
        self.normalizes = normalize
        """Whether the registry normalizes the schemas that it is given."""
        self._normalize = "?normalize=true" if normalize else ""

    def register(self, subject: str, schema: Schema, *, timeout: float) -> RegisteredSchema:
        """Register a schema, which may be registered already."""
        request = Request(
            method="POST", path=f"/subjects/{quote(subject, safe='')}/versions{self._normalize}", body=_body(schema)
        )
        answer = self._asked(request, timeout)
        return _registered(_object(answer, request), request, schema, version=None)

    def look_up(
        self, subject: str, schema: Schema, *, timeout: float, just_registered: bool = False
    ) -> RegisteredSchema:
        """Find a schema that is registered. Raises SchemaNotFoundError.

        If it was *just_registered*, a node of the registry may not know it yet, so its answer 404 is not final.
        """
        request = Request(
            method="POST", path=f"/subjects/{quote(subject, safe='')}{self._normalize}", body=_body(schema)
        )
        answer = self._asked(request, timeout, retried=RETRIED | {404} if just_registered else RETRIED)
        found = _object(answer, request)
        _check_subject(found, subject, request)
        return _registered(found, request, schema, version=_version(found, request))

    def version(self, subject: str, version: int, *, kind: str, timeout: float) -> RegisteredSchema:
        """Fetch a version of a subject, or the newest: LATEST. Raises SchemaNotFoundError.

        Raises InvalidSchemaError if it is not of this *kind*.
        """
        asked = "latest" if version == LATEST else str(version)
        request = Request(method="GET", path=f"/subjects/{quote(subject, safe='')}/versions/{asked}{_format(kind)}")
        answer = self._asked(request, timeout)
        found = _object(answer, request)
        _check_subject(found, subject, request)
        return _registered(found, request, _schema(found, kind, request), version=_version(found, request))

    def _asked(self, request: Request, timeout: float, *, retried: Collection[int] = RETRIED) -> Answer:
        """Return the answer, which the caller keeps while it quotes from it (see `Answer.login`)."""
        answer = self._exchanges.send(request, timeout=timeout, retried=retried)
        if answer.status == 200:
            return answer
        refusal = _REFUSALS.get(answer.status, RegistryAnswerError)
        raise refusal(f"the schema registry answered {request} with status {answer.status}{_words(answer)}")


def _registered(found: Mapping[str, Any], request: Request, schema: Schema, *, version: int | None) -> RegisteredSchema:
    return RegisteredSchema(
        id=_id(found, request),
        schema=schema,
        guid=_guid(found, request),
        version=version,
        rules=rules_of_writers(found.get("ruleSet")),
    )


def _format(kind: str) -> str:
    """Protobuf is wanted as a descriptor, which needs no parser of .proto files."""
    return "?format=serialized" if kind == PROTOBUF else ""


def _body(schema: Schema) -> bytes:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return json.dumps(body).encode()


def _object(answer: Answer, request: Request) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryAnswerError(f"the answer to {request} is no JSON object: {quoted(answer.body)}")
    return found


def _words(answer: Answer) -> str:
    try:
        found = json.loads(answer.body)
        code, message = found["error_code"], found["message"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    if type(code) is not int or not isinstance(message, str):
        return ""
    return f", error code {code}: {quoted(message, limit=MOST_WORDS)}"


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else printable(repr(value))


def _id(found: Mapping[str, Any], request: Request) -> int:
    schema_id = found.get("id")
    if type(schema_id) is not int or not 0 <= schema_id <= MAX_ID:
        raise RegistryAnswerError(f"the answer to {request} has no valid id of a schema: {_shown(schema_id)}")
    return schema_id


def _guid(found: Mapping[str, Any], request: Request) -> bytes | None:
    guid = found.get("guid")
    if guid is None:
        return None
    try:
        return UUID(guid).bytes
    except (ValueError, AttributeError, TypeError):
        raise RegistryAnswerError(f"the answer to {request} has a guid that is none: {_shown(guid)}") from None


def _version(found: Mapping[str, Any], request: Request) -> int:
    version = found.get("version")
    if type(version) is not int or not 0 < version <= MAX_ID:
        raise RegistryAnswerError(f"the answer to {request} has no valid version of a subject: {_shown(version)}")
    return version


def _check_subject(found: Mapping[str, Any], subject: str, request: Request) -> None:
    if found.get("subject") != subject:
        raise RegistryAnswerError(f"the answer to {request} is for another subject: {_shown(found.get('subject'))}")


def _schema(found: Mapping[str, Any], kind: str, request: Request) -> Schema:
    its_kind, text = found.get("schemaType", AVRO), found.get("schema")
    if its_kind != kind or not isinstance(text, str):
        raise InvalidSchemaError(
            f"the answer to {request} has no schema of type {kind}, but one of type {_shown(its_kind)}"
        )
    return Schema(kind=kind, text=text, references=_references(found.get("references"), request))


def _references(listed: Any, request: Request) -> tuple[Reference, ...]:
    if listed is None:
        return ()
    wrong = RegistryAnswerError(f"the answer to {request} has references that cannot be read: {_shown(listed)}")
    if not isinstance(listed, list) or len(listed) > MAX_REFERENCES:
        raise wrong
    made = []
    for each in listed:
        try:
            name, subject, version = each["name"], each["subject"], each["version"]
        except (KeyError, TypeError):
            raise wrong from None
        if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
            raise wrong
        made.append(Reference(name=name, subject=subject, version=version))
    return tuple(made)

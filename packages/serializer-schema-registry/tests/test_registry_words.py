"""What a registry says: in errors it is one short printable line, with stars in place of our login."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pytest
from hostile_registry import Hostile, hostile_server, says

from ottla import ConfigError, Producer
from ottla.errors import SerializationError
from ottla.errors.quoting import LONGEST
from ottla_serializer_schema_registry import SchemaRegistryError
from ottla_serializer_schema_registry.registry.client import MOST_WORDS
from ottla_testkit.mock_producer import MockProducer

hostile = hostile_server

PASSWORD: Final = "Tr0ub4dor-and-3"
USER_INFO: Final = f"alice:{PASSWORD}"
FORMS: Final = (PASSWORD, base64.b64encode(USER_INFO.encode()).decode(), PASSWORD.encode().hex())
LOGINS: Final = ({"basic.auth.user.info": USER_INFO}, {"bearer.auth.token": PASSWORD})
HOSTILE: Final = "\x1b[31m\u202e\u0301\u0301\u0301\u0301\n" + "x" * 5000
SCHEMA: Final = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
LATEST: Final = {"auto.register.schemas": "false", "use.latest.version": "true"}


def settings(registry: Hostile, **more: Any) -> dict[str, Any]:
    return {
        "value.serializer": "avro",
        "schema.registry.url": registry.address,
        "max.block.ms": 3000,
        **more,
    }


def echoed(header: str) -> str:
    """The login as the registry got it, and as it reads it."""
    scheme, _, credentials = header.partition(" ")
    plain = base64.b64decode(credentials).decode() if scheme == "Basic" else credentials
    return f"{plain.rpartition(':')[2]} {plain} {header} {PASSWORD.encode().hex()} "


def found(**fields: Any) -> dict[str, Any]:
    return {"subject": "t-value", "id": 7, "version": 1, "schema": SCHEMA} | fields


ANSWERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "no JSON": lambda echo: echo.encode(),
    "an id": lambda echo: found(id=echo),
    "a list as the id": lambda echo: found(id=[echo]),
    "a guid": lambda echo: found(guid=echo),
    "a version": lambda echo: found(version=echo),
    "a subject": lambda echo: found(subject=echo),
    "a type": lambda echo: found(schemaType=echo),
    "references": lambda echo: found(references=[echo]),
    "a schema": lambda echo: found(schema=json.dumps({"type": echo})),
    "a name": lambda echo: found(schema=json.dumps({"type": "record", "name": "R", "fields": [{"name": echo}]})),
}


def checked(error: BaseException, *, longest: int = LONGEST) -> str:
    """The error's text, and that of its cause, without a secret."""
    assert isinstance(error, SerializationError)
    assert isinstance(error.__cause__, SchemaRegistryError)
    text = f"{error} {error.__cause__}"
    assert [form for form in FORMS if form in text] == []
    assert text.isprintable()
    assert "\u0301" * 4 not in text
    assert len(text) < 2 * longest + 600
    return text


def refused(registry: Hostile, answer: Callable[[str], Callable[[Any], None]], **more: Any) -> SerializationError:
    """The error of a record whose schema gets an answer, which may have the header of the request."""
    registry.last = lambda handler: answer(echoed(handler.headers["Authorization"]))(handler)
    with MockProducer(settings(registry, **more)) as producer, pytest.raises(SerializationError) as caught:
        producer.send("t", {"id": 1})
    return caught.value


@pytest.mark.rule("security.foreign-text")
@pytest.mark.parametrize("login", LOGINS, ids=lambda login: next(iter(login)))
def test_a_login_in_a_refusal_is_shown_as_stars(hostile: Hostile, login: Mapping[str, str]) -> None:
    error = refused(
        hostile,
        lambda echo: says({"error_code": 40101, "message": f"no such user: {echo}{HOSTILE}"}, status=401),
        **{"value.schema": SCHEMA},
        **login,
    )
    text = checked(error, longest=MOST_WORDS)
    assert "status 401, error code 40101: 'no such user: *** " in text
    assert text.count("***") >= 6


@pytest.mark.rule("security.foreign-text")
@pytest.mark.parametrize("login", LOGINS, ids=lambda login: next(iter(login)))
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_login_in_an_answer_is_shown_as_stars(hostile: Hostile, answer: str, login: Mapping[str, str]) -> None:
    error = refused(hostile, lambda echo: says(ANSWERS[answer](echo + HOSTILE)), **LATEST, **login)
    assert "***" in checked(error) or answer == "a name"


@pytest.mark.rule("security.foreign-text")
def test_names_of_schemas_of_the_registry_are_quoted(hostile: Hostile) -> None:
    fields = [{"name": f"a{HOSTILE}", "type": "long"}]
    hostile.last = says(found(schema=json.dumps({"type": "record", "name": f"R{HOSTILE}", "fields": fields})))
    rows = pa.table({"id": [1]})
    with MockProducer(settings(hostile, **LATEST)) as producer, pytest.raises(SerializationError) as caught:
        producer.send_table("t", rows, value="*", value_format="avro")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2 * LONGEST + 600


def test_an_impossible_character_in_a_password_names_its_key(hostile: Hostile) -> None:
    with pytest.raises(ConfigError, match=r"basic\.auth\.user\.info=\[hidden\]") as caught:
        Producer({"bootstrap.servers": "127.0.0.1:1"} | settings(hostile, **{"basic.auth.user.info": "a:\udcff"}))
    assert len(caught.value.problems) == 1

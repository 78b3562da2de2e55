"""Rules of a data contract: nothing is sent that they would have encrypted, changed or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hostile_registry import Hostile, hostile_server, says

from ottla.errors import SerializationError
from ottla_serializer_schema_registry import InvalidSchemaError
from ottla_serializer_schema_registry.registry.rules import MOST_NAMED
from ottla_testkit.mock_producer import MockProducer

hostile = hostile_server

SCHEMA = json.dumps({"type": "record", "name": "Person", "fields": [{"name": "ssn", "type": "string"}]})
ENCRYPT = {"name": "encryptPII", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
CONDITION = {"name": "nine", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "size(message.ssn) == 9"}

LOOKUPS: Mapping[str, Mapping[str, Any]] = {
    "registered": {"value.schema": SCHEMA},
    "looked up": {"value.schema": SCHEMA, "auto.register.schemas": False},
    "latest": {"use.latest.version": True},
}


def send(registry: Hostile, rules: Any, **settings: Any) -> Any:
    """Send a record to a subject with these rules; return its bytes."""
    registry.last = says({"subject": "t-value", "id": 7, "version": 1, "schema": SCHEMA, "ruleSet": rules})
    with MockProducer({"value.serializer": "avro", "schema.registry.url": registry.address, **settings}) as producer:
        producer.send("t", {"ssn": "123"}).result(timeout=10)
        return producer.history[-1].value


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize(
    "rules",
    [
        {"domainRules": [ENCRYPT]},
        {"domainRules": [{**ENCRYPT, "mode": "READ"}, CONDITION], "migrationRules": []},
        {"domainRules": None, "encodingRules": [{**ENCRYPT, "disabled": False}]},
        {"domainRules": [{"name": "nine"}]},
    ],
)
def test_a_schema_with_rules_of_writers_is_refused(hostile: Hostile, lookup: str, rules: Any) -> None:
    with pytest.raises(SerializationError, match="subject 't-value' has rules that writers must apply") as caught:
        send(hostile, rules, **LOOKUPS[lookup])

    assert isinstance(caught.value.__cause__, InvalidSchemaError)
    assert ("'nine'" in str(caught.value)) is ("nine" in str(rules))


@pytest.mark.parametrize(
    "rules",
    [
        None,
        {},
        {"domainRules": [{**ENCRYPT, "disabled": True}], "encodingRules": None},
        {"domainRules": [{**CONDITION, "mode": "READ"}]},
        {"migrationRules": [{**CONDITION, "mode": mode} for mode in ("UPGRADE", "DOWNGRADE", "UPDOWN")]},
        [ENCRYPT],
        {"domainRules": ["x", None], "encodingRules": 7},
    ],
)
def test_rules_of_readers_and_disabled_ones_change_nothing(hostile: Hostile, rules: Any) -> None:
    assert send(hostile, rules, **LOOKUPS["latest"]) == b"\0\0\0\0\7\x06123"


def test_an_error_names_a_few_rules_and_shows_no_escapes(hostile: Hostile) -> None:
    names = [f"\x1b[31m{number}" for number in range(100)]
    with pytest.raises(SerializationError) as caught:
        send(hostile, {"domainRules": [{"name": name} for name in names]}, **LOOKUPS["latest"])

    assert str(caught.value).isprintable()
    assert f"and {100 - MOST_NAMED} more" in str(caught.value)

"""Rules of a schema's data contract: which of them a writer must apply, such as to encrypt a field.

None can be applied here. So a schema with such a rule is not used: its data would be sent unencrypted or unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import quoted
from ottla_serializer_schema_registry.errors import InvalidSchemaError

MOST_NAMED: Final = 5
"""Rules that an error names."""

_OF_READERS: Final = ("READ", "UPGRADE", "DOWNGRADE", "UPDOWN")
"""Modes of rules that only readers apply."""


def rules_of_writers(rule_set: Any) -> tuple[str, ...]:
    """Return the names of the rules in an answer's `ruleSet` that writers must apply."""
    if not isinstance(rule_set, Mapping):
        return ()
    listed = [rule_set.get(kind) for kind in ("domainRules", "encodingRules")]
    rules = [rule for rules in listed if isinstance(rules, list) for rule in rules if isinstance(rule, Mapping)]
    return tuple(
        str(rule.get("name")) for rule in rules if not rule.get("disabled") and rule.get("mode") not in _OF_READERS
    )


def check_rules(rules: tuple[str, ...], subject: str) -> None:
    """Raise InvalidSchemaError if there are any."""
    if rules:
        more = f" and {len(rules) - MOST_NAMED} more" if len(rules) > MOST_NAMED else ""
        raise InvalidSchemaError(
            f"the schema of subject {subject!r} has rules that writers must apply, which this serializer cannot do: "
            f"{', '.join(map(quoted, rules[:MOST_NAMED]))}{more}"
        )

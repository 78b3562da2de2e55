"""Rules for combinations of the core's keys.

If two keys conflict and the user set only one, the other is adjusted, and the adjustment is noted. If it cannot be
adjusted, or the user set both, the user must choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ottla.config.core_settings import CoreSettings
from ottla.config.producer_config import Idempotence
from ottla.config.value_types import INT_MAX

IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
MAX_IN_FLIGHT: Final = 5
EXACT: Final[tuple[tuple[str, str, Callable[[int], bool]], ...]] = (
    ("acks", "idempotence needs acks=all", lambda acks: acks != -1),
    ("retries", "idempotence needs at least 1", lambda retries: retries == 0),
)
"""The conflicts with idempotence: a key, the reason, and a predicate on its value."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UpperBound:
    """The rule that `low` may not be above `high`. *raises*: `high` may be raised to `low`, else `low` is lowered."""

    low: str
    high: str
    raises: bool = True


UPPER_BOUNDS: Final = (
    UpperBound(low="reconnect.backoff.ms", high="reconnect.backoff.max.ms"),
    UpperBound(low="retry.backoff.ms", high="retry.backoff.max.ms"),
    UpperBound(low="socket.connection.setup.timeout.ms", high="socket.connection.setup.timeout.max.ms"),
    # Only the user may raise the limit of the memory.
    UpperBound(low="batch.size", high="buffer.memory", raises=False),
    UpperBound(low="max.request.size", high="buffer.memory", raises=False),
)


def reconcile(core: CoreSettings) -> None:
    """Adjust keys that the user did not set, and collect conflicts between keys.

    A rule is skipped if one of its values is invalid.
    """
    for rule in UPPER_BOUNDS:
        if not core.wrong & {rule.low, rule.high}:
            _keep_within(rule, core)
    if not core.wrong & {"enable.idempotence", "transactional.id", "acks", "retries", IN_FLIGHT}:
        _keep_exact(core)
    _keep_two_phase(core)
    _keep_rack_known(core)
    if not core.wrong & {"delivery.timeout.ms", "linger.ms", "request.timeout.ms"}:
        _keep_delivery_possible(core)


def _keep_exact(core: CoreSettings) -> None:
    """Turn idempotence off if another key conflicts with it, unless it is required; then the user must choose."""
    values = core.values
    idempotence = values["enable.idempotence"]
    transactional = values["transactional.id"] is not None
    if transactional and idempotence is Idempotence.OFF:
        core.problems.append("transactional.id needs enable.idempotence=true; leave one of them out")
        return
    if idempotence is Idempotence.OFF:
        return
    conflicts = [f"{key}={core.raw[key]} ({why})" for key, why, rules_it_out in EXACT if rules_it_out(values[key])]
    if transactional or idempotence is Idempotence.REQUIRED:
        asked = "transactional.id" if transactional else "enable.idempotence=true"
        if values[IN_FLIGHT] > MAX_IN_FLIGHT:
            conflicts.append(f"{IN_FLIGHT}={values[IN_FLIGHT]} (idempotence allows at most {MAX_IN_FLIGHT})")
        if conflicts:
            core.problems.append(f"{asked} conflicts with {' and '.join(conflicts)}; leave one of them out")
        elif transactional:
            values["enable.idempotence"] = Idempotence.REQUIRED
            core.reasons["enable.idempotence"] = "transactional.id needs it"
    elif conflicts:
        core.notes.append(f"enable.idempotence is false, because of {' and '.join(conflicts)}")
        values["enable.idempotence"] = Idempotence.OFF
        core.reasons["enable.idempotence"] = " and ".join(conflicts)
        core.adjusted.add("enable.idempotence")
    elif values[IN_FLIGHT] > MAX_IN_FLIGHT:
        core.problems.append(
            f"{IN_FLIGHT}={values[IN_FLIGHT]}: idempotence allows at most {MAX_IN_FLIGHT}; lower it, or set "
            "enable.idempotence=false"
        )


def _keep_two_phase(core: CoreSettings) -> None:
    two_phase = "transaction.two.phase.commit.enable"
    if core.wrong & {two_phase, "transactional.id"} or not core.values[two_phase]:
        return
    if core.values["transactional.id"] is None:
        core.problems.append(f"{two_phase}=true needs a transactional.id")
    if core.given("transaction.timeout.ms"):
        core.problems.append(
            f"{two_phase}=true and transaction.timeout.ms: such transactions have no time-out; leave one of them out"
        )
    else:
        core.values["transaction.timeout.ms"] = INT_MAX
        core.reasons["transaction.timeout.ms"] = "two-phase transactions have no time-out"


def _keep_rack_known(core: CoreSettings) -> None:
    """Require `client.rack` for rack-aware partitioning (KIP-1123); as in Java, for any partitioner."""
    if core.wrong & {"partitioner.rack.aware", "client.rack"} or not core.values["partitioner.rack.aware"]:
        return
    if not core.values["client.rack"].strip():
        core.problems.append("partitioner.rack.aware=true needs a client.rack, the zone that the client runs in")


def _keep_within(rule: UpperBound, core: CoreSettings) -> None:
    low, high = core.values[rule.low], core.values[rule.high]
    if low <= high:
        return
    if not core.given(rule.low):
        core.adjust(rule.low, high, because=f"{rule.high}={high}")
    elif rule.raises and not core.given(rule.high):
        core.adjust(rule.high, low, because=f"{rule.low}={low}")
    else:
        core.problems.append(f"{rule.low}={low} is above {rule.high}={high}; lower it or raise {rule.high}")


def _keep_delivery_possible(core: CoreSettings) -> None:
    linger, request = core.values["linger.ms"], core.values["request.timeout.ms"]
    minimum = min(linger + request, INT_MAX)  # as in Java: all of them may be set to the maximum
    if core.values["delivery.timeout.ms"] >= minimum:
        return
    parts = f"linger.ms={linger} + request.timeout.ms={request}"
    if core.given("delivery.timeout.ms"):
        core.problems.append(
            f"delivery.timeout.ms={core.values['delivery.timeout.ms']} is below {parts}; "
            "a record must have the time to linger and for one request: raise it or lower one of the others"
        )
    else:
        core.adjust("delivery.timeout.ms", minimum, because=f"it may not be below {parts}")

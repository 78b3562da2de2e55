"""How the core's keys must fit together.

Of two keys that do not fit, one that was left out follows the one that was set, and that is noted; if it
cannot follow, or both were set, the user must choose.
"""

from __future__ import annotations

from typing import Final

import attrs

from ottla.config.reading import Reading
from ottla.config.value_types import INT_MAX


@attrs.frozen(kw_only=True)
class AtMost:
    """`low` may not be above `high`. `raises`: `high` may follow `low`, not only the other way round."""

    low: str
    high: str
    raises: bool = True


AT_MOST: Final = (
    AtMost(low="reconnect.backoff.ms", high="reconnect.backoff.max.ms"),
    AtMost(low="retry.backoff.ms", high="retry.backoff.max.ms"),
    AtMost(low="socket.connection.setup.timeout.ms", high="socket.connection.setup.timeout.max.ms"),
    # Memory is what the user can spend: it is never raised unasked.
    AtMost(low="batch.size", high="buffer.memory", raises=False),
    AtMost(low="max.request.size", high="buffer.memory", raises=False),
)


def reconcile(reading: Reading) -> None:
    """Let keys that were left out follow those that were set, and note what cannot go together.

    A rule about a value that is wrong by itself says nothing.
    """
    for rule in AT_MOST:
        if not reading.wrong & {rule.low, rule.high}:
            _keep_at_most(rule, reading)
    if not reading.wrong & {"delivery.timeout.ms", "linger.ms", "request.timeout.ms"}:
        _keep_delivery_possible(reading)


def _keep_at_most(rule: AtMost, reading: Reading) -> None:
    low, high = reading.values[rule.low], reading.values[rule.high]
    if low <= high:
        return
    if not reading.given(rule.low):
        reading.adjust(rule.low, high, because=f"{rule.high}={high}")
    elif rule.raises and not reading.given(rule.high):
        reading.adjust(rule.high, low, because=f"{rule.low}={low}")
    else:
        reading.problems.append(f"{rule.low}={low} is above {rule.high}={high}; lower it or raise {rule.high}")


def _keep_delivery_possible(reading: Reading) -> None:
    linger, request = reading.values["linger.ms"], reading.values["request.timeout.ms"]
    least = min(linger + request, INT_MAX)  # as in Java: "for ever" may be written for all of them
    if reading.values["delivery.timeout.ms"] >= least:
        return
    parts = f"linger.ms={linger} + request.timeout.ms={request}"
    if reading.given("delivery.timeout.ms"):
        reading.problems.append(
            f"delivery.timeout.ms={reading.values['delivery.timeout.ms']} is below {parts}; "
            "a record must have the time to wait and to be answered once: raise it or lower one of them"
        )
    else:
        reading.adjust("delivery.timeout.ms", least, because=f"it may not be below {parts}")

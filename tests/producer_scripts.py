"""Stories of a producer and a simulated cluster of three brokers, as lines that any producer can be driven by.

A line is a call of the producer (`new` with its settings, `send TOPIC PARTITION VALUE [SIZE]`, `flush`, `init`,
`begin`, `commit`, `abort`, `offsets GROUP TOPIC OFFSET`), or `settle`: wait for the outcome of all records. A line with
`*` is what the cluster does. Broker 1 leads the partitions 0, and coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs


@attrs.frozen
class Script:
    """One story: its name, and its lines."""

    name: str
    lines: Sequence[str]


def _script(name: str, text: str, *, head: str = "") -> Script:
    return Script(name, [line.strip() for part in (head, text) for line in part.splitlines() if line.strip()])


TOPIC: Final = "* create t 1"
IDEMPOTENT: Final = f"{TOPIC}\nnew enable.idempotence=true"
PLAIN: Final = f"{TOPIC}\nnew enable.idempotence=false acks=all"


def _all() -> Sequence[Script]:
    return [
        _script("an accepted record", "send t 0 a\nsettle", head=IDEMPOTENT),
        _script("a refusal before the append", "* refuse 1 NOT_ENOUGH_REPLICAS\nsend t 0 a\nsettle", head=IDEMPOTENT),
        _script(
            "one transaction",
            "init\nbegin\nsend t 0 a\ncommit",
            head=f"{TOPIC}\nnew transactional.id=x",
        ),
    ]


SCRIPTS: Final[Mapping[str, Script]] = {script.name: script for script in _all()}

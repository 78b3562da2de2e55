"""What a broker's log says went wrong."""

from __future__ import annotations

import re

_WRONG = re.compile(r" ERROR | FATAL |Exception")
# A broker on a busy machine is late with heartbeats to its own controller. No client has a part in that.
_LATE_HEARTBEAT = re.compile(r"org\.apache\.kafka\.controller\.\S+ - .*\bprocess(Expired)?BrokerHeartbeat: ")


def errors_in(log: str) -> list[str]:
    """The lines that say that something went wrong, without those of a broker's late heartbeats."""
    return [line for line in log.splitlines() if _WRONG.search(line) and not _LATE_HEARTBEAT.search(line)]

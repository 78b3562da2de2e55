"""The time settings of batches, and of calls of `send` that wait for memory.

`ottla.sender.batch_expiry` decides which batches expire.
"""

from __future__ import annotations

import attrs

from ottla.network.backoff import Backoff


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TimeSettings:
    """Time settings in seconds, and the backoff of a batch that is sent again.

    `linger` is somewhat shorter than `linger.ms`, for the time that sealing takes. A batch that takes longer than
    `slow_record_threshold` is logged.
    """

    linger: float
    delivery_timeout: float
    max_block: float
    retry_backoff: Backoff
    slow_record_threshold: float = float("inf")

"""Properties of this partitioner for its conformance suite; `ottla plugins check` uses them, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

from ottla_testkit.conformance import PartitionerConformance


class HashRingConformance(PartitionerConformance):
    """All requirements for a partitioner."""

    keys_decide = True
    avoids_lost_leaders = True
    time_limit = 120  # the suite asks for topics of many sizes, and each has a ring

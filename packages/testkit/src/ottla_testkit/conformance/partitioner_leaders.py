"""Requirements for records without a key: partitions with a leader that answers, and all of them."""

from __future__ import annotations

import random
from typing import Final

import pytest

from ottla.interfaces import Partitioner
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.partitioner_calls import COUNTS, LARGE, PartitionerCalls, view_of

_TURNS: Final = 40


class PartitionerLeaders(PartitionerCalls):
    """Tests of views in which some partitions have no leader, or a slow one."""

    def test_records_without_a_key_are_sent_to_a_partition_with_a_leader(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        if not self.avoids_lost_leaders:
            pytest.skip("avoids_lost_leaders is False")
        for count in COUNTS[1:]:
            some = chance.sample(range(count), chance.randrange(1, count))
            # The others too: each partition is without a leader once.
            for available in (tuple(sorted(some)), tuple(sorted(set(range(count)) - set(some)))):
                view = view_of(count, available=available)
                for _ in range(20):
                    chosen = self._ask(partitioner, None, view)
                    check(
                        chosen in available,
                        f"a record without a key was put on partition {chosen}, which has no leader now; partitions "
                        f"with one: {available[:8]}",
                    )
                    self._append(partitioner, chosen, LARGE)

    def test_records_without_a_key_reach_all_partitions_with_a_leader(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        wanted = self.avoids_lost_leaders if self.spreads_keyless is None else self.spreads_keyless
        if not wanted:
            pytest.skip("records without a key need not be spread")
        for count in (2, 3, 12):
            available = tuple(sorted(chance.sample(range(count), (count + 1) // 2)))
            for view in (view_of(count), view_of(count, available=available)):
                seen = {self._ask_for_new_batch(partitioner, view) for _ in range(_TURNS * count)}
                missed = sorted(set(view.available) - seen)
                check(
                    not missed,
                    f"{_TURNS * count} batches without a key never went to the partitions {missed} of {count}, which "
                    "have a leader; spreads_keyless = False allows it",
                )

    def test_records_without_a_key_avoid_partitions_with_a_slow_leader(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        wanted = self.avoids_lost_leaders if self.avoids_slow_leaders is None else self.avoids_slow_leaders
        if not wanted:
            pytest.skip("records without a key may go to partitions with a slow leader")
        for count in COUNTS[1:]:
            some = chance.sample(range(count), chance.randrange(1, count))
            # The others too: each partition has a slow leader once.
            for slow in (frozenset(some), frozenset(range(count)) - frozenset(some)):
                view = view_of(count, slow=slow)
                for _ in range(20):
                    chosen = self._ask(partitioner, None, view)
                    check(
                        chosen not in slow,
                        f"a record without a key was put on partition {chosen}, whose leader is slow, while "
                        f"{count - len(slow)} of {count} partitions have a quick one: leave out those in view.slow; "
                        "avoids_slow_leaders = False allows it",
                    )
                    self._append(partitioner, chosen, LARGE)

"""Requirements for a partitioner's keys: where they may go, and that nothing but the key decides it."""

from __future__ import annotations

import itertools
import random
from typing import Final

import pytest

from ottla.interfaces import (
    Partitioner,
)
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.partitioner_calls import (
    COUNTS,
    KEYS,
    PartitionerCalls,
    hash_of,
    ignores_keys,
    view_of,
    views_of,
)
from ottla_testkit.conformance.partitioner_probes import rehashed

_MANY: Final = 2000


class PartitionerKeys(PartitionerCalls):
    """Tests of records with keys, alone and many at once."""

    def test_a_key_always_has_the_same_partition(self, partitioner: Partitioner, chance: random.Random) -> None:
        if not self._keys_decide(partitioner):
            pytest.skip("keys do not decide where records go")
        keys = [*self._keys(partitioner), *(chance.randbytes(chance.randrange(1, 40)) for _ in range(200))]
        for count in COUNTS:
            first = [self._ask(partitioner, key, view_of(count)) for key in keys]
            for view in views_of(count, chance):
                self._ask(partitioner, None, view)
                for key, before in zip(keys, first, strict=True):
                    chosen = self._ask(partitioner, key, view)
                    check(
                        chosen == before,
                        f"the key {key[:24]!r} went to partition {before} and then to {chosen} of {count}: records of "
                        "one key have to stay in order, so only the key and the number of partitions may decide",
                    )

    def test_a_key_has_the_same_partition_in_every_topic(self, partitioner: Partitioner) -> None:
        if self.keys_decide is not True:
            pytest.skip("`keys_decide` is not True: a topic's name may decide, too")
        for key in (*(b"key-%d" % number for number in range(50)), *self._keys(partitioner)):
            chosen, other = (self._ask(partitioner, key, view_of(100), topic=topic) for topic in ("orders", "refunds"))
            check(
                chosen == other,
                f"the key {key[:24]!r} goes to partition {chosen} of the topic orders and to {other} of refunds, which "
                "has as many partitions, and keys_decide is True: records of one key in two topics could not be "
                "joined; leave keys_decide out if the topic decides, too",
            )

    def test_keys_reach_partitions_that_are_added(self, partitioner: Partitioner) -> None:
        if not self.spreads_keys or ignores_keys(partitioner):
            pytest.skip("keys need not be spread")
        before, after = 2, 24
        keys = [b"key-%d" % number for number in range(_MANY)]
        for key in keys:
            self._ask(partitioner, key, view_of(before))
        seen = {self._ask(partitioner, key, view_of(after)) for key in keys}
        check(
            max(seen) >= before,
            f"after the topic had grown from {before} to {after} partitions, {len(keys)} different keys went to the "
            f"partitions {sorted(seen)}: the number of partitions can increase, so do not keep it; spreads_keys = "
            "False allows it",
        )

    def test_different_keys_reach_many_partitions(self, partitioner: Partitioner) -> None:
        if not self.spreads_keys or ignores_keys(partitioner):
            pytest.skip("keys need not be spread")
        count = 12
        for form, what in ((b"key-%d", ""), (bytes(32) + b"%d", " that differ after the 32nd byte")):
            keys = [form % number for number in range(_MANY)]
            seen = {self._ask(partitioner, key, view_of(count)) for key in keys}
            check(
                2 * len(seen) >= count,
                f"{len(keys)} different keys{what} went to {len(seen)} of {count} partitions ({sorted(seen)}): the "
                "others stay empty; spreads_keys = False allows it",
            )
            check(
                count - 1 in seen,
                f"none of {len(keys)} different keys{what} went to the last of {count} partitions; spreads_keys = "
                "False allows it",
            )

    def test_a_key_has_the_same_partition_in_every_process(self, partitioner: Partitioner) -> None:
        if not self._keys_decide(partitioner):
            pytest.skip("keys do not decide where records go")
        for key in (*(b"key-%d" % number for number in range(50)), *self._keys(partitioner)):
            chosen, otherwise = (self._ask(partitioner, one, view_of(100)) for one in (key, rehashed(key)))
            check(
                chosen == otherwise,
                f"the key {key[:24]!r} goes to partition {chosen} or {otherwise}, depending on Python's hash(), which "
                "differs in each process; use zlib.crc32 or hashlib, for example",
            )

    def test_keys_have_the_partitions_that_places_requires(self, partitioner: Partitioner) -> None:
        if not self.places:
            pytest.skip("optional: the class requires no `places`")
        for (key, count), expected in self.places.items():
            chosen = self._ask(partitioner, key, view_of(count))
            check(
                chosen == expected, f"the key {key!r} went to partition {chosen} of {count}; it belongs on {expected}"
            )

    def test_murmur2_keys_have_the_partitions_of_javas_producer(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        if ignores_keys(partitioner) or hash_of(partitioner) != "murmur2":
            pytest.skip('optional: the partitioner has no hashes = "murmur2"')
        for key, count in itertools.product((*KEYS, *(chance.randbytes(size) for size in range(40))), COUNTS):
            chosen, expected = self._ask(partitioner, key, view_of(count)), partition_for_key(key, count)
            check(
                chosen == expected,
                f'hashes is "murmur2", and the key {key[:24]!r} went to partition {chosen} of {count}; '
                f"Java's producer puts it on {expected}",
            )

    @pytest.mark.parametrize("number", [1, 2, 12, 13, 1000])
    def test_many_keys_at_once_have_the_partitions_of_single_keys(
        self, partitioner: Partitioner, chance: random.Random, number: int
    ) -> None:
        for keys in (
            [chance.randbytes(chance.choice((0, 1, 7, 16, 300))) for _ in range(number)],
            [b"%016d" % one for one in range(number)],
            [b"the same"] * number,
            list(itertools.islice(itertools.cycle(self._keys(partitioner)), number)),
        ):
            for count in COUNTS:
                view = view_of(count)
                column = self._column(partitioner, keys, view)
                if not self._keys_decide(partitioner):
                    continue
                for key, chosen in zip(keys, column, strict=True):
                    alone = self._ask(partitioner, key, view)
                    check(
                        chosen == alone,
                        f"partition_column() put the key {key[:24]!r} on partition {chosen} of {count}, "
                        f"and partition() on {alone}",
                    )

    def test_many_keys_at_once_keep_their_partitions_in_any_view(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        if not self._keys_decide(partitioner):
            pytest.skip("keys do not decide where records go")
        keys = [*(b"key-%d" % number for number in range(40)), *self._keys(partitioner)]
        for count in (2, 3, 12):
            alone = [self._ask(partitioner, key, view_of(count)) for key in keys]
            for view in views_of(count, chance):
                for key, before, chosen in zip(keys, alone, self._column(partitioner, keys, view), strict=True):
                    check(
                        chosen == before,
                        f"partition_column() put the key {key[:24]!r} on partition {chosen} of {count} when "
                        f"{len(view.available)} have a leader, and partition() on {before}: only the key and the "
                        "number of partitions may decide",
                    )

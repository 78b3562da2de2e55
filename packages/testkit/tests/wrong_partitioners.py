"""Partitioners that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import itertools
import random
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ottla.errors import InvalidRecordError
from ottla.interfaces import RecordView, TopicView
from ottla.plugins.partitioners.murmur2_hash import murmur2


def candidates_of(view: TopicView) -> Sequence[int]:
    """The partitions for records without a key."""
    quick = [partition for partition in view.available if partition not in view.slow]
    return quick or view.available or range(view.partitions)


class Right:
    """Keys by their checksum; the rest stays on a partition for a megabyte."""

    sticky = True
    ignores_keys = False

    def __init__(self) -> None:
        self.stays: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        if key is not None:
            return self.of_key(key, view)
        stay = self.stays.setdefault(topic, 0)
        candidates = candidates_of(view)
        return candidates[stay % len(candidates)]

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        return [self.of_key(key, view) for key in keys]

    def appended(self, topic: str, partition: int, size: int) -> None:
        if size >= 1 << 20:
            self.stays[topic] = self.stays.get(topic, 0) + 1

    def of_key(self, key: bytes, view: TopicView) -> int:
        return zlib.crc32(key) % view.partitions


class RightByTurns:
    """Keys by their checksum; the rest by turns in each topic."""

    def __init__(self) -> None:
        self.turns: dict[str, itertools.count[int]] = {}

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        if key is not None:
            return zlib.crc32(key) % view.partitions
        candidates = candidates_of(view)
        return candidates[self.turn(topic) % len(candidates)]

    def turn(self, topic: str) -> int:
        return next(self.turns.setdefault(topic, itertools.count()))


class OneTurnForAllTopics(RightByTurns):
    def turn(self, topic: str) -> int:
        return super().turn("all")


class NeverTheLast(RightByTurns):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        if key is not None:
            return super().partition(topic, key, view)
        candidates = view.available or range(view.partitions)
        return candidates[self.turn(topic) % max(1, len(candidates) - 1)]


class RightByRecord:
    """Chooses by a header; without one, by the key."""

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        raise AssertionError("a partitioner by records is asked for records")

    def partition_record(self, record: RecordView, view: TopicView) -> int:
        where = dict(record.headers).get("name") or record.key or b""
        return zlib.crc32(where) % view.partitions


class NeedsAHeader(RightByRecord):
    def partition_record(self, record: RecordView, view: TopicView) -> int:
        return len(record.headers[0][0]) % view.partitions


class LongValues(RightByRecord):
    def partition_record(self, record: RecordView, view: TopicView) -> int:
        return len(record.value or b"")


class DividesHalfOfThePartitions(Right):
    """Keys of a region have half of the partitions, which may be none."""

    def of_key(self, key: bytes, view: TopicView) -> int:
        if key.startswith(b"eu-"):
            return zlib.crc32(key) % (view.partitions // 2)
        return super().of_key(key, view)


class HashesARegionAsPython(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        region, _, rest = key.decode("latin-1").partition("-")
        return hash(rest) % view.partitions if region == "eu" else super().of_key(key, view)


class RollsDiceForItsOwn(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return random.randrange(view.partitions) if len(key) == 77 else super().of_key(key, view)


class RefusesAPrefix(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        if key[:4] == b"bad-":
            raise InvalidRecordError("keys of bad- are refused")
        return super().of_key(key, view)


class OneTooMany(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return zlib.crc32(key) % (view.partitions + 1)


class Negative(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return zlib.crc32(key) % view.partitions - 1


class RemembersTheFirstView(Right):
    def __init__(self) -> None:
        super().__init__()
        self.partitions: int | None = None

    def of_key(self, key: bytes, view: TopicView) -> int:
        self.partitions = self.partitions or view.partitions
        return zlib.crc32(key) % self.partitions


class KeepsTheFirstNumber(Right):
    """Never sees that the topic has grown."""

    count: int | None = None

    def of_key(self, key: bytes, view: TopicView) -> int:
        self.count = self.count or view.partitions
        return zlib.crc32(key) % min(self.count, view.partitions)


class HashesTheTopicToo(RightByTurns):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        if key is None:
            return super().partition(topic, key, view)
        return zlib.crc32(key + topic.encode()) % view.partitions


class OneCountForAllTopics(Right):
    """Takes the count that the last record without a key saw."""

    count = 2

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        if key is None:
            self.count = view.partitions
            return super().partition(topic, key, view)
        return zlib.crc32(key) % self.count


class NeedsAKey(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return self.of_key(key, view)  # type: ignore[arg-type]


class NeedsALeader(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return view.available[0] if key is None else self.of_key(key, view)


class NeedsAByte(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return key[0] % view.partitions


class ReadsTextOnly(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return len(key.decode()) % view.partitions


class FloatingPoint(Right):
    def of_key(self, key: bytes, view: TopicView) -> Any:
        return float(zlib.crc32(key) % view.partitions)


class RollsDice(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return random.randrange(view.partitions)


class FollowsTheLeaders(Right):
    """Keys go where a leader is, so that their order is lost when one goes away."""

    def of_key(self, key: bytes, view: TopicView) -> int:
        candidates = view.available or range(view.partitions)
        return candidates[zlib.crc32(key) % len(candidates)]


class IgnoresLeaders(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return self.of_key(key or b"", view)


class IgnoresSlowLeaders(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return super().partition(topic, key, attrs.evolve(view, slow=frozenset()))


class ForgetsThatTheFirstIsSlow(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return super().partition(topic, key, attrs.evolve(view, slow=view.slow - {0}))


class TakesNotesInTheView(Right):
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        view.queued_bytes[0] += 1  # type: ignore[index]
        return super().partition(topic, key, view)


class OtherColumn(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        return [zlib.adler32(key) % view.partitions for key in keys]


class ColumnOfTexts(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Any:
        return [str(partition) for partition in super().partition_column(topic, keys, view)]


class ShortColumn(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        return super().partition_column(topic, keys, view)[: len(set(keys))]


class ColumnOfAGenerator(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Any:
        return (self.of_key(key, view) for key in keys)


class EatsTheKeys(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        chosen = super().partition_column(topic, keys, view)
        if isinstance(keys, list):
            keys.sort()
        return chosen


class ColumnFollowsTheLeaders(Right):
    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        return [zlib.crc32(key) % (len(view.available) or view.partitions) for key in keys]


class HashesAsPython(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return hash(key) % view.partitions


class HashesTextAsPython(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return hash((view.partitions, key.decode("latin-1"))) % view.partitions


class NeverTheLastForKeys(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return zlib.crc32(key) % max(1, view.partitions - 1)


class ReadsThePrefix(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return zlib.crc32(key[:8]) % view.partitions


class ShowsAnEmptyTable(Right):
    """Keeps a table for each number of partitions, and fills it where other threads can read it."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, list[int]] = {}

    def of_key(self, key: bytes, view: TopicView) -> int:
        table = self.tables.get(view.partitions)
        if table is None:
            table = self.tables[view.partitions] = []
            for point in range(20 * view.partitions):
                table.append(point % view.partitions)
        return table[zlib.crc32(key) % len(table)]


class NearlyMurmur2(Right):
    """Forgets that Java's hash has a sign: most keys are where they belong."""

    hashes = "murmur2"

    def of_key(self, key: bytes, view: TopicView) -> int:
        return murmur2(key) % view.partitions


class StaysForEver(Right):
    def appended(self, topic: str, partition: int, size: int) -> None:
        pass


class LearnsNothing(Right):
    appended = None  # type: ignore[assignment]


class KnowsOnlyItsTopics(Right):
    def appended(self, topic: str, partition: int, size: int) -> None:
        self.stays[topic] = self.stays[topic] + (size >= 1 << 20)


class TornByThreads(Right):
    """Puts the view aside where other threads put theirs."""

    def of_key(self, key: bytes, view: TopicView) -> int:
        self.view = view
        hashed = zlib.crc32(key)
        time.sleep(0.001)  # what a longer computation does now and then
        return hashed % self.view.partitions


class AlwaysTheFirst(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        return 0


class AsksADatabase(Right):
    def of_key(self, key: bytes, view: TopicView) -> int:
        time.sleep(0.05)
        return super().of_key(key, view)


class TornBetweenLines(Right):
    """Like TornByThreads, without a wait that makes it likely."""

    def of_key(self, key: bytes, view: TopicView) -> int:
        self.view = view
        hashed = zlib.crc32(key)
        return hashed % self.view.partitions


class CountsWithAGenerator(Right):
    def __init__(self) -> None:
        super().__init__()
        self.counter = self.count()

    def count(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return next(self.counter) % view.partitions if key is None else self.of_key(key, view)


class WaitsForItself(Right):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        with self.lock:
            return self.of_key(key, view) if key is not None else self.again()

    def again(self) -> int:
        with self.lock:
            return 0


class ForgetsInOnNewBatch(Right):
    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> None:
        del self.stays[topic]

"""All requirements for a `Compressor`.

```python
class TestMine(CompressorConformance):
    levels = (1, 6, 9)

    @pytest.fixture
    def compressor(self):
        return MyCompressor()
```

The core's own codec of that id reads its output, and the other way round. Its input for decompression may be damaged,
cut, not compressed at all, or a decompression bomb.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import pytest

from ottla.errors import PluginNotFoundError, ProtocolError, with_article
from ottla.interfaces import Buffer, Compressor
from ottla.plugins.registry import Registry
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.schedules import check_orders
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SNAPPY: Final = 2

OF_KAFKA: Final = {
    1: "1f8b0800000000000203cbcf4b5500004961ac2304000000",
    2: "82534e4150505900000000010000000100000006040c6f6e6520",
    3: "04224d18604082040000806f6e652000000000",
    4: "28b52ffd20042100006f6e6520",
}
"""`one ` as Java's producer compresses it, by codec."""

BOMBS: Final = {
    2: "82534e4150505900000000010000000100000007ffffffff0f0061",
    3: "04224d1868400000000000010000b7040000806f6e652000000000",
    4: "28b52ffdc07000000000000100000b000061",
}
"""A few bytes that announce gigabytes, for formats with a size field."""

_BOMB: Final = 64 << 20
_LIMIT: Final = 1 << 20
_AROUND: Final = 24 << 20
_BLOCK: Final = 1 << 20
_CUTS: Final = 40
_THREADS: Final = 6
_SCHEDULED: Final = 4
_TIMES: Final = 30
_NO_LIMIT: Final = 1 << 30

Payload = Sequence[bytes | bytearray | memoryview]


class CompressorConformance(BoundedSuite):
    """Tests of a compressor: derive a class `Test...` from it, and override the fixture `compressor`."""

    subject: ClassVar[str] = "compressor"
    contract: ClassVar[type] = Compressor
    levels: ClassVar[Sequence[int]] = ()
    """Levels that `compress` accepts; None, its own default, is always tried."""

    @pytest.fixture
    def compressor(self) -> Compressor:
        """The compressor under test; a new one for each test."""
        raise NotImplementedError("give a fixture `compressor` that returns your Compressor")

    def test_it_has_all_attributes_of_the_contract(self, compressor: Compressor) -> None:
        check_contract(compressor, Compressor)
        codec_id: object = compressor.codec_id
        check(
            type(codec_id) is int and codec_id in CODECS,
            f"codec_id is {codec_id!r}, and none of Kafka's: 1 gzip, 2 snappy, 3 lz4 or 4 zstd",
        )

    # Round trips

    def test_compressed_data_is_decompressed(self, compressor: Compressor, chance: random.Random) -> None:
        for payload in _payloads(chance):
            for level in (None, *self.levels):
                self._there_and_back(compressor, payload, level=level)

    def test_empty_data_is_compressed_and_decompressed(self, compressor: Compressor) -> None:
        nothing: list[Payload] = [[], [b""], [b"", memoryview(b""), bytearray()]]
        for payload in nothing:
            self._there_and_back(compressor, payload)

    def test_chunk_boundaries_do_not_matter(self, compressor: Compressor, chance: random.Random) -> None:
        whole = _text(chance, 300_000)
        places = sorted(chance.randrange(len(whole)) for _ in range(50))
        pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
        self._there_and_back(compressor, pieces)
        self._there_and_back(compressor, [whole[at : at + 7] for at in range(0, 70_000, 7)])

    def test_its_arguments_are_not_changed(self, compressor: Compressor, chance: random.Random) -> None:
        changeable = bytearray(_text(chance, 5000))
        given: list[Buffer] = [changeable, memoryview(b"more" * 1000)]
        before, plain = list(given), bytes(changeable)
        packed = self._pack(compressor, given)
        check(
            len(given) == len(before) and all(one is other for one, other in zip(given, before, strict=True)),
            "compress() changed the list of chunks, which is the caller's",
        )
        check(bytes(changeable) == plain, "compress() changed the bytes of a chunk")
        again = bytearray(packed)
        self._unpack(compressor, again, limit=_NO_LIMIT)
        check(bytes(again) == packed, "decompress() changed the bytes that it was given")

    def test_compressed_bytes_may_come_in_any_kind_of_buffer(
        self, compressor: Compressor, chance: random.Random
    ) -> None:
        plain = _text(chance, 50_000)
        packed = self._pack(compressor, [plain])
        around = b"before" + packed + b"behind"
        for buffer in (packed, bytearray(packed), memoryview(packed), memoryview(around)[6 : 6 + len(packed)]):
            unpacked = self._unpack(compressor, buffer, limit=len(plain))
            check(
                unpacked == plain,
                f"decompress() of {with_article(type(buffer).__name__)} "
                f"{_outcome(unpacked, 'gave other bytes than were packed')}",
            )

    def test_the_level_is_used(self, compressor: Compressor, chance: random.Random) -> None:
        if len(set(self.levels)) < 2:
            pytest.skip("`levels` has fewer than two levels to compare")
        text = _text(chance, 200_000)
        check(
            len({self._pack(compressor, [text], level=level) for level in self.levels}) > 1,
            f"compress() made the same bytes of a text at each of the levels {tuple(self.levels)}; is `level` ignored?",
        )

    # Kafka's format

    def test_bytes_compressed_by_kafka_are_read(self, compressor: Compressor) -> None:
        packed = bytes.fromhex(OF_KAFKA[compressor.codec_id])
        plain = self._unpack(compressor, packed, limit=1000)
        name = CODECS[compressor.codec_id]
        check(
            plain == b"one ",
            f"what Java's producer packed with {name} "
            f"{_outcome(plain, f'was read as {plain!r}', refused='was refused')}; in Kafka's framing it is b'one '",
        )

    def test_the_codec_of_the_core_reads_it_and_is_read(self, compressor: Compressor, chance: random.Random) -> None:
        reference = _reference(compressor.codec_id)
        for payload in _payloads(chance):
            plain = b"".join(payload)
            for level in (None, *self.levels):
                packed = self._pack(compressor, payload, level=level)
                name = f"ottla's own {CODECS[compressor.codec_id]}"
                try:
                    read = reference.decompress(packed, limit=len(plain))
                except ProtocolError as error:
                    fail(f"{name} cannot read what compress() made of {len(plain)} bytes: {error}", error)
                check(read == plain, f"{name} reads other bytes than compress() was given")
            theirs = self._unpack(compressor, reference.compress(payload, level=None), limit=len(plain))
            check(
                theirs == plain,
                f"decompress() of {len(plain)} bytes that {name} packed {_outcome(theirs, 'gave other bytes')}",
            )

    # Limits

    @pytest.mark.parametrize("size", [1, 1000, 40_000, 1_000_000])
    def test_exactly_the_limit_is_allowed_and_one_byte_more_is_refused(
        self, compressor: Compressor, chance: random.Random, size: int
    ) -> None:
        for plain in (bytes(size), chance.randbytes(size)):
            packed = self._pack(compressor, [plain])
            whole = self._unpack(compressor, packed, limit=size)
            check(
                whole == plain,
                f"decompress() of {size} bytes with a limit of {size} {_outcome(whole, 'gave other bytes')}",
            )
            for limit in {size - 1, size // 2, 0}:
                check(
                    _is_refused(self._unpack(compressor, packed, limit=limit)),
                    f"decompress() gave {size} bytes with a limit of {limit}; it must raise ProtocolError",
                )

    def test_a_decompression_bomb_is_stopped(self, compressor: Compressor) -> None:
        packed = self._pack(compressor, [bytes(_BLOCK)] * (_BOMB // _BLOCK))
        unpacked, peak = _measured(lambda: self._unpack(compressor, packed, limit=_LIMIT))
        check(_is_refused(unpacked), f"a bomb of {_BOMB} bytes was unpacked with a limit of {_LIMIT}")
        check(
            peak < _LIMIT + _AROUND,
            f"decompress() took {peak} bytes of memory before it refused a bomb, with a limit of {_LIMIT}: it has to "
            "check the limit while it unpacks, not afterwards",
        )

    def test_a_bomb_of_another_compressor_is_stopped(self, compressor: Compressor) -> None:
        packed = _reference(compressor.codec_id).compress([bytes(_BOMB)], level=None)
        unpacked, peak = _measured(lambda: self._unpack(compressor, packed, limit=_LIMIT))
        check(_is_refused(unpacked), f"a bomb of {_BOMB} bytes was unpacked with a limit of {_LIMIT}")
        check(
            peak < _LIMIT + _AROUND,
            f"decompress() took {peak} bytes of memory for a bomb that ottla's own {CODECS[compressor.codec_id]} has "
            f"made, with a limit of {_LIMIT}: data of another compressor may have larger blocks",
        )

    def test_an_announced_size_takes_no_memory(self, compressor: Compressor) -> None:
        if compressor.codec_id not in BOMBS:
            pytest.skip("this form announces no size")
        bomb = bytes.fromhex(BOMBS[compressor.codec_id])
        unpacked, peak = _measured(lambda: self._unpack(compressor, bomb, limit=1 << 42))
        check(
            _is_refused(unpacked), f"decompress() made {unpacked!r} of {len(bomb)} bytes that only announce gigabytes"
        )
        check(
            peak < _LIMIT + _AROUND,
            f"decompress() took {peak} bytes of memory on the word of {len(bomb)} bytes, which announce gigabytes",
        )

    # Damage

    def test_truncated_data_is_refused(self, compressor: Compressor, chance: random.Random) -> None:
        plain = _text(chance, 100_000)
        packed = self._pack(compressor, [plain])
        for place in sorted({1, 2, *(len(packed) * step // _CUTS for step in range(1, _CUTS)), len(packed) - 1}):
            cut = packed[:place]
            unpacked = self._unpack_in_time(compressor, cut, limit=len(plain))
            # Snappy's framing has no end mark: data that stops after a block may be complete.
            check(
                isinstance(unpacked, ProtocolError) or (compressor.codec_id == SNAPPY and plain.startswith(unpacked)),
                f"of {len(packed)} packed bytes {place} were given, and decompress() made "
                f"{_size(unpacked)} bytes of them; malformed input is a ProtocolError",
            )
        self._there_and_back(compressor, [plain])

    def test_damaged_data_is_refused_or_read_within_the_limit(
        self, compressor: Compressor, chance: random.Random
    ) -> None:
        plain = _text(chance, 20_000)
        packed = self._pack(compressor, [plain])
        for _ in range(200):
            damaged = bytearray(packed)
            for _ in range(chance.choice((1, 1, 2, 10))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            self._unpack_in_time(compressor, bytes(damaged), limit=len(plain))
        self._there_and_back(compressor, [plain])

    def test_garbage_is_refused_or_read_within_the_limit(self, compressor: Compressor, chance: random.Random) -> None:
        start = bytes.fromhex(OF_KAFKA[compressor.codec_id])
        garbage = [b"", b"\0", bytes(100), b"\xff" * 100, *map(bytes.fromhex, OF_KAFKA.values())]
        garbage += [start[: chance.randrange(len(start))] + chance.randbytes(chance.randrange(100)) for _ in range(200)]
        for data in garbage:
            self._unpack_in_time(compressor, data, limit=1000)
        self._there_and_back(compressor, [b"still works"])

    # Threads

    def test_many_threads_compress_and_decompress_at_once(self, compressor: Compressor, chance: random.Random) -> None:
        texts = [_text(chance, 20_000 + 1000 * number) for number in range(_THREADS)]

        def work(plain: bytes) -> None:
            for turn in range(_TIMES):
                packed = self._pack(compressor, [plain[: 5000 + turn], plain[5000 + turn :]])
                unpacked = self._unpack(compressor, packed, limit=len(plain))
                check(
                    unpacked == plain,
                    "by many threads at once, "
                    f"{_outcome(unpacked, 'other bytes were unpacked than were packed', refused='it was refused')}: a "
                    "compressor is shared by threads, and what is no thread's own must not be in it",
                )

        together(self.timeout * 3, [lambda plain=plain: work(plain) for plain in texts], call="packing")  # type: ignore[misc]

    def test_threads_may_change_at_any_line(self, compressor: Compressor, chance: random.Random) -> None:
        texts = [_text(chance, 2000 + 100 * number) for number in range(_SCHEDULED)]

        works = [partial(self._there_and_back, compressor, [text[:500], text[500:]]) for text in texts]
        check_orders(works, "give each call a stream and variables of its own")

    # The end

    def test_close_ends_background_work(
        self, started_threads: StartedThreads, compressor: Compressor, chance: random.Random
    ) -> None:
        with self._closed_after(compressor, started_threads):
            self._there_and_back(compressor, [_text(chance, 50_000)])

    # Shared by the tests

    def _there_and_back(self, compressor: Compressor, payload: Payload, *, level: int | None = None) -> None:
        plain = b"".join(payload)
        packed = self._pack(compressor, payload, level=level)
        unpacked = self._unpack(compressor, packed, limit=len(plain))
        check(
            unpacked == plain,
            f"{len(plain)} bytes in {len(payload)} chunks were packed (level {level}), and "
            f"{_outcome(unpacked, f'{_size(unpacked)} other bytes unpacked', refused='refused')}",
        )

    def _pack(self, compressor: Compressor, chunks: Payload, *, level: int | None = None) -> bytes:
        try:
            packed: Any = self.timed(f"compress() at level {level}", lambda: compressor.compress(chunks, level=level))
        except Exception as error:
            kinds = ", ".join(sorted({type(chunk).__name__ for chunk in chunks})) or "none"
            fail(f"compress() of {len(chunks)} chunks ({kinds}) with level {level} raised {error!r}", error)
        check(type(packed) is bytes, f"compress() returned {with_article(type(packed).__name__)}; it must be bytes")
        return bytes(packed)

    def _unpack(self, compressor: Compressor, packed: Buffer, *, limit: int) -> bytes | ProtocolError:
        """Return the decompressed data, or the error that refused it."""
        try:
            plain: Any = self.timed("decompress()", lambda: compressor.decompress(packed, limit=limit))
        except ProtocolError as error:
            return error
        except Exception as error:
            fail(
                f"decompress() of {bytes(packed[:16])!r}... raised {error!r}; malformed input, and more than the "
                "limit, is a ProtocolError",
                error,
            )
        check(type(plain) is bytes, f"decompress() returned {with_article(type(plain).__name__)}; it must be bytes")
        check(len(plain) <= limit, f"decompress() gave {len(plain)} bytes with a limit of {limit}")
        return bytes(plain)

    def _unpack_in_time(self, compressor: Compressor, packed: bytes, *, limit: int) -> bytes | ProtocolError:
        return within(
            self.timeout,
            f"decompress() of {packed[:16]!r}... ({len(packed)} bytes)",
            lambda: self._unpack(compressor, packed, limit=limit),
            remedy="input that never ends must be refused",
        )


def _payloads(chance: random.Random) -> list[Payload]:
    words = _text(chance, 200_000)
    return [
        [b"x"],
        [b"one chunk"],
        [bytes(1_000_000)],
        [chance.randbytes(300_000)],
        [words],
        [bytearray(words[:70_000])],
        [memoryview(words)[5:66_000]],
        [b"", words[:10], b"", memoryview(words)[10:40_000], bytearray(words[40_000:]), b""],
        [b"%d" % number for number in range(10_000)],
        (b"a tuple", memoryview(words)[:100]),
        [bytes(32_768)],
        [bytes(65_536), bytes(65_536), b"!"],
    ]


def _text(chance: random.Random, size: int) -> bytes:
    """Return text that compresses about as well as records."""
    words = [chance.randbytes(chance.randrange(2, 12)).hex().encode() for _ in range(200)]
    text = b" ".join(chance.choices(words, k=size // 8))
    return (text * (size // len(text) + 1))[:size]


def _reference(codec_id: int) -> Compressor:
    """Return the core's own codec, with its defaults."""
    try:
        plugin = Registry().plugin("compressor", CODECS[codec_id])
        reference: Compressor = plugin.create({key.name: key.default for key in plugin.config_keys()})
    except PluginNotFoundError as error:
        pytest.skip(f"ottla's own codec is not there to compare with: {error}")
    return reference


def _is_refused(unpacked: bytes | ProtocolError) -> bool:
    return isinstance(unpacked, ProtocolError)


def _size(unpacked: bytes | ProtocolError) -> int:
    return 0 if isinstance(unpacked, ProtocolError) else len(unpacked)


def _outcome(unpacked: bytes | ProtocolError, otherwise: str, *, refused: str = "refused it") -> str:
    """Return what decompress() did, with the compressor's own words if it refused its input."""
    return f"{refused} with {unpacked!r}" if isinstance(unpacked, ProtocolError) else otherwise


def _measured(work: Callable[[], bytes | ProtocolError]) -> tuple[bytes | ProtocolError, int]:
    """Return the result, and the peak memory of Python's objects; the test is skipped where none is counted."""
    tracemalloc = pytest.importorskip("tracemalloc", reason="this Python does not count memory", exc_type=ImportError)
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

# ruff: noqa
# fmt: off
"""Broken variants of the plugin: name, file, old text, new text, and a piece of the message that catches it, or None."""

SUITE = "TestPlain"
CHECK = "encoder:plain"
P = "src/ottla_encoder_plain/plugin.py"
C = "src/ottla_encoder_plain/columns.py"
F = "src/ottla_encoder_plain/formats.py"
V = "src/ottla_encoder_plain/varints.py"

VARIANTS = [
    # Bytes
    ("varint_off_by_one", V, "    while rest > 0x7F:", "    while rest >= 0x7F:", "First record: a key of"),
    ("varint_negative", V, "(~number << 1) | 1", "(-number << 1) | 1", "First record: a key of -"),
    ("varint_table_short", V, "if 0 <= number < _KNOWN else", "if 0 <= number <= _KNOWN else", "IndexError"),
    ("varint_table_negative", V, "if 0 <= number < _KNOWN else", "if -2 < number < _KNOWN else", "First record: a key of"),
    ("empty_value_is_null", F, "((NULL,) if value is None else (varint(len(value)), value))", "((NULL,) if not value else (varint(len(value)), value))", "First record: a key of"),
    ("empty_header_is_null", F, "parts += (NULL,) if value is None else", "parts += (NULL,) if not value else", "First record: a key of -"),
    ("delta_to_previous", F, "        section += varint(len(record))\n", "        first_timestamp = timestamp_ms\n        section += varint(len(record))\n", "First record: a key of"),
    ("index_from_one", F, "for index, (key, value, headers, timestamp_ms) in enumerate(rows):", "for index, (key, value, headers, timestamp_ms) in enumerate(rows, 1):", "First record: a key of"),
    ("header_length_in_characters", F, "parts += (varint(len(encoded)), encoded)", "parts += (varint(len(name)), encoded)", "First record: a key of"),
    ("crc_with_length", F, "len(body) + 4, zlib.crc32(body))", "len(body) + 4, zlib.crc32(struct.pack('>i', len(body)) + body))", "First record: a key of"),
    ("v0_with_time", F, 'struct.pack(">q", timestamp_ms) if magic else b""', 'struct.pack(">q", timestamp_ms)', "First record: a key of"),
    ("v1_first_is_none", C, "        if magic == 0:\n", "        if magic < 2:\n", "records in format v"),
    ("latest_is_last", C, "max(self._timestamps)", "self._timestamps[-1]", "records in format v"),
    ("first_is_lowest", C, "first, latest = self._first_timestamp, max", "first, latest = min(self._timestamps), max", "First record: a key of"),
    ("chunk_bytearray", F, "    return bytes(section)", "    return section", None),
    ("chunks_empty_before", C, "chunks=[section]", "chunks=[b'', section]", None),
    ("buffer_shared", F, "    section = bytearray()\n", "    section = records_section.__dict__.setdefault('section', bytearray())\n    section.clear()\n", "by many threads at once, "),
    ("headers_encoded_late", F, "    return b\"\".join(parts)\n\n\ndef records", "    return memoryview(b\"\".join(parts))\n\n\ndef records", None),
    # Room
    ("limit_off_by_one", C, "elif memory > self._limit or", "elif memory >= self._limit or", "although memory() is then the limit, and not above it"),
    ("first_refused_too", C, "        if not self._count:\n            self._first_timestamp = timestamp_ms\n", "        if not self._count:\n            self._first_timestamp = timestamp_ms\n            if memory > self._limit:\n                return False\n", "although the first one has room, whatever the limit"),
    ("closed_ignored", C, "        if self._closed:\n            return False\n", "", "append() took a record after close() and allow"),
    ("closed_forgotten_by_allow", C, "        self._limit = memory\n", "        self._limit = memory\n        self._closed = False\n", "append() took a record after close() and allow"),
    ("allow_only_grows", C, "        self._limit = memory\n", "        self._limit = max(memory, self._limit)\n", "append() took a record, although allow() has set a limit without room"),
    ("headers_free", C, "            memory += _SECTION_COST + len(headers)\n", "            pass\n", "bytes on the wire, and memory() said"),
    ("cost_too_low", C, "RECORD_COST: Final = 192", "RECORD_COST: Final = 64", None),
    ("cost_not_counted", C, "self._memory + RECORD_COST + parts", "self._memory + parts", "bytes on the wire, and memory() said"),
    ("estimate_too_low", C, "_FRAME: Final = 34", "_FRAME: Final = 9", "bytes, and size_estimate() said"),
    ("estimate_slightly_low", C, "_FRAME: Final = 34", "_FRAME: Final = 20", None),
    ("estimate_gone", C, "        return self._wire", "        return self._wire if self._keys else 0", "size_estimate() said 0 after encode()"),
    ("memory_gone", C, "        return self._memory\n", "        return self._memory if self._keys else 0\n", None),
    ("delta_ignored", C, " or timestamp_ms - self._first_timestamp > _LATEST:", ":", "append() took timestamp"),
    ("delta_off_by_one", C, " or timestamp_ms - self._first_timestamp > _LATEST:", " or timestamp_ms - self._first_timestamp >= _LATEST:", "append() returned None for a key of -"),
    ("timestamp_unchecked", C, "        if not NO_TIMESTAMP <= timestamp_ms <= _LATEST:\n", "        if timestamp_ms > _LATEST:\n", "and headers (), which no format can hold"),
    ("no_timestamp_refused", C, "        if not NO_TIMESTAMP <= timestamp_ms <= _LATEST:\n", "        if not 0 <= timestamp_ms <= _LATEST:\n", "append() raised InvalidRecordError"),
    ("surrogates_ignored", F, "            encoded = name.encode()\n", "            encoded = name.encode(errors='replace')\n", "which no format can hold"),
    # State
    ("index_from_len_after", C, "        return self._count - 1 if self._add(", "        return self._count if self._add(", "append() returned index"),
    ("lists_shared", C, "        self._keys: list[bytes | None] = []\n", "        self._keys: list[bytes | None] = self.append.__func__.__dict__.setdefault('keys', [])\n", "records raised ValueError"),
    ("one_columns", P, "        return PlainColumns(limit) if kind", "        self._made = getattr(self, '_made', None) or PlainColumns(limit)\n        return self._made if kind", "append() returned index"),
    ("arrow_too", P, " if kind is ColumnsKind.OBJECTS else None", "", None),
    ("headers_lost_for_old_brokers", C, "        elif any(headers != NO_HEADERS for headers in self._headers):\n", "        elif False:\n", "did not refuse headers, for which the format has no place"),
    ("released_before_refusal", C, "            raise UnsupportedVersionError(", "            self.release()\n            raise UnsupportedVersionError(", "; it must be UnsupportedVersionError"),
    ("facts_gone", C, "        self._facts = self.facts()\n", "", "facts() after encode() has other timestamps than were appended"),
    ("facts_share_list", C, "timestamps_ms=self._timestamps.copy()", "timestamps_ms=self._timestamps", None),
    ("null_size_zero", C, "    return [-1 if part is None else len(part) for part in parts]", "    return [len(part or b'') for part in parts]", "facts() before has other sizes of "),
    ("key_sizes_always", C, "_sizes(self._keys) if with_keys else None", "_sizes(self._keys)", None),
    ("count_gone_with_release", C, "        return self._count\n", "        return len(self._keys)\n", "after encode(), one record is"),
    ("release_keeps", C, "        self._keys, self._values, self._headers, self._timestamps = [], [], [], []", "        pass", None),
    ("extend_all_or_nothing", C, "                return taken\n", "                return 0\n", "; the first one always has room"),
    ("extend_goes_on", C, "                return taken\n", "                continue\n", "extend() took "),
    ("extend_count_off", C, "                return taken\n", "                return taken + 1\n", "extend() took "),
    ("extend_without_check", C, "            if not self._add(other._row(index)):", "            if not self._add(other._row(taken)):", "facts() after extend() has other timestamps than were appended"),
    ("encode_waits", C, "        if magic == 2:\n", "        __import__('time').sleep(3)\n        if magic == 2:\n", "the suite has taken 30 s"),
    ("append_waits", C, "        if self._closed:\n            return False\n", "        __import__('time').sleep(0.05)\n        if self._closed:\n            return False\n", "the suite has taken 30 s"),
    ("record_cost_low", P, "record_cost = RECORD_COST", "record_cost = 1", "bytes of their own occupy"),
    ("record_cost_high", P, "record_cost = RECORD_COST", "record_cost = 10_000", None),
    ("limit_after", C, "        elif memory > self._limit or", "        elif self._memory > self._limit or", "append() took a record, and memory() is"),
    ("append_when_closed_raises", C, "        if self._closed:\n            return False\n", "        if self._closed:\n            raise RuntimeError('closed')\n", "append() took a record after close() and allow()"),
    ("index_not_returned", C, "        return self._count - 1 if self._add(", "        return None if self._add(", "append() returned None for a key of"),
    ("keys_after_encode", C, "        return self._keys\n", "        return [key for key in self._keys if key]\n", "records gave other keys than were appended"),
]

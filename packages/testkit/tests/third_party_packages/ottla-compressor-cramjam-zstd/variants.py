# ruff: noqa: E501
"""Broken variants: (name, file, old text, new text, a piece of the message by which the suite caught it, or None)."""

P = "src/ottla_compressor_cramjam_zstd/plugin.py"
CALL = 'bytes(self._zstd.compress(b"".join(chunks), level=_DEFAULT_LEVEL if level is None else level))'
MALFORMED = 'raise ProtocolError(f"malformed zstd data: {error}") from error'

VARIANTS = [
    ("the level is ignored", P, "_DEFAULT_LEVEL if level is None else level", "_DEFAULT_LEVEL", "is `level` ignored?"),
    (
        "negative levels are 1",
        P,
        "_DEFAULT_LEVEL if level is None else level",
        "_DEFAULT_LEVEL if level is None else max(1, level)",
        None,
    ),
    (
        "a frame for each piece",
        P,
        CALL,
        'b"".join(bytes(self._zstd.compress(c, level=_DEFAULT_LEVEL if level is None else level)) for c in chunks)',
        "were packed (level None), and refused",
    ),
    ("only the first piece", P, 'b"".join(chunks)', "chunks[0]", "other bytes unpacked"),
    (
        "no bytes, but a Buffer of cramjam",
        P,
        CALL,
        'self._zstd.compress(b"".join(chunks), level=_DEFAULT_LEVEL if level is None else level)',
        "it must be bytes",
    ),
    (
        "memoryviews are left out",
        P,
        'b"".join(chunks)',
        'b"".join(c for c in chunks if isinstance(c, bytes))',
        "other bytes unpacked",
    ),
    ("limit is ignored", P, "size = min(limit, 4 * size)", "pass", "the suite has taken"),
    (
        "no limit at all",
        P,
        '                if size >= limit:\n                    raise ProtocolError(f"the zstd data has more than the'
        ' allowed {limit} bytes") from error\n                size = min(limit, 4 * size)\n',
        "                size = 4 * size\n",
        "the suite has taken",
    ),
    (
        "one byte more than the limit",
        P,
        "size = min(limit, max(",
        "size = min(limit + 1, max(",
        "gave 1 bytes with a limit of 0",
    ),
    (
        "the limit itself is refused",
        P,
        "            else:\n                return bytes(",
        "            else:\n                if written >= limit:\n                    raise ProtocolError('too many')\n"
        "                return bytes(",
        "and refused",
    ),
    ("zeros at the end", P, "bytes(memoryview(plain)[:written])", "bytes(plain)", "was read as"),
    (
        "ValueError for malformed data",
        P,
        MALFORMED,
        MALFORMED.replace("ProtocolError", "ValueError"),
        "is a ProtocolError",
    ),
    ("the error of cramjam passes", P, MALFORMED, "raise", "is a ProtocolError"),
    ("malformed data is empty", P, MALFORMED, 'return b""', "that only announce gigabytes"),
    ("another codec id", P, "codec_id = 4", "codec_id = 3", "in Kafka's framing"),
    ("another codec", P, "self._zstd = cramjam.zstd", "self._zstd = cramjam.gzip", "raised OverflowError"),
    (
        "bytes of all calls in one attribute",
        P,
        "        return " + CALL,
        '        self._plain = b"".join(chunks)\n        return ' + CALL.replace('b"".join(chunks)', "self._plain"),
        None,
    ),
    (
        "a buffer for all calls",
        P,
        "plain = bytearray(size)",
        'plain = self.__dict__.setdefault("_room", bytearray(1 << 24))[:size] and self.__dict__["_room"]',
        "with a limit of",
    ),
    (
        "no frame for no records",
        P,
        "        return " + CALL,
        '        if not any(chunks):\n            return b""\n        return ' + CALL,
        "and refused",
    ),
    (
        "the argument has another name",
        P,
        'chunks: Sequence[Buffer], *, level: int | None) -> bytes:\n        """Compress all chunks into one frame. *level* is the user\'s `compression.zstd.level`; None: it is not set."""',
        "chunks: Sequence[Buffer], *, quality: int | None) -> bytes:\n        level = quality",
        "unexpected keyword argument 'level'",
    ),
    (
        "a stream, which keeps the interpreter lock",
        P,
        "        return " + CALL,
        "        stream = self._zstd.Compressor(_DEFAULT_LEVEL if level is None else level)\n"
        "        for chunk in chunks:\n            stream.compress(bytes(chunk))\n        return bytes(stream.finish())",
        None,
    ),
    (
        "room for the whole limit at once",
        P,
        "size = min(limit, max(_SMALLEST_GUESS, _FIRST_GUESS * len(packed)))",
        "size = limit",
        "raised MemoryError",
    ),
    (
        "the end of a stream is forgotten",
        P,
        "        return " + CALL,
        '        stream = self._zstd.Compressor(_DEFAULT_LEVEL if level is None else level)\n        stream.compress(b"".join(chunks))\n        return bytes(stream.flush())',
        "and refused",
    ),
    (
        "waits",
        P,
        "        packed = bytes(buffer)",
        '        __import__("time").sleep(0.5)\n        packed = bytes(buffer)',
        "the suite has taken 30 s",
    ),
]

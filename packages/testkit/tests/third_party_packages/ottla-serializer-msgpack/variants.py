# ruff: noqa
# fmt: off
"""Broken variants of the plugin: name, file, old text, new text, and a piece of the message that catches it, or None."""

SUITE = "TestMsgpack and not OfKeys"
CHECK = "serializer:msgpack"
P = "src/ottla_serializer_msgpack/plugin.py"
K = "src/ottla_serializer_msgpack/packing.py"
C = "src/ottla_serializer_msgpack/columns.py"
NONE = "        if data is None:\n            return None\n        try:\n"
ROWS = "    rows = [row if valid else None for row, valid in zip(packed, _valid(column), strict=True)]\n"
MADE = "    return pa.array(rows, pa.large_binary())"

VARIANTS = [
    # serialize
    ("none_is_nil", P, NONE, "        try:\n", "; it must stay None, which deletes a key from a compacted topic"),
    ("falsy_is_none", P, NONE, NONE.replace("data is None", "not data"), "headers became None, and should be"),
    ("bytearray_returned", K, '    return b"".join(parts)\n', '    return bytearray(b"".join(parts))\n', "None} returned a bytearray; it must be bytes, or None"),
    ("text_returned", K, '    return b"".join(parts)\n', '    return b"".join(parts).hex()\n', "None} returned a str; it must be bytes, or None"),
    ("parts_shared", K, "    parts: list[bytes] = []\n", "    parts = pack.__dict__.setdefault('parts', [])\n    parts.clear()\n", "it is not safe for threads"),
    ("part_kept_in_self", P, "            packed = pack(data)\n", "            self._last = pack(data)\n            __import__('time').sleep(0.001)\n            packed = self._last\n", "by many threads at once"),
    ("refused_as_key_error", P, "            raise TypeError(f", "            raise KeyError(f", "; it must be a TypeError or a ValueError"),
    ("refused_is_repr", K, '            raise TypeError(f"{type(data).__name__} has no form in MessagePack")', "            add(pack_str(repr(data)))", "of it; it must be refused"),
    ("recursion_error", K, "    if depth > _DEEPEST:\n", "    if False:\n", "which holds itself, raised RecursionError"),
    ("big_int_struct_error", K, '    raise ValueError("an int of more than 64 bits has no form in MessagePack")', "    return struct.pack('>q', number)", "; it must be a TypeError or a ValueError"),
    ("bool_as_int", K, "        case bool():\n            add(pack_bool(data))\n", "", "serialize() of False for topic"),
    ("fixstr_off_by_one", K, "    if size < 32:\n", "    if size <= 32:\n", None),
    ("surrogates_kept", K, "        encoded = text.encode()\n", "        encoded = text.encode(errors='surrogatepass')\n", "of it; it must be refused"),
    ("dict_emptied", K, "            _pack_pairs(data.items(), add, depth + 1)\n", "            while data:\n                _pack_pairs([data.popitem()], add, depth + 1)\n", "serialize() of {"),
    # Headers
    ("header_before_none", P, NONE, "        headers.append((HEADER, self._content_type))\n" + NONE, "with 0 headers raised AttributeError"),
    ("header_for_refused", P, "        try:\n            packed = pack(data)", "        headers.append((HEADER, self._content_type))\n        try:\n            packed = pack(data)", "with 0 headers raised AttributeError"),
    ("headers_cleared", P, "            headers.append(", "            headers.clear()\n            headers.append(", None),
    ("header_value_text", P, "(HEADER, self._content_type)", "(HEADER, self._content_type.decode())", "; a header is a pair of a str, and of bytes or None"),
    ("header_name_bytes", P, "(HEADER, self._content_type)", "(HEADER.encode(), self._content_type)", "; a header is a pair of a str, and of bytes or None"),
    ("header_pair_flat", P, "headers.append((HEADER, self._content_type))", "headers.extend((HEADER, self._content_type))", "; a header is a pair of a str, and of bytes or None"),
    ("sets_header_singular", P, "        self.sets_headers = bool(content_type)", "        self.sets_header = self._sets = True", "has no attribute 'sets_headers'"),
    ("headers_without_sets", P, "        self.sets_headers = bool(content_type)\n", "", "has no attribute 'sets_headers'"),
    ("header_always_added", P, "and not _names_a_type(headers)", "", None),
    # Columns
    ("column_null_is_nil", C, ROWS, "    rows = packed\n", "and serialize() of None makes None"),
    ("column_drops_nulls", C, ROWS, "    rows = [row for row, valid in zip(packed, _valid(column), strict=True) if valid]\n", "serialize_column() of 5 rows of int64 returned"),
    ("column_a_list", C, MADE, "    return rows", "and must return an Arrow array of as many bytes or texts"),
    ("column_chunked", C, MADE, "    return pa.chunked_array([pa.array(rows, pa.large_binary())])", "must return an Arrow array of as many bytes or texts"),
    ("column_binary_view", C, MADE, "    return pa.array(rows, pa.binary_view())", "must return an Arrow array of as many bytes or texts"),
    ("column_type_of_rows", C, MADE, "    return pa.array(rows)", "must return an Arrow array of as many bytes or texts"),
    ("column_type_by_size", C, MADE, "    return pa.array(rows, pa.large_binary() if rows else pa.binary())", "and of binary for no rows; give pyarrow.array() the type"),
    ("column_offset_ignored", C, "[pack_rows(column.field(index)) for index", "[pack_rows(pa.Array.from_buffers(column.type.field(index).type, len(column), column.field(index).buffers())) for index", "did not match the passed number"),
    ("column_list_values", C, "iter(pack_rows(column.flatten()))", "iter(pack_rows(column.values))", "and serialize() of ["),
    ("column_type_refused_by_value", C, '    raise TypeError(f"a column of type {kind} has no form in MessagePack")', '    def refuse(data: Any) -> bytes:\n        raise TypeError(f"a column of type {kind} has no form in MessagePack")\n\n    return refuse', "; it must refuse the type, even with no row"),
    ("column_value_error", C, '    raise TypeError(f"a column of type {kind} has no form in MessagePack")', '    raise ValueError(f"a column of type {kind} has no form in MessagePack")', "; it must be a TypeError"),
    ("column_str_of_unknown", C, '    raise TypeError(f"a column of type {kind} has no form in MessagePack")', "    return lambda data: pack_str(str(data))", "; it must refuse the type, even with no row"),
    ("column_ms_as_us", C, 'rest * (1_000_000_000 // per_second)', "rest * 1000", "of a column of timestamp[ms, tz=UTC] became"),
    ("column_float32", C, "        return pack_float\n", "        return lambda number: __import__('struct').pack('>Bf', 0xCA, number)\n", "of a column of double became"),
    ("column_cached", C, "    packed = pack_rows(column)\n", "    packed = pack_column.__dict__.setdefault('cache', {}).setdefault(len(column), pack_rows(column))\n", "of a column of int"),
    ("column_shared_across_threads", C, "    packed = pack_rows(column)\n", "    global _last\n    _last = pack_rows(column)\n    __import__('time').sleep(0.001)\n    packed = _last\n", "by many threads at once"),
    ("serialise_columns", P, "    def serialize_column(", "    def serialize_columns(", "is it meant to be `serialize_column`"),
    ("column_waits", P, "        return pack_column(column)", "        __import__('time').sleep(3)\n        return pack_column(column)", "the suite has taken 30 s"),
    ("serialize_waits", P, "            packed = pack(data)\n", "            __import__('time').sleep(3)\n            packed = pack(data)\n", "the suite has taken 30 s"),
    ("key_sets_headers", P, '    if is_key:\n        return MsgpackSerializer(part="key", content_type="")\n', "", None),
    ("column_empty_untyped", C, MADE, "    return pa.array(rows, pa.large_binary()) if rows else pa.array([])", "must return an Arrow array of as many bytes or texts"),
    ("column_string_of_bytes", C, MADE, "    return pa.array(rows, pa.large_binary()).cast(pa.large_string(), safe=False)", "in test_a_column_becomes_the_same_bytes_as_its_cells: the plugin raised it, or it gave something that the contract does not allow"),
    ("column_of_ints", C, MADE, "    return pa.array([None if row is None else len(row) for row in rows])", "serialize_column() of 5 rows of int64 returned"),
]

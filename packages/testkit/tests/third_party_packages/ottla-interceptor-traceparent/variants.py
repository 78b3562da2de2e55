"""Broken variants: name, file, old text, new text, a piece of the message by which the suite caught it, or None."""

P = "src/ottla_interceptor_traceparent/plugin.py"
C = "src/ottla_interceptor_traceparent/columns.py"
H = "src/ottla_interceptor_traceparent/header.py"

VARIANTS = [
    ('value is str, not bytes', H, 'sampled=sampled)).encode()', 'sampled=sampled))  # type: ignore', "on_send() of the key None, the value b'value' and 0 headers returned the header ('traceparent', "),
    ('no return for records with one', P, '            return record\n', '            return  # type: ignore\n', "on_send() of the key None, the value b'value' and 5 headers returned None; it must be a ProducerRecord"),
    ('headers mutated in place', P, 'return attrs.evolve(record, headers=(*record.headers, (HEADER, made)))', 'record.headers.append((HEADER, made)); return record', 'on_send() of the key None, the value b\'value\' and 0 headers raised AttributeError("\'tuple\' object has no attri'),
    ("drops the record's headers", P, '(*record.headers, (HEADER, made))', '((HEADER, made),)', None),
    ('headers nested', P, '(*record.headers, (HEADER, made))', '(record.headers, (HEADER, made))', "on_send() of the key None, the value b'value' and 0 headers returned the header (); it must be a pair of str a"),
    ('changes the topic', P, 'attrs.evolve(record, headers=', "attrs.evolve(record, topic='eu.' + record.topic, headers=", "on_send() of the key None, the value b'value' and 0 headers returned the topic 'eu.orders'; it cannot be chang"),
    ('uses value as text', P, '        made = traceparent(', '        assert record.value.strip() is not None\n        made = traceparent(', 'on_send() of the key b\'key\', the value None and 0 headers raised AttributeError("\'NoneType\' object has no attr'),
    ('outcome uses error.args without None', P, '(self._acknowledged if error is None else self._failed).add()', '(self._acknowledged if not error.args else self._failed).add()', "on_acknowledgement() of RecordMetadata(topic='orders', partition=3, offset=42, timestamp_ms=1700000000000, ser"),
    ('outcome reads context', P, '(self._acknowledged if error is None else self._failed).add()', "context['n'] = 1; (self._acknowledged if error is None else self._failed).add()", "on_acknowledgement() of RecordMetadata(topic='orders', partition=3, offset=42, timestamp_ms=1700000000000, ser"),
    ('waits in on_acknowledgement', P, '(self._acknowledged if error is None else self._failed).add()', "__import__('time').sleep(0.2); (self._acknowledged if error is None else self._failed).add()", 'or more in each of 3 calls; it must not wait: the I/O thread waits for it'),
    ('waits in on_send', P, '        made = traceparent(', "        __import__('time').sleep(0.12)\n        made = traceparent(", 'or more in each of 3 calls; it must not wait: the caller of send() waits for it'),
    ('span shared by all records', P, 'new_id(SPAN_BYTES), sampled', 'self.__dict__.setdefault("_span", new_id(SPAN_BYTES)), sampled', None),
    ('state shared between threads', P, '        made = traceparent(new_id(TRACE_BYTES), new_id(SPAN_BYTES), sampled=self._sampled)\n', "        self._made = traceparent(new_id(TRACE_BYTES), new_id(SPAN_BYTES), sampled=self._sampled)\n        __import__('time').sleep(0.0001)\n        made = self._made\n", None),
    ('non-reentrant lock held over on_send by thread local', P, '        made = traceparent(', "        self.__dict__.setdefault('_l', __import__('threading').Lock()).acquire()\n        made = traceparent(", 'the suite has taken 30 s'),
    ('table: context lost between parts', P, 'headers=headers, context=trace)', 'headers=headers)', None),
    ('table: count off by one', C, 'range(count + 1)', 'range(count)', "on_send_table returned headers of 4 rows for 5 rows"),
    ('table: column of own headers ignored', C, '    if headers is None:\n', '    if True:\n', None),
    ('table: null headers assumed a column', C, '    if headers is None:\n', '    if len(headers) == 0:\n', "the rows would go on without what it adds"),
    ('table: null rows forgotten', C, 'pc.fill_null(pc.list_value_length(headers), 0)', 'pc.list_value_length(headers)', None),
    ('table: value column as text', C, 'pa.field("value", pa.binary())', 'pa.field("value", pa.string())', "the rows would go on without what it adds"),
    ('table: key column as binary', C, 'pa.field("key", pa.string())', 'pa.field("key", pa.binary())', "the rows would go on without what it adds"),
    ('table: returns None when it has one', P, '            return rows\n', '            return None  # type: ignore\n', None),
    ('table: offset of a slice ignored', C, '    own = pc.list_flatten(headers)\n', '    own = headers.values\n', None),
    ('table: result.failed counted twice', P, 'self._failed.add(result.failed)', 'self._failed.add(result.rows)', None),
    ('table: negative counter', P, 'self._failed.add(result.failed)', 'self._failed.add(result.acknowledged - result.rows)', None),
    ('table: argument forgotten', P, 'result: TableResult, error: Exception | None, context: Any) -> None:\n        """Count the outcomes of the rows', 'result: TableResult, error: Exception | None) -> None:\n        """Count the outcomes of the rows', "and None raised TypeError"),
    ('table: method misspelt', P, 'def on_table_acknowledgement(', 'def on_table_acknowledgment(', "is it meant to be `on_table_acknowledgement`?"),
    ('generation forgotten', P, 'ottla_spec = 2\n', '', None),
    ('existing header compared as bytes', P, 'if any(name == HEADER for name, _content in record.headers)', 'if any(name == HEADER.encode() for name, _content in record.headers)', None),
]

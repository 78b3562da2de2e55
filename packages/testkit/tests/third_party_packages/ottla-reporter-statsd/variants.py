"""Broken variants: name, file, old text, new text, a piece of the message by which the suite caught it, or None."""

P = "src/ottla_reporter_statsd/plugin.py"
L = "src/ottla_reporter_statsd/lines.py"

VARIANTS = [
    ('not a daemon', P, 'daemon=True)', 'daemon=False)', "start() began 'ottla-reporter-statsd', which is not a daemon thread: a program that forgets to close its producer"),
    ('thread left running', P, '        self._over.set()\n        if', '        if', 'close() left threads behind: ottla-reporter-statsd'),
    ('close does not join', P, '        self._thread.join(LONGEST_END)\n', '        return\n', 'close() returned while its thread ottla-reporter-statsd read the metrics'),
    ('no last report', P, '            self._report(registry)\n        self._report(registry)\n', '            self._report(registry)\n', 'nothing was read between the call of close() and its end: the last figures would be lost'),
    ('reports at the start, not at the end', P, '        while not self._over.wait(self._interval):\n            self._report(registry)\n        self._report(registry)\n', '        self._report(registry)\n        while not self._over.wait(self._interval):\n            self._report(registry)\n', "nothing was read between the call of close() and its end"),
    ('start blocks', P, '        self._thread.start()\n', '        self._thread.start()\n        self._thread.join(12)\n', 'start() did not return within 10 s; the program waits for it'),
    ("start sends on the caller's thread", P, '        self._thread.start()\n', '        self._thread.run()\n', 'start() did not return within 10 s; the program waits for it'),
    ("thread made in the constructor's place, started in the hook", P, '        self._failing = False\n\n    def start', '        self._failing = False\n        threading.Thread(target=self._over.wait, daemon=True).start()\n\n    def start', "making the reporter began the thread"),
    ('error ends the thread', P, '        except Exception as error:\n', '        except OSError as error:\n', None),
    ('snapshot kept from the start', P, '        values = registry.snapshot()\n', "        values = self.__dict__.setdefault('_values', registry.snapshot())\n", None),
    ('describe only once', P, 'if any((name.group, name.name) not in self._described for name in values):', 'if not self._described:', None),
    ('description required', L, 'description.unit if description else ""', 'description.unit', None),
    ('NaN sent', L, '            if not math.isfinite(value):\n                continue\n', '', None),
    ('NaN ends the report', L, '            if not math.isfinite(value):\n                continue\n', '            if not math.isfinite(value):\n                raise ValueError(name)\n', None),
    ('counter is sent as its total', L, 'return value if value < before else value - before', 'return value if value < before else value', None),
    ('gauge sent as a difference', L, 'if description is None or not description.cumulative:', 'if description is None:', None),
    ('unit forgotten', L, '        if unit:\n', '        if False:\n', None),
    ('tags forgotten', L, 'for label, text in name.tags]', 'for label, text in name.tags[:0]]', None),
    ('waits for an answer of the server', P, '                self._lines.sent(group)\n', '                self._lines.sent(group); sock.settimeout(2); sock.recv(10)\n', None),
    ('socket not closed', P, 'with socket.socket(family, kind, protocol) as sock:', 'for sock in [socket.socket(family, kind, protocol)]:', 'ResourceWarning: unclosed <socket.socket'),
    ('one datagram for all', L, 'if group and size + added > MAX_BYTES + 1:', 'if False:', None),
    ('time.sleep in place of wait', P, 'while not self._over.wait(self._interval):', "while not __import__('time').sleep(self._interval) and not self._over.is_set():", 'close() left threads behind: ottla-reporter-statsd'),
    ('interval in ms, not s', P, 'return milliseconds / 1000', 'return milliseconds', None),
    ('port bound: two cannot run', P, '            sock.setblocking(False)\n', "            sock.bind(('127.0.0.1', 18125)); sock.setblocking(False)\n", None),
    ('registry written into', P, '        values = registry.snapshot()\n', '        values = registry.snapshot(); values.clear()  # type: ignore\n', 'it changed the snapshot that it was given, which others may read'),
    ('last report dropped on failure silently', P, '            if not self._failing:\n', '            if False:\n', None),
    ('close misspelt', P, '    def close(self)', '    def stop(self)', 'close() left threads behind: ottla-reporter-statsd'),
]

# ruff: noqa: E501
"""Broken variants: (name, file, old text, new text, a piece of the message by which the suite caught it, or None)."""

P = "src/ottla_config_dotenv/plugin.py"
R = "src/ottla_config_dotenv/parser.py"
FOUND = "found = {key: values[key] for key in keys if key in values}"

VARIANTS = [
    (
        "the file is read once",
        P,
        "def _values_or_problem",
        '@__import__("functools").cache\ndef _values_or_problem',
        "and get returns its old value",
    ),
    ("None for missing names", P, FOUND, "found = {key: values.get(key) for key in keys}", "not a string"),
    ("KeyError for missing names", P, FOUND, "found = {key: values[key] for key in keys}", "raised KeyError; it gets a path and a set of keys"),
    (
        "empty texts for missing names",
        P,
        FOUND,
        'found = {key: values.get(key, "") for key in keys}',
        "a key that does not exist has a value",
    ),
    ("all values of the file", P, FOUND, "found = values", "keys that were not asked for"),
    (
        "values are bytes",
        P,
        FOUND,
        "found = {key: values[key].encode() for key in keys if key in values}",
        "not a string",
    ),
    ("a list of pairs", P, "        return found\n", "        return list(found.items())\n", "not a mapping"),
    (
        "values are logged",
        P,
        '%d value(s) of %s were read", len(found)',
        '%s of %s were read", found',
        "is seen in the log",
    ),
    (
        "values are printed",
        P,
        "        return found\n",
        "        print(found)\n        return found\n",
        "is seen in what is printed",
    ),
    (
        "results of earlier calls, too",
        P,
        FOUND,
        'found = self.__dict__.setdefault("_found", {})\n'
        "        found.update({key: values[key] for key in keys if key in values})",
        "keys that were not asked for",
    ),
    (
        "the path is remembered",
        P,
        "file = path or self._file",
        "file = self._file = path or self._file",
        "after other paths were requested",
    ),
    (
        "the parameter wins over the path",
        P,
        "file = path or self._file",
        "file = self._file or path",
        "does not exist, and has values",
    ),
    ("the path is ignored", P, "file = path or self._file", "file = self._file", "ConfigError at"),
    (
        "a file that cannot be read has no values",
        P,
        'return f"cannot be read: {error.strerror}"',
        "return {}",
        None,
    ),
    (
        "the file stays open",
        P,
        "            content = stream.read(_MAX_BYTES + 1)",
        "            content = stream.read(_MAX_BYTES + 1)\n"
        '            globals().setdefault("_kept", []).append(open(file, "rb"))',
        None,
    ),
    (
        "OSError passes",
        P,
        "except OSError as error:",
        "except ZeroDivisionError as error:",
        "raise a ConfigError that says why",
    ),
    ("the error has the file's text", R, '"is not NAME=value"', 'f"is not NAME=value: {text}"', None),
    (
        "the first value of a name counts",
        R,
        "values[name[1]], place = _value(text, name.end(), line)",
        "value, place = _value(text, name.end(), line)\n        values.setdefault(name[1], value)",
        None,
    ),
    ("names in lower case", R, "values[name[1]]", "values[name[1].lower()]", "has no string for a value"),
    (
        "waits for the file",
        P,
        "        file = path or self._file\n",
        '        file = path or self._file\n        __import__("time").sleep(11)\n',
        "did not return within 10 s",
    ),
    (
        "asked names are used up",
        P,
        FOUND,
        "found = {}\n        while keys:\n            key = keys.pop()\n            if key in values:\n                found[key] = values[key]",
        "'frozenset' object has no attribute",
    ),
    (
        "names as they come: set is indexed",
        P,
        FOUND,
        "found = {keys[i]: values[keys[i]] for i in range(len(keys)) if keys[i] in values}",
        "not subscriptable",
    ),
    (
        "get has another argument",
        P,
        "path: str, keys: Collection[str])",
        "keys: Collection[str], path: str)",
        "raised TypeError; it gets a path and a set of keys",
    ),
    (
        "the hook's argument is misspelt",
        P,
        "config: PluginConfig, context: PluginContext",
        "config: PluginConfig, ctx: PluginContext",
        "unexpected keyword argument 'context'",
    ),
    (
        "the hook makes one provider for all",
        P,
        "    return DotenvProvider(config[FILE], logger=context.logger)",
        "    return globals().setdefault('_one', DotenvProvider(config[FILE], logger=context.logger))",
        "and get returns its old value",
    ),
    (
        "values are shown by repr",
        P,
        "        return found\n",
        "        self.__class__.__repr__ = lambda s, f=values: f'DotenvProvider({f})'\n        return found\n",
        "is seen in the repr",
    ),
    ("export is not known", R, "(?:export[ \\t]+)?", "", "is not NAME=value"),
]

"""Reference pages generated from declarations: settings, also of other clients, metrics, error codes of brokers.

python tools/reference.py           writes the four pages of docs: see `main`
python tools/reference.py --check   changes nothing; prints which are stale, and ends with 1 if any is

Settings of the core are the options of its sections; those of plugins come from `ottla_config_keys` of our packages.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs

from ottla.config.config_def import SECTIONS, describe
from ottla.config.importance import importance_of
from ottla.config.java_keys import JAVA_KEYS
from ottla.config.option import option_of
from ottla.config.other_clients import OTHER_CLIENTS
from ottla.config.refused_keys import REFUSED
from ottla.errors import ErrorCode
from ottla.interfaces import ConfigKey
from ottla.metrics.catalogue import HISTOGRAMS, LABELS, METRICS, MISSING, ValueKind
from ottla.results.call_hints import (
    ASYNC_HINTS,
    DELIVERY_HINTS,
    ERROR_HINTS,
    IMPORT_HINTS,
    METADATA_HINTS,
    PRODUCER_HINTS,
)
from ottla.sender.produce_error_origins import ERROR_ORIGINS, AppendTime
from ottla_reporter_prometheus import names as prometheus

HOOK: Final = "ottla_config_keys"
ROOT: Final = Path(__file__).resolve().parents[1]

CONFIGURATION: Final = """\
# Configuration

<!-- Written by `python tools/reference.py` from the declarations of the settings: do not edit. -->

This page lists every setting of the producer and of the plugins that come with Ottla.

The names are Kafka's. Pass settings as a mapping, or as keyword arguments with `_` instead of `.`:
`Producer({"linger.ms": 5})` or `Producer(linger_ms=5)`. Values may be strings, as in a Java properties file. The names
of plugins are compared without case. If several packages have a plugin of the same name, write `package:name`
([more](plugins.md#installed-is-not-chosen)).

A program may also read its settings from a properties file, from a TOML file, or from environment variables:

```python
from pathlib import Path

from ottla import Producer
from ottla.config import settings

Path("producer.properties").write_text("bootstrap.servers=localhost:9092\\nlinger.ms=20\\n")

with Producer(settings.from_file("producer.properties") | {"client.id": "shop"}) as producer:
    producer.send("orders", b"three apples")
```

`Producer.from_file("producer.properties", client_id="shop")` is the same in one call; keywords replace settings
of the file. With `settings.from_environment("SHOP_KAFKA_")`, the variable `SHOP_KAFKA_LINGER_MS` is the setting
`linger.ms`. No other variable may have the prefix: with `KAFKA_`, `KAFKA_HOME` of Kafka's scripts would be the unknown
setting `home`, and so would the variables that Kubernetes sets in each pod for a Service that is called `kafka`, such
as `KAFKA_PORT`, unless the pod has `enableServiceLinks: false`.

A properties file is read as ISO 8859-1, as Java reads it: write other characters as `\\u20ac`, and in a file that your
editor saves as UTF-8 all that are not ASCII (`\\u00e4`). TOML is UTF-8.

A value of several lines, such as a key in PEM, needs `\\n\\` at the end of each line but the last, as in Java's files.
If it was pasted without, the error names the line and quotes nothing.

`settings.read("producer.properties", {"linger.ms": 5}, environment="SHOP_KAFKA_")` combines sources. A later source
replaces settings of earlier ones, and the environment comes last. `ottla.config.read` is the same function.

Values of secrets are wrapped, so that printing the settings does not show them. A value may also be [a
reference](security-sasl.md#references-to-secrets-configproviders) to a secret elsewhere.

`producer.config` contains the settings in force, defaults included: `producer.config["linger.ms"]` is 20 here, and
`producer.config.source("linger.ms")` is `file producer.properties`. Other sources are `default`, `given` (in a
mapping), a keyword, an environment variable, and `adjusted: ...`, with the setting that is the reason. The repr of a
producer has the settings that are not defaults. Secrets are hidden. `check_config` returns the same without a producer,
and [`ottla config show`](command-line.md#showing-the-settings) prints it with defaults and meanings.

Each setting has the importance that Java's producer gives it: high, medium or low. [The list by name](#by-name) has
all of them, and `ottla config show --importance high` prints those of high importance.

Editors complete keywords, and type checkers find wrong ones, such as `linger_mss`: the package has the types of all
settings on this page. The keys of other plugins go in the mapping.

## Plugins as objects

Each setting that names a plugin takes the plugin itself, too: `partitioner.class`, `key.serializer`,
`value.serializer`, `interceptor.classes`, `metric.reporters`, `compression.type`, `sasl.mechanism`, `connection.via`,
`record.encoder`, and `config.providers.NAME.class`. No package or entry point is needed:

```python
import zlib

from ottla import Producer


class ByChecksum:
    def __init__(self, seed=0):
        self.seed = seed

    def partition(self, topic, key, view):
        return zlib.crc32(key or b"", self.seed) % view.partitions


with Producer(bootstrap_servers="localhost:9092", partitioner_class=ByChecksum) as producer:
    producer.send("orders", b"three apples", key=b"42")
```

| value | what the producer does |
|---|---|
| a class, such as `ByChecksum`, or `functools.partial(ByChecksum, 7)` | makes an object for itself, and closes it |
| an object, such as `ByChecksum(7)` | uses it. You close it, after the producer; several \
producers may share it if its class allows that. The exception: the producer itself starts and closes a reporter |
| a function, for a partitioner or a serializer | calls it: `partition(topic, key, view)`, \
or `serialize(value)`. It may be neither a coroutine function nor a generator function |
| a function, for other plugins | calls it once to make the object, as it calls a class |
| a module, or an object or class with [the hook](plugins.md#the-hook) | \
calls the hook, as it calls that of an entry point. Such a plugin may declare [settings](plugins.md#keys) of its own |

[The page of each kind](plugins.md#the-page-of-each-kind) describes the methods that the object needs. If one is
missing, the constructor of the producer raises an error that names it. Errors, `producer.config` and reprs name the
class or the function, such as `shop.ByChecksum`, and never show the object's own repr.

The producer passes arguments to a class, or to a function that makes an object, by their names. It passes those without
a default value: `context`, `is_key` (serializers only) and `inner` (transports only). Any other argument needs a
default value, or a `functools.partial`.

A transport of `connection.via` that requires `inner` gets the transport of `security.protocol`, and [opens its
layer](plugins-transport.md#the-hook). In [a list](plugins-transport.md#layers-over-layers), each gets an `inner` that
changes no bytes. If a transport does not require `inner`, the transport of `security.protocol`, such as TLS, works on
top of it.

Objects cannot be given where settings are text: in files, environment variables and commands. They cannot be given in
the options of Spark either, because its tasks run on other machines. There, register the plugin as [an entry
point](plugins.md#how-a-plugin-is-found) and write its name. `per_process` refuses objects, because all processes would
share them; give it the class.

## Wrong settings

An unknown setting is an error that names a similar known one, if there is one, or what a [setting of another
client](other-client-names.md#settings) is called here; one error lists all problems. Keys that Java's producer
or a plugin that is not chosen would read cause a warning, not an error.
"""

BY_NAME: Final = """\
## By name

All settings of this page, each with its importance, if Java's producer has it.

| setting | importance |
|---|---|
"""

NOT_HAD: Final = "not available"
"""Beginning of the declaration of a key that is always refused."""

NOT_TAKEN: Final = """\
## Refused

These are settings of Java's producer for features that Ottla does not have. A value that asks for such a feature is an
error that says what to do instead.
"""

ABSENT: Final = """\
## Without effect

Java's producer reads these settings, and Ottla does not. They are accepted, and one warning names those that are set. A
plugin that you install may read them.
"""

METRICS_PAGE: Final = """\
# Metrics

<!-- Written by `python tools/reference.py`: do not edit. -->

This page lists every metric of `Producer.metrics()` and of reporters, under the names of Java's producer. [Watching a
producer](observing.md) shows how to read them.

The last column of a table says what a value covers:

- *grows*: counted from 0 since the producer was created.
- *window*: the last `metrics.num.samples` windows of `metrics.sample.window.ms`, the open one included. While a new
  producer has had fewer windows, a rate counts the missing ones as time without events, as in Java. An average or a
  maximum of nothing is NaN.
- *now*: the value at this moment.

Ottla counts batches, requests and connections; it never counts a record by itself. So two metrics differ from Java's:
records that `send` refuses do not count as errors, because the caller gets the exception, and `record-size-avg` is the
mean over all records, while Java's is the mean over the largest record of each batch.
"""

HISTOGRAMS_TEXT: Final = """\
## Histograms

Distributions since the producer was created; Java's producer has none. Reporters read them with
`registry.histograms()`; `Producer.metrics()` has numbers only. They are counted for each batch: the time or the size of
a record is that of its batch.

| group and name | meaning | unit |
|---|---|---|
"""

PROMETHEUS: Final = """\
## Names in Prometheus

[ottla-reporter-prometheus](../packages/reporter-prometheus/README.md) exports these, in seconds and bytes. Labels are
the tags of the group, such as `client_id`. Rates and averages are left out, because Prometheus computes them from
counters and histograms: `rate(kafka_producer_record_send_total[1m])`.

| in Prometheus | type | of |
|---|---|---|
"""

MISSING_METRICS: Final = """\
## Not there

These are metrics of Java's producer that Ottla does not have, each with the reason.
"""

CODES: Final = """\
# Error codes

<!-- Written by `python tools/reference.py`: do not edit. -->

This page lists the error codes of brokers, as of Kafka 4.3. In a program they are members of `ottla.ErrorCode`, as
`code` of a `BrokerError`.

- *again*: the same request may succeed later, so the producer sends it again.
- *stale*: what the producer knows of the cluster is old, so it requests metadata first.
- *append*: whether a Produce request is answered with this code [before or after the
  append](#before-or-after-the-append).
"""

APPENDS: Final = """\
## Before or after the append

A broker checks a batch, appends it, and then waits for its followers. So a code that it returns during that wait does
not mean that the batch was not written. Only a code marked *before* proves that this attempt wrote nothing. After any
other code, the error of a record that fails has `possibly_persisted`, and the record's sequence number is not used for
another record. The places are in the source of Kafka's broker. Codes marked *unknown* are not known to be returned to
Produce requests: they count as *before or after*, as do codes that the producer does not know.

| code | name | answered | by |
|---|---|---|---|
"""


OTHERS: Final = """\
# Names of other clients

<!-- Written by `python tools/reference.py`: do not edit. -->

These are the methods and settings of confluent-kafka (librdkafka), kafka-python and aiokafka that Ottla does not have.
If a program uses one of them, the error says what this page says. [Coming from another client](other-clients.md) says
what changes without an error.
"""

CALLS: Final = """\
## Calls

| call | in place of it |
|---|---|
"""

SYNTAX: Final = {"__aenter__": "async with {}", "__enter__": "with {}", "__len__": "len({})"}

KEYS: Final = """\
## Settings

Keyword arguments of kafka-python and aiokafka are listed with dots: `ssl_cafile` is `ssl.cafile`. Settings that are not
listed have the same name here, or are unknown to these clients.

| setting | in place of it |
|---|---|
"""


def other_client_names() -> str:
    """Return the page of the methods and settings of other clients."""
    lines = [OTHERS.rstrip("\n"), "", CALLS.rstrip("\n")]
    for owner, hints in (
        ("producer", PRODUCER_HINTS),
        ("AsyncProducer", ASYNC_HINTS),
        ("delivery", DELIVERY_HINTS),
        ("delivery.metadata", METADATA_HINTS),
        ("delivery.error", ERROR_HINTS),
    ):
        for name, hint in sorted(hints.items()):
            if owner != "AsyncProducer" or hint != PRODUCER_HINTS.get(name):
                lines.append(f"| `{SYNTAX.get(name, f'{{}}.{name}').format(owner)}` | {markdown(hint)} |")
    lines += [f"| `from ottla import {name}` | {markdown(hint)} |" for name, hint in sorted(IMPORT_HINTS.items())]
    lines += ["", KEYS.rstrip("\n")]
    for key, other in sorted(OTHER_CLIENTS.items()):
        named = "" if other.name is None else f"`{other.name}`{'. ' if other.remark else ''}"
        lines.append(f"| `{key}` | {named}{markdown(other.advice)} |")
    return "\n".join([*lines, ""])


def markdown(hint: str) -> str:
    """Return the text of an error for a page: code in backticks, and links to pages."""
    hint = re.sub(r"(?<!`)(__\w+__|<\w+>)", r"`\1`", hint)
    return re.sub(r"docs/([\w-]+)\.md", r"[\1.md](\1.md)", hint)


def configuration(root: Path) -> str:
    """Return the page of all settings."""
    rows = {row.key: row for row in describe()}
    lines = [CONFIGURATION]
    for name, section in SECTIONS.items():
        lines += [f"## {name.capitalize()}", "", str(section.__doc__).strip(), ""]
        for row in (rows[found.key] for found in map(option_of, attrs.fields(section)) if found is not None):
            lines += _setting(row.key, row.meaning, row.type, row.default)
    read, listed = set(rows), set(rows)
    refused = [f"- `{refusal.key}`: {refusal.remedy}" for refusal in REFUSED.values()]
    for distribution, declared in plugin_keys(root):
        keys = {key.name: key for key in declared if key.name not in read}
        read |= keys.keys()
        refused += [f"- `{key.name}`: {key.meaning}" for key in keys.values() if key.meaning.startswith(NOT_HAD)]
        taken = [key for key in keys.values() if not key.meaning.startswith(NOT_HAD)]
        listed |= {key.name for key in taken}
        lines += [f"## Of {distribution}", ""] if taken else []
        for key in taken:
            lines += _setting(key.name, _sentence(key), _type(key), _written(_outside(key)))
    lines += [NOT_TAKEN, *refused, "", ABSENT]
    lines += [*(f"- `{key}`" for key in sorted(JAVA_KEYS - read - REFUSED.keys())), ""]
    lines += [
        BY_NAME.rstrip("\n"),
        *(f"| [`{key}`](#{slug(key)}) | {importance_of(key) or ''} |" for key in sorted(listed)),
    ]
    return "\n".join([*lines, ""])


def slug(key: str) -> str:
    """Return the anchor of a setting's heading, as MkDocs and GitHub make it."""
    return "".join(each for each in key if each.isalnum() or each in "-_")


def error_codes() -> str:
    """Return the page of all error codes."""
    lines = [CODES, "| code | name | means | | append |", "|---|---|---|---|---|"]
    for code in ErrorCode:
        marks = ", ".join(["again"] * code.retriable + ["stale"] * code.stale_metadata)
        when = ERROR_ORIGINS[code].append.value
        lines.append(f"| {code.value} | `{code.name}` | {code.meaning} | {marks} | {when} |")
    lines += ["", APPENDS.rstrip("\n")]
    for code, origin in ERROR_ORIGINS.items():
        if origin.append is not AppendTime.UNKNOWN:
            lines.append(f"| {code.value} | `{code.name}` | {origin.append.value} | {origin.places} |")
    return "\n".join([*lines, ""])


def metrics() -> str:
    """Return the page of all metrics."""
    lines = [METRICS_PAGE]
    for group, labels in LABELS.items():
        lines += [f"## {group}", "", f"Tags: {', '.join(f'`{label}`' for label in labels)}", ""]
        lines += ["| name | meaning | unit | |", "|---|---|---|---|"]
        for metric in METRICS:
            if metric.group == group:
                lines.append(f"| `{metric.name}` | {metric.meaning} | {metric.unit} | {_kind(metric.kind)} |")
        lines.append("")
    lines.append(HISTOGRAMS_TEXT.rstrip("\n"))
    lines += [f"| `{each.group}`, `{each.name}` | {each.meaning} | {each.unit} |" for each in HISTOGRAMS]
    lines += ["", PROMETHEUS.rstrip("\n"), *_in_prometheus(), "", MISSING_METRICS]
    lines += [f"- `{group}`, `{name}`: {reason}" for (group, name), reason in MISSING.items()]
    return "\n".join([*lines, ""])


def _in_prometheus() -> Iterator[str]:
    for metric in METRICS:
        if not prometheus.omitted(metric.group, metric.name):
            kind: prometheus.Kind = "counter" if metric.kind.cumulative else "gauge"
            family = prometheus.family(metric.group, metric.name, unit=metric.unit, kind=kind)
            yield f"| `{family.name}` | {kind} | `{metric.group}`, `{metric.name}` |"
    for each in HISTOGRAMS:
        family = prometheus.family(each.group, each.name, unit=each.unit, kind="histogram")
        yield f"| `{family.name}` | histogram | `{each.group}`, `{each.name}` |"


def _kind(reading: ValueKind) -> str:
    if reading.cumulative:
        return "grows"
    return "now" if reading is ValueKind.GAUGE else "window"


def _setting(key: str, meaning: str, allowed: str, default: str) -> list[str]:
    facts = [allowed[:1].upper() + allowed[1:]] if allowed else []
    facts += [f"default: {default}"] if default else []
    importance = importance_of(key)
    facts += ["not in Java's producer"] if importance is None else [f"importance: {importance}"]
    return [f"#### `{key}`", "", meaning, *(["", "*" + " · ".join(facts) + "*"] if facts else []), ""]


def _sentence(key: ConfigKey) -> str:
    first = key.meaning.partition(" ")[0]
    text = key.meaning if first.endswith(":") else key.meaning[:1].upper() + key.meaning[1:]
    return f"{text.rstrip('.')}.{' Secret: never in logs, errors or reprs.' if key.secret else ''}"


def _type(key: ConfigKey) -> str:
    """Return the type of a value, as far as the declaration has it; the meaning has the rest."""
    match key.default:
        case bool():
            return "one of true, false"
        case int() | float():
            return "milliseconds" if key.name.endswith(".ms") else "a number"
        case list() | tuple():
            return "a list, or a string with commas"
        case _:
            return ""


def _outside(key: ConfigKey) -> Any:
    """Return the default as a user would write it: milliseconds are declared in seconds."""
    return round(key.default * 1000) if isinstance(key.default, float) and key.name.endswith(".ms") else key.default


def _written(default: Any) -> str:
    match default:
        case None | "" | ():
            return ""
        case bool():
            return str(default).lower()
        case list() | tuple():
            return ",".join(map(str, default))
        case float():
            return f"{default:g}"
        case _:
            return str(default)


def plugin_keys(root: Path) -> Iterator[tuple[str, Sequence[ConfigKey]]]:
    """Yield the keys of our packages' plugins, by distribution."""
    for path in sorted(root.glob("packages/*/pyproject.toml"), key=lambda path: (path.parent.name != "core", path)):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        groups = {group: names for group, names in project.get("entry-points", {}).items() if group != "pytest11"}
        modules = dict.fromkeys(module for group in groups.values() for module in group.values())
        yield project["name"], [key for module in modules for key in _declared(module)]


def _declared(module: str) -> Sequence[ConfigKey]:
    """Return the keys of a plugin's module, and import it only if it has any: some need a compiler first."""
    found = find_spec(module)
    if found is None or found.origin is None or HOOK not in Path(found.origin).read_text(encoding="utf-8"):
        return ()
    keys: Sequence[ConfigKey] = getattr(import_module(module), HOOK)()
    return keys


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report what is stale")
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="the folder of the pages")
    options = parser.parse_args(arguments)
    stale = []
    made = {
        "configuration.md": configuration(ROOT),
        "metrics.md": metrics(),
        "error-codes.md": error_codes(),
        "other-client-names.md": other_client_names(),
    }
    for name, text in made.items():
        page = options.into / name
        if not options.check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(f"{page} is stale: run python tools/reference.py")
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

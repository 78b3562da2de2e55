"""Tables of the reference pages, from declarations: settings, also of other clients, metrics, error codes of brokers.

python tools/reference.py           writes them into the pages
python tools/reference.py --check   changes nothing; prints which pages are stale, and ends with 1 if any is

Each table has a place on a page, between two comments; writers edit the rest of the page:

    <!-- reference: settings -->
    <!-- end of reference -->

Settings of the core are the options of its sections; those of plugins come from `ottla_config_keys` of our packages.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
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

PAGES: Final = ("configuration.md", "metrics.md", "error-codes.md", "other-client-names.md")
PLACE: Final = re.compile(
    r"(?P<begin><!-- reference: (?P<name>[\w ]+) -->\n).*?(?P<end><!-- end of reference -->)", re.DOTALL
)

NOT_HAD: Final = "not available"
"""Beginning of the declaration of a key that is always refused."""

SYNTAX: Final = {"__aenter__": "async with {}", "__enter__": "with {}", "__len__": "len({})"}


def rendered(page: str) -> str:
    """Return the text of a page with the tables in their places."""
    return PLACE.sub(lambda place: place["begin"] + "\n" + written(place["name"]) + "\n" + place["end"], page)


def written(name: str) -> str:
    """Return the lines of a place, with an empty line after the last one."""
    return "".join(f"{line}\n" for line in TABLES[name]()).rstrip("\n") + "\n"


def calls() -> Iterator[str]:
    """Yield the table of the methods of other clients."""
    yield from ("| call | in place of it |", "|---|---|")
    for owner, hints in (
        ("producer", PRODUCER_HINTS),
        ("AsyncProducer", ASYNC_HINTS),
        ("delivery", DELIVERY_HINTS),
        ("delivery.metadata", METADATA_HINTS),
        ("delivery.error", ERROR_HINTS),
    ):
        for name, hint in sorted(hints.items()):
            if owner != "AsyncProducer" or hint != PRODUCER_HINTS.get(name):
                yield f"| `{SYNTAX.get(name, f'{{}}.{name}').format(owner)}` | {markdown(hint)} |"
    for name, hint in sorted(IMPORT_HINTS.items()):
        yield f"| `from ottla import {name}` | {markdown(hint)} |"


def settings_of_other_clients() -> Iterator[str]:
    """Yield the table of the settings of other clients."""
    yield from ("| setting | in place of it |", "|---|---|")
    for key, other in sorted(OTHER_CLIENTS.items()):
        named = "" if other.name is None else f"`{other.name}`{'. ' if other.remark else ''}"
        yield f"| `{key}` | {named}{markdown(other.advice)} |"


def markdown(hint: str) -> str:
    """Return the text of an error for a page: code in backticks, and links to pages."""
    hint = re.sub(r"(?<!`)(__\w+__|<\w+>)", r"`\1`", hint)
    return re.sub(r"docs/([\w-]+)\.md", r"[\1.md](\1.md)", hint)


@attrs.frozen(kw_only=True)
class PluginKeys:
    """The settings that the plugins of a package declare, and no package before it."""

    distribution: str
    taken: Sequence[ConfigKey]
    refused: Sequence[ConfigKey]


@cache
def declared_by_plugins() -> Sequence[PluginKeys]:
    """The settings of our plugins."""
    read, found = {row.key for row in describe()}, list[PluginKeys]()
    for distribution, declared in plugin_keys(ROOT):
        keys = {key.name: key for key in declared if key.name not in read}.values()
        read |= {key.name for key in keys}
        refused = [key for key in keys if key.meaning.startswith(NOT_HAD)]
        taken = [key for key in keys if key not in refused]
        found.append(PluginKeys(distribution=distribution, taken=taken, refused=refused))
    return found


def settings() -> Iterator[str]:
    """Yield a section for each part of the core, and for each package with settings of its own."""
    rows = {row.key: row for row in describe()}
    for name, section in SECTIONS.items():
        yield from (f"## {name.capitalize()}", "", str(section.__doc__).strip(), "")
        for row in (rows[found.key] for found in map(option_of, attrs.fields(section)) if found is not None):
            yield from _setting(row.key, row.meaning, row.type, row.default)
    for package in declared_by_plugins():
        if package.taken:
            yield from (f"## Of {package.distribution}", "")
        for key in package.taken:
            yield from _setting(key.name, _sentence(key), _type(key), _written(_outside(key)))


def refused_settings() -> Iterator[str]:
    """Yield the settings of Java's producer that are errors, each with what to do instead."""
    yield from (f"- `{refusal.key}`: {refusal.remedy}" for refusal in REFUSED.values())
    for package in declared_by_plugins():
        yield from (f"- `{key.name}`: {key.meaning}" for key in package.refused)


def settings_without_effect() -> Iterator[str]:
    """Yield the settings that only Java's producer reads."""
    declared = {key.name for package in declared_by_plugins() for key in (*package.taken, *package.refused)}
    read = declared | {row.key for row in describe()}
    yield from (f"- `{key}`" for key in sorted(JAVA_KEYS - read - REFUSED.keys()))


def settings_by_name() -> Iterator[str]:
    """Yield the table of all settings of the page, with their importance."""
    yield from ("| setting | importance |", "|---|---|")
    listed = {row.key for row in describe()} | {key.name for each in declared_by_plugins() for key in each.taken}
    yield from (f"| [`{key}`](#{slug(key)}) | {importance_of(key) or ''} |" for key in sorted(listed))


def slug(key: str) -> str:
    """Return the anchor of a setting's heading, as MkDocs and GitHub make it."""
    return "".join(each for each in key if each.isalnum() or each in "-_")


def error_codes() -> Iterator[str]:
    """Yield the table of all error codes."""
    yield from ("| code | name | means | | append |", "|---|---|---|---|---|")
    for code in ErrorCode:
        marks = ", ".join(["again"] * code.retriable + ["stale"] * code.stale_metadata)
        when = ERROR_ORIGINS[code].append.value
        yield f"| {code.value} | `{code.name}` | {code.meaning} | {marks} | {when} |"


def append_times() -> Iterator[str]:
    """Yield the table of the codes of which it is known when a broker answers with them."""
    yield from ("| code | name | answered | by |", "|---|---|---|---|")
    for code, origin in ERROR_ORIGINS.items():
        if origin.append is not AppendTime.UNKNOWN:
            yield f"| {code.value} | `{code.name}` | {origin.append.value} | {origin.places} |"


def metrics() -> Iterator[str]:
    """Yield a section for each group of metrics."""
    for group, labels in LABELS.items():
        yield from (f"## {group}", "", f"Tags: {', '.join(f'`{label}`' for label in labels)}", "")
        yield from ("| name | meaning | unit | |", "|---|---|---|---|")
        for metric in METRICS:
            if metric.group == group:
                yield f"| `{metric.name}` | {metric.meaning} | {metric.unit} | {_kind(metric.kind)} |"
        yield ""


def histograms() -> Iterator[str]:
    """Yield the table of histograms."""
    yield from ("| group and name | meaning | unit |", "|---|---|---|")
    yield from (f"| `{each.group}`, `{each.name}` | {each.meaning} | {each.unit} |" for each in HISTOGRAMS)


def missing_metrics() -> Iterator[str]:
    """Yield the metrics of Java's producer that are not there."""
    yield from (f"- `{group}`, `{name}`: {reason}" for (group, name), reason in MISSING.items())


def names_in_prometheus() -> Iterator[str]:
    """Yield the table of what ottla-reporter-prometheus exports."""
    yield from ("| in Prometheus | type | of |", "|---|---|---|")
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


TABLES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "settings": settings,
    "refused settings": refused_settings,
    "settings without effect": settings_without_effect,
    "settings by name": settings_by_name,
    "metrics": metrics,
    "histograms": histograms,
    "prometheus": names_in_prometheus,
    "missing metrics": missing_metrics,
    "error codes": error_codes,
    "append times": append_times,
    "calls": calls,
    "other settings": settings_of_other_clients,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables into the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report what is stale")
    parser.add_argument("--pages", type=Path, default=ROOT / "docs", help="the folder of the pages")
    options = parser.parse_args(arguments)
    stale = []
    for name in PAGES:
        page = options.pages / name
        text = page.read_text(encoding="utf-8")
        if (new := rendered(text)) == text:
            continue
        if options.check:
            stale.append(f"{page} is stale: run python tools/reference.py")
        else:
            page.write_text(new, encoding="utf-8")
    print("\n".join(stale), end="\n" if stale else "")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

"""Keywords of `Producer` for type checkers and editors, generated from the declarations of the settings.

python tools/keywords.py           writes ottla/config/keywords.py
python tools/keywords.py --check   changes nothing; prints whether it is stale, and ends with 1 if it is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from reference import ROOT, plugin_keys

from ottla.config.config_def import OPTIONS

TARGET: Final = ROOT / "packages/core/src/ottla/config/keywords.py"

_OF_PROVIDERS: Final = frozenset({"allowed.paths", "allowlist.pattern"})
"""Keys that config providers read as config.providers.NAME.param.KEY."""

HEAD: Final = '''\
"""The settings as keywords, for editors and type checkers. Written by `python tools/keywords.py`: do not edit.

They are the keys of the core and of the plugins that come with Ottla, with `_` for `.`. A program gives the keys of
other plugins in the mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from ottla.config.plugin_choice import PartitionFunction, PluginOf, PluginsOf
from ottla.interfaces import (
    Compressor,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    RecordEncoder,
    Serializer,
    Transport,
)


class ProducerKeywords(TypedDict, total=False):
    """Keyword arguments of `Producer`: settings with `_` for `.`; None means the default."""

'''


def keywords(root: Path) -> dict[str, str]:
    """The annotation of each keyword: first those of the core, then those of our plugins."""
    found = {_keyword(option.key): f"{option.type.annotation} | None" for option in OPTIONS.values()}
    for _distribution, keys in plugin_keys(root):
        for name in sorted(key.name for key in keys):
            if name not in _OF_PROVIDERS:
                found.setdefault(_keyword(name), "Any")
    return found


def content(root: Path = ROOT) -> str:
    """The text of the module."""
    return HEAD + "\n".join(_lines(keywords(root))) + "\n"


def _lines(found: dict[str, str]) -> Iterator[str]:
    for name, annotation in found.items():
        yield f"    {name}: {annotation}"


def _keyword(key: str) -> str:
    return key.replace(".", "_").replace("-", "_")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the module, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report whether it is stale")
    options = parser.parse_args(arguments)
    if not options.check:
        TARGET.write_text(content(), encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != content():
        print(f"{TARGET} is stale: run python tools/keywords.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What `import ottla` imports: a program pays for it at each start, whatever it uses."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Final

import pytest

OF_THE_CORE: Final = (
    "ottla.accumulator.try_appender",
    "ottla.aio",
    "ottla.cli",
    "ottla.config.keywords",
    "ottla.doctor",
    "ottla.errors.secret_forms",
    "ottla.network.authentication.exchange",
    "ottla.plugins.compressors.gzip",
    "ottla.plugins.partitioners.murmur2",
    "ottla.plugins.registry.entry_points",
    "ottla.plugins.serializers.json",
    "ottla.producer.interceptors",
    "ottla.producer.nonblocking_send",
    "ottla.producer.tables",
    "ottla.producer.transactions",
    "ottla.protocol.messages.end_txn",
    "ottla.protocol.messages.push_telemetry",
    "ottla.recordbatch.objects",
    "ottla.results.stories.picture",
    "ottla.sender.telemetry.otlp",
    "ottla.sender.telemetry.payload",
    "ottla.tables.sending",
    "ottla.tables.table_delivery",
    "ottla.transactions.admin",
    "ottla.transactions.manager",
    "ottla.transactions.prepared_transaction",
)
"""Modules for what a plain `Producer` does not use, or for what only an error needs; and plugins."""

OTHERS: Final = (
    "asyncio",
    "base64",
    "click",
    "difflib",
    "html",
    "importlib.metadata",
    "ipaddress",
    "json",
    "pyarrow",
    "ssl",
    "urllib.parse",
    "zipfile",
)
"""Modules of the standard library and of optional packages, each of which imports more."""

LATE_NAMES: Final = {
    "ottla": ("ConsumerGroupMetadata", "OffsetAndMetadata", "PreparedTransaction", "TableDelivery"),
    "ottla.transactions": ("ConsumerGroupMetadata", "OffsetAndMetadata", "PreparedTransaction", "SharedTransaction"),
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules that `import ottla` imports in a new interpreter without site-packages' own hooks."""
    program = "import sys; before = {*sys.modules}; import ottla; print(*{*sys.modules} - before)"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split())


@pytest.mark.parametrize("module", [*OF_THE_CORE, *OTHERS])
def test_import_ottla_does_not_import(module: str, imported: set[str]) -> None:
    assert "ottla.producer.producer" in imported
    assert module not in OF_THE_CORE or find_spec(module) is not None, "this module has another name now"
    assert not {name for name in imported if name == module or name.startswith(f"{module}.")}


@pytest.mark.parametrize("module", LATE_NAMES)
def test_names_that_are_imported_late_are_found_and_listed(module: str) -> None:
    names = LATE_NAMES[module]
    program = (
        f"import {module} as module, sys; from {module} import *\n"
        f"for name in {names!r}: assert getattr(module, name) is globals()[name] and name in module.__all__, name\n"
        "try: module.Nothing\n"
        "except AttributeError as error: print(error)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    assert output == f"module {module!r} has no attribute 'Nothing'\n"

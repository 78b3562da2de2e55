"""What `import ottla` and a producer import: a program pays for it at each start, whatever it uses."""

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

METHODS_OF_ATTRS: Final = {
    "ottla.config.core_settings.CoreSettings",
    "ottla.config.draft.ConfigDraft",
    "ottla.config.reference.Reference",
    "ottla.network.cluster.Broker",
    "ottla.network.cluster.Cluster",
    "ottla.network.cluster.PartitionInfo",
    "ottla.network.cluster.Topic",
    "ottla.network.in_flight_requests.InFlight",
    "ottla.network.request.Request",
    "ottla.plugins.config_references._WrittenValue",
    "ottla.recordbatch.batch_sequence.BatchSequence",
    "ottla.recordbatch.sealed_records.SealedRecords",
    "ottla.transactions.coordinator_request.InitProducerId",
}
"""Classes for which attrs compiles a comparison: changeable, often compared, or with a repr of their own."""

LATE_NAMES: Final = {
    "ottla": (
        "ConsumerGroupMetadata",
        "Delivery",
        "PreparedTransaction",
        "Producer",
        "RecordMetadata",
        "TableDelivery",
    ),
    "ottla.config": ("ConfigDraft", "ProducerConfig", "Row", "as_written"),
    "ottla.transactions": ("ConsumerGroupMetadata", "OffsetAndMetadata", "PreparedTransaction", "SharedTransaction"),
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules that the import of a producer imports in a new interpreter without site-packages' own hooks."""
    # Only without ottla-accel a producer uses crc32c, which imports importlib.metadata.
    used = "" if find_spec("ottla_accel") else "import crc32c; "
    program = (
        f"import sys; {used}before = {{*sys.modules}}; from ottla import Producer; print(*{{*sys.modules}} - before)"
    )
    return set(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split())


@pytest.mark.parametrize("module", [*OF_THE_CORE, *OTHERS])
def test_the_import_of_a_producer_does_not_import(module: str, imported: set[str]) -> None:
    assert "ottla.producer.producer" in imported
    assert module not in OF_THE_CORE or find_spec(module) is not None, "this module has another name now"
    assert not {name for name in imported if name == module or name.startswith(f"{module}.")}


def test_an_asynchronous_producer_needs_no_pyarrow() -> None:
    program = "import sys; from ottla.aio import AsyncProducer; from ottla import TableDelivery; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split()

    assert "ottla.tables.table_delivery" in modules
    assert "pyarrow" not in modules


def test_values_have_comparisons_that_nothing_compiles_at_import() -> None:
    program = """
import gc, sys
from ottla import Producer
for cls in [thing for thing in gc.get_objects() if isinstance(thing, type) and hasattr(thing, "__attrs_attrs__")]:
    compare = vars(cls).get("__eq__")
    if cls.__module__.startswith("ottla.") and compare and compare.__code__.co_filename.startswith("<attrs generated"):
        print(f"{cls.__module__}.{cls.__qualname__}")
"""
    names = set(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split())

    assert "ottla.network.cluster.Topic" in names, "classes of attrs are recognized otherwise now"
    assert names <= METHODS_OF_ATTRS, "such a class is a subclass of ValueMethods, or gets a line above"


def test_import_ottla_without_a_name_imports_no_part_of_a_producer() -> None:
    program = "import sys, ottla; print(*(name for name in sys.modules if name.startswith('ottla.')))"
    names = set(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split())

    assert {name.split(".")[1] for name in names} == {"errors", "results", "version"}


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


def test_public_modules_are_found_after_import_ottla_alone() -> None:
    names = "aio.AsyncProducer", "config", "doctor", "hookspecs.hookimpl", "interfaces.Header", "plugins", "results"
    script = "import ottla\n" + "\n".join(f"ottla.{name}" for name in (*names, "transactions"))
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

"""Each suite reports a method that the core refuses: what passes a suite can be used by a producer."""

from __future__ import annotations

from typing import Any

import pytest
from suite_runs import run_suite

from ottla.errors import InvalidPluginError
from ottla.interfaces import Partitioner, Serializer
from ottla_testkit.conformance.harness.abilities import check_methods
from ottla_testkit.mock_producer import MockProducer

pytest_plugins = ["pytester"]


class Zeros:
    def partition(self, topic: str, key: bytes | None, view: Any) -> int:
        return 0


class EndsLater(Zeros):
    async def close(self) -> None:
        """Never run by the core, which does not await it."""


class Half(Zeros):
    def finished(self, topic: str, partition: int) -> None:
        """Lacks the size."""


class WithoutTimeLimit:
    def serialize(self, topic: str, data: Any, headers: Any) -> bytes | None:
        return None

    def prepare(self, topic: str, data: Any, headers: Any) -> None:
        """Lacks the timeout."""


@pytest.mark.parametrize(
    ("contract", "plugin", "setting", "said"),
    [
        (Partitioner, EndsLater(), "partitioner.class", "close only makes a generator or a coroutine"),
        (Partitioner, Half(), "partitioner.class", "finished lacks the argument size"),
        (Serializer, WithoutTimeLimit(), "value.serializer", "prepare lacks the argument timeout"),
    ],
)
def test_a_suite_refuses_the_methods_that_the_core_refuses(
    contract: type, plugin: object, setting: str, said: str
) -> None:
    with pytest.raises(InvalidPluginError, match=said):
        MockProducer({setting: plugin})

    with pytest.raises(pytest.fail.Exception, match=f"^the core refuses {type(plugin).__name__}: {said}"):
        check_methods(plugin, contract)


def test_a_suite_takes_the_methods_that_the_core_takes() -> None:
    check_methods(Zeros(), Partitioner)


def test_a_plugin_of_a_suite_is_compared_with_what_the_core_calls(pytester: pytest.Pytester) -> None:
    only = ("-k", "test_the_core_can_call_all_methods")
    result = run_suite(pytester, "PartitionerConformance", "partitioner", "test_refused_methods.Half()", *only)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the core refuses Half: finished lacks the argument size; *"])

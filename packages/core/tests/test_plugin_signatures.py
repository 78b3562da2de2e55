"""Methods that cannot be called as the contract calls them: found while the plugin is assembled, and named."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import pytest

from ottla.errors import InvalidPluginError
from ottla.plugins.registry import Registry
from ottla.plugins.registry.kinds import KINDS
from ottla.plugins.registry.signatures import wrong_signatures
from plugin_site import Site, plugin_site

site = plugin_site

INTERCEPTOR = """
    from ottla.hookspecs import hookimpl

    ottla_spec = 2

    class Mine:
        def on_send(self, record):
            return record

        def on_acknowledgement(self, metadata, error, context):
            pass

        def on_send_table(self, rows):
            return rows

        def on_table_acknowledgement(self, topic, result, error, context):
            pass

    @hookimpl
    def ottla_interceptor():
        return Mine()
"""
COMPRESSOR = """
    from ottla.hookspecs import hookimpl

    class Mine:
        name, codec_id = "mine", 4

        def compress(self, chunks, *, level):
            return b""

        def decompress(self, buffer, limit):
            return b""

    @hookimpl
    def ottla_compressor():
        return Mine()
"""
OF_FORMER_GENERATION = (
    INTERCEPTOR.replace("ottla_spec = 2", "")
    .replace("on_send(self, record)", "on_send(self, topic, key, value, headers)")
    .replace("on_acknowledgement(self, metadata, error, context)", "on_acknowledgement(self, metadata, error)")
)


def refusal(site: Site, source: str, kind: str) -> str:
    """The error for a plugin whose object is refused."""
    site.install(source, kind=kind)
    plugin = Registry().plugin(kind, "first")  # type: ignore[arg-type]
    with pytest.raises(InvalidPluginError) as caught:
        plugin.create({})
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "source", "said"),
    [
        (
            "interceptor",
            INTERCEPTOR.replace("topic, result, error, context", "topic, result, error"),
            "whose on_table_acknowledgement lacks the argument context; the call is "
            "on_table_acknowledgement(topic, result, error, context)",
        ),
        (
            "interceptor",
            INTERCEPTOR.replace("metadata, error, context", "metadata, error"),
            "whose on_acknowledgement lacks the argument context",
        ),
        (
            "interceptor",
            INTERCEPTOR.replace("(self, rows)", "(self, rows, schema)"),
            "whose on_send_table requires the argument schema; the call is on_send_table(rows)",
        ),
        (
            "interceptor",
            INTERCEPTOR.replace("(self, rows)", "(self, schema, rows)"),
            "whose on_send_table requires the argument schema; the call is on_send_table(rows)",
        ),
        (
            "interceptor",
            INTERCEPTOR.replace("(self, rows)", "(self, r, schema, *, force)"),
            "whose on_send_table requires the argument schema, force; the call is on_send_table(rows)",
        ),
        ("compressor", COMPRESSOR.replace(", *, level", ""), "whose compress lacks the argument level"),
        ("compressor", COMPRESSOR.replace(", *, level", ", *, levels"), "whose compress lacks the argument level"),
        ("compressor", COMPRESSOR.replace(", limit", ""), "whose decompress lacks the argument limit"),
        ("compressor", COMPRESSOR.replace("self, buffer, limit", ""), "whose decompress lacks the argument self"),
    ],
)
def test_a_method_with_other_arguments_is_refused_with_its_call(site: Site, kind: str, source: str, said: str) -> None:
    refused = refusal(site, source, kind)

    assert refused.startswith(f"{kind} 'first' of acme 1.0")
    assert said in refused


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("interceptor", INTERCEPTOR),
        ("interceptor", INTERCEPTOR.replace("topic, result, error, context", "*arguments")),
        ("interceptor", INTERCEPTOR.replace("self, rows", "self, rows, more=()")),
        ("interceptor", INTERCEPTOR.replace("(self, metadata, error, context)", "(self, m, e, /, c=None)")),
        ("interceptor", OF_FORMER_GENERATION),
        ("compressor", COMPRESSOR),
        ("compressor", COMPRESSOR.replace("*, level", "level=None")),
        ("compressor", COMPRESSOR.replace("*, level", "**options")),
        ("compressor", COMPRESSOR.replace("return Mine()", "Mine.decompress = min; return Mine()")),
    ],
)
def test_arguments_may_have_other_names_defaults_and_stars(site: Site, kind: str, source: str) -> None:
    site.install(source, kind=kind)

    assert Registry().plugin(kind, "first").create({}) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (INTERCEPTOR.replace("ottla_spec = 2", ""), ("of generation 2", "for generation 1", "`ottla_spec = 2` in ")),
        (
            INTERCEPTOR.replace("ottla_spec = 2", "ottla_spec = 1"),
            ("of generation 2", "for generation 1", "`ottla_spec = 2` in "),
        ),
        (
            f"{OF_FORMER_GENERATION}\n    ottla_spec = 2",
            ("of generation 1", "for generation 2", "`ottla_spec = 1` in "),
        ),
    ],
)
def test_methods_of_another_generation_are_refused_with_the_line_to_write(
    site: Site, source: str, said: tuple[str, ...]
) -> None:
    refused = refusal(site, source, "interceptor")

    assert [part for part in said if part not in refused] == []


def test_another_thread_may_write_to_a_contract_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Contract(Protocol):
        def compress(self, chunks: object) -> bytes: ...

    class Mine:
        def compress(self, chunks: object) -> bytes:
            return b""

    is_function = inspect.isfunction

    def is_function_while_python_caches(value: Any) -> bool:
        Contract._cached_by_python = True  # type: ignore[attr-defined]
        return is_function(value)

    monkeypatch.setattr("inspect.isfunction", is_function_while_python_caches)

    assert wrong_signatures(Mine(), KINDS["compressor"], Contract) == ()


def test_objects_of_a_class_are_judged_alike_but_for_methods_of_their_own() -> None:
    class Contract(Protocol):
        def compress(self, chunks: object, *, level: int | None) -> bytes: ...

    class Mine:
        def compress(self, chunks: object) -> bytes:
            return b""

    repaired: Any = Mine()
    repaired.compress = lambda chunks, *, level: b""
    [first], [again] = (wrong_signatures(Mine(), KINDS["compressor"], Contract) for _ in range(2))

    assert first == again
    assert first.startswith("compress lacks the argument level; ")
    assert wrong_signatures(repaired, KINDS["compressor"], Contract) == ()

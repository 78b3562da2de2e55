"""Instrumentation without a change of the program: each producer gets the interceptor and the reporter.

`opentelemetry-instrument` finds this class by its entry point; a program may call `OttlaInstrumentor().instrument()`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from ottla import Producer
from ottla.errors.secret import hide_settings
from ottla_opentelemetry.interceptor import TracingInterceptor
from ottla_opentelemetry.reporter import OpenTelemetryReporter

_NAME: Final = "opentelemetry"


class OttlaInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # Any to mypy
    """Instruments `ottla.Producer`, and so `ottla.aio.AsyncProducer`; producers that exist already stay as they are.

    `instrument` takes `tracer_provider` and `meter_provider`, by default the global ones, and `traces=False` or
    `metrics=False`, which leave one of the two out. A producer that names `opentelemetry` in its settings gets nothing
    more.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the requirement of what is instrumented."""
        return ("ottla >= 0.1.0",)

    def _instrument(self, **options: Any) -> None:
        added: dict[str, Callable[..., object]] = {}
        if options.get("traces", True):
            added["interceptor.classes"] = functools.partial(
                TracingInterceptor,
                tracer_provider=options.get("tracer_provider"),
                meter_provider=options.get("meter_provider"),
            )
        if options.get("metrics", True):
            added["metric.reporters"] = functools.partial(
                OpenTelemetryReporter, meter_provider=options.get("meter_provider")
            )
        original = Producer.__init__

        @functools.wraps(original)
        def instrumented(self: Producer, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
            # No local variable holds a plain secret while the producer is made: an error has all of them in its frames.
            config, keywords = with_plugins(config or {}, keywords, added)
            original(self, config, **keywords)

        self._original, self._instrumented, self._added = original, instrumented, added
        Producer.__init__ = instrumented  # type: ignore[method-assign]

    def _uninstrument(self, **options: Any) -> None:
        self._added.clear()  # for another library that has wrapped ours since, and goes on to call it
        if Producer.__init__ is self._instrumented:
            Producer.__init__ = self._original  # type: ignore[method-assign]


def with_plugins(
    config: Mapping[str, Any], keywords: Mapping[str, Any], added: Mapping[str, Callable[..., object]]
) -> tuple[Any, dict[str, Any]]:
    """Return settings with these plugins behind those that the program names, and with all values hidden."""
    hidden, options = hide_settings(config), hide_settings(keywords)
    if not isinstance(config, Mapping):
        return hidden, options  # the producer refuses it
    for key, plugin in added.items():
        # A keyword may have either spelling; None means not set, as in the settings.
        given = (each for each, value in keywords.items() if each.replace("_", ".") == key and value is not None)
        keyword = next(given, None)
        named = _listed(config.get(key) if keyword is None else keywords[keyword])
        if any(_is_ours(each) for each in named):
            continue
        if keyword is not None:
            options[keyword] = [*named, plugin]
        else:
            hidden[key] = [*named, plugin]
    return hidden, options


def _listed(value: Any) -> list[Any]:
    """Return the plugins of a setting that is a list, text with commas, one plugin or nothing."""
    match value:
        case None:
            return []
        case str():
            return [part.strip() for part in value.split(",") if part.strip()]
        case list() | tuple():
            return list(value)
        case _:
            return [value]


def _is_ours(plugin: Any) -> bool:
    if isinstance(plugin, functools.partial):
        plugin = plugin.func
    if isinstance(plugin, str):
        return plugin.rpartition(":")[2].strip().lower() == _NAME
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return issubclass(kind, TracingInterceptor | OpenTelemetryReporter)

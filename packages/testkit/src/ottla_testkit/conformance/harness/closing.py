"""The `close` of a plugin, called as a producer calls it."""

from __future__ import annotations

from ottla.interfaces import SupportsClose
from ottla_testkit.conformance.harness.checked_layer import fail, has_ability
from ottla_testkit.conformance.harness.concurrent_calls import within


def close_plugin(plugin: object, timeout: float, *, used: bool) -> None:
    """Close a plugin that has `close`; fail if that raises, or has not returned after *timeout* seconds."""
    if not has_ability(plugin, SupportsClose):
        return
    call = "close()" if used else "close() before any use"
    try:
        within(timeout, call, plugin.close, remedy="the producer's end waits for it")
    except (Exception, SystemExit) as error:
        why = (
            "it only ends"
            if used
            else "a producer that cannot be made closes plugins that it has not used, and it ends"
        )
        fail(f"{call} raised {error!r}; {why} what the plugin has begun", error)

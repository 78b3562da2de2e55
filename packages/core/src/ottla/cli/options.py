"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

from ottla.doctor import DEFAULT_TIMEOUT

Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class NumberRange(click.FloatRange):
    """A number in a range, which NaN is not: no comparison finds it outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        made = super().convert(value, param, ctx)
        if made != made:
            self.fail(f"{value!r} is not a number", param, ctx)
        return made


def json_option(what: str) -> Option:
    """Add `--json`, which prints *what*, to a command; it gets *as_json*."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what}.")


def timeout_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--timeout` to a command that asks brokers; it gets *timeout*."""
    return click.option(
        "--timeout",
        metavar="SECONDS",
        type=NumberRange(min=0, max=3600, min_open=True),
        default=DEFAULT_TIMEOUT,
        show_default=True,
        help="The time for everything.",
    )(command)


def flush_timeout_option(records: str) -> Option:
    """Add `--flush-timeout` to a command that sends records: *records* are waited for. It gets *flush_timeout*."""
    return click.option(
        "--flush-timeout",
        metavar="SECONDS",
        type=NumberRange(min=0),
        default=10.0,
        show_default=True,
        help=f"After Ctrl-C or SIGTERM, the time for {records}.",
    )

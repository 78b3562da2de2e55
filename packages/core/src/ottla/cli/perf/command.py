"""The command `ottla perf`: its options and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.foreign_output import printed_to_stderr
from ottla.cli.interruption import stopping_as_ctrl_c
from ottla.cli.options import NumberRange, flush_timeout_option, json_option
from ottla.cli.producer_settings import settings_options
from ottla.cli.results import print_result
from ottla.errors import OttlaError

_SOME_FAILED: Final = 1


@click.command(short_help="Measure how fast records are sent, and their latency.")
@click.argument("topic")
@settings_options("required")
@click.option(
    "--num-records", "records", metavar="N", type=click.IntRange(min=1), required=True, help="The number of records."
)
@click.option(
    "--record-size",
    metavar="BYTES",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="The size of a value, which is random letters.",
)
@click.option(
    "--payload-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the lines of this file instead.",
)
@click.option(
    "--throughput",
    metavar="RATE",
    type=NumberRange(min=0, min_open=True),
    help="Send at most so many records a second; by default as fast as possible.",
)
@click.option(
    "--warmup-records",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Records that are sent first and not measured.",
)
@click.option(
    "--transaction-duration-ms",
    metavar="MS",
    type=NumberRange(min=0, min_open=True),
    default=3000,
    show_default=True,
    help="With transactional.id, the time until each commit.",
)
@click.option(
    "--reporting-interval",
    metavar="SECONDS",
    type=NumberRange(min=0.1),
    default=5.0,
    show_default=True,
    help="The time between two lines.",
)
@flush_timeout_option("records that were sent")
@click.option(
    "--report", metavar="FILE", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write HTML, too."
)
@json_option("the result as JSON")
def perf(
    topic: str,
    settings: dict[str, Any],
    record_size: int,
    payload_file: Path | None,
    transaction_duration_ms: float,
    reporting_interval: float,
    flush_timeout: float,
    report: Path | None,
    as_json: bool,
    **numbers: Any,
) -> None:
    """Send records to TOPIC, and measure their rate and the time until each is acknowledged.

    The records stay in the topic, so take one without readers. The options are those of kafka-producer-perf-test.sh. A
    line for each interval goes to the standard error, the result to the standard output.

    The exit code is 0 if all records are acknowledged, 1 if not, 2 for wrong usage, 130 after Ctrl-C, 143
    after SIGTERM.
    """
    from ottla import Producer
    from ottla.cli.perf.load import Load, Run
    from ottla.cli.perf.output import document, show_interval, text
    from ottla.cli.perf.report import page

    if report is not None and not report.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {report.absolute().parent}", param_hint="--report")
    values = _values(record_size, payload_file)
    load = Load(
        topic=topic,
        records=numbers["records"],
        warmup_records=numbers["warmup_records"],
        records_per_second=numbers["throughput"],
        transaction_seconds=transaction_duration_ms / 1000,
        interval_seconds=reporting_interval,
    )
    try:
        with printed_to_stderr(), stopping_as_ctrl_c() as interruption:
            producer = Producer(settings)
            result = Run(load, producer, values, on_interval=show_interval).run(flush_timeout=flush_timeout)
    except OttlaError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        raise click.exceptions.Exit(_SOME_FAILED) from None
    print_result(json.dumps(document(topic, result), indent=2) if as_json else text(result))
    if report is not None:
        try:
            report.write_text(page(topic, result, producer.config), encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(report), str(error)) from None
    if result.interrupted:
        raise click.exceptions.Exit(interruption.exit_code)
    if result.error or result.acknowledged != load.records:
        raise click.exceptions.Exit(_SOME_FAILED)


def _values(size: int, file: Path | None) -> Iterator[bytes]:
    from ottla.cli.perf import payloads

    if file is None:
        return payloads.random_letters(size)
    try:
        return payloads.lines_of(file)
    except (OSError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--payload-file") from None

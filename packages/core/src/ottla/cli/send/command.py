"""The command `ottla send`: its options, and what it prints at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.foreign_output import printed_to_stderr
from ottla.cli.interruption import stopping_as_ctrl_c
from ottla.cli.options import NumberRange, flush_timeout_option, json_option
from ottla.cli.producer_settings import settings_options
from ottla.cli.results import print_result
from ottla.cli.send.formats import FORMATS
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.cli.send.counts import Counts
    from ottla.cli.send.plain import Ending

_SOME_FAILED: Final = 1


@click.command(short_help="Send the records in files or the standard input.")
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@settings_options("required")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format; by default that of the name, else lines."
)
@click.option("--key", metavar="COLUMN", help='The keys; by default "key", if there is such a column.')
@click.option("--value", metavar="COLUMN", help='The values; by default "value", else all other columns ("*") as JSON.')
@click.option("--timestamp", metavar="COLUMN", help="Milliseconds since 1970, or times such as 2026-01-31T12:00:00Z.")
@click.option("--partition", metavar="COLUMN", help="The partitions' numbers.")
@click.option("--headers", metavar="COLUMN", help="The headers: a map, or an object in JSON.")
@click.option("--header", "constants", metavar="NAME=VALUE", multiple=True, help="A header of every record.")
@click.option("--key-separator", metavar="TEXT", help="In lines, the text between a key and its value.")
@click.option(
    "--delimiter", metavar="CHARACTER", help=r"In CSV, what separates columns; by default a comma. \t: a tab."
)
@click.option(
    "--resume",
    metavar="STATE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Send in transactions, and keep the position in this file.",
)
@click.option(
    "--progress",
    "progress_seconds",
    metavar="SECONDS",
    type=NumberRange(min=0, max=86_400),
    default=30.0,
    show_default=True,
    help="Without a terminal, how often the counts are printed; 0: never.",
)
@flush_timeout_option("records that were read")
@json_option("the result as JSON")
def send(
    topic: str,
    files: tuple[str, ...],
    settings: dict[str, Any],
    as_json: bool,
    resume: Path | None,
    flush_timeout: float,
    progress_seconds: float,
    **choices: Any,
) -> None:
    """Send the records in FILES, or in the standard input, to TOPIC.

    Each line of text or JSON (.ndjson, .jsonl) is the value of a record. Fields of JSON can be its key and other parts,
    too: --key and similar options name them. Each row of a CSV, Parquet or Arrow file is a record. A CSV file needs a
    header line; all its columns are text.

    With --resume, repeat the same command after a crash or a kill: it continues where it stopped. Consumers that read
    committed records get each record once.

    The exit code is 0 if all records are acknowledged, 1 if not, 2 for wrong usage, 130 after Ctrl-C, 143
    after SIGTERM.
    """
    try:
        from ottla.cli.send import run
    except ModuleNotFoundError as missing:
        if str(missing.name).partition(".")[0] != "pyarrow":
            raise
        raise click.UsageError('ottla send needs pyarrow; try: pip install "ottla[arrow,cli]"') from None
    try:
        job = run.Job.of(topic, files, choices, progress_seconds=progress_seconds)
        with stopping_as_ctrl_c() as interruption:
            with printed_to_stderr():
                counts, ending = (
                    job.resume(settings, resume, flush_timeout) if resume else job.send(settings, flush_timeout)
                )
            print_result(
                json.dumps(_document(topic, counts, ending), indent=2)
                if as_json
                else _text(counts, ending, "committed" if resume else "acknowledged")
            )
    except run.InputError as error:
        raise click.UsageError(str(error)) from None
    except OttlaError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        raise click.exceptions.Exit(_SOME_FAILED) from None
    if ending.interrupted:
        raise click.exceptions.Exit(interruption.exit_code)
    if ending.error or counts.failed:
        raise click.exceptions.Exit(_SOME_FAILED)


def _document(topic: str, counts: Counts, ending: Ending) -> dict[str, object]:
    return {
        "topic": topic,
        "ok": not ending.error and not counts.failed,
        "records": counts.read,
        "acknowledged": counts.acknowledged,
        "failed": counts.failed,
        "bytes": counts.size,
        "seconds": round(counts.seconds, 3),
        "interrupted": ending.interrupted,
        "error": ending.error,
        "remark": ending.remark,
        "failures": counts.failures,
    }


def _text(counts: Counts, ending: Ending, done: str) -> str:
    megabytes, seconds = counts.size / 1_000_000, counts.seconds
    lines = [
        f"records {done}: {counts.acknowledged:,}, failed: {counts.failed:,}; {megabytes:,.1f} MB in {seconds:,.1f} s"
    ]
    lines += [f"failed: {failure}" for failure in counts.failures]
    if counts.failed > len(counts.failures):
        lines.append(f"and {counts.failed - len(counts.failures):,} more")
    lines += [f"stopped: {ending.error}"] if ending.error else []
    lines += [ending.remark] if ending.remark else []
    return "\n".join(lines)

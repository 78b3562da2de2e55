"""One run of `ottla send`: its inputs, its producer, and the progress that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import click

from ottla import Producer
from ottla.cli.send.columns import PARTS, InputError, Parts
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import STDIN, Input, check_no_file
from ottla.cli.send.lines import encodable
from ottla.cli.send.plain import Ending, send_all
from ottla.cli.send.progress import progress_of
from ottla.cli.send.resumable import continuation, recover, send_resumable
from ottla.cli.send.state import locked, subject_of

__all__ = ["InputError", "Job"]


@attrs.frozen(kw_only=True)
class Job:
    """What is sent, and to which topic; `choices` are the options that make records.

    Without a terminal, the counts are printed every `progress_seconds`; 0 means never.
    """

    topic: str
    inputs: Sequence[Input]
    choices: Mapping[str, Any]
    progress_seconds: float

    @classmethod
    def of(cls, topic: str, names: Sequence[str], choices: Mapping[str, Any], *, progress_seconds: float = 0.0) -> Self:
        """Make the job from the command's options. Raises InputError for those that do not fit together."""
        check_no_file(topic)
        if choices["constants"] and choices["headers"]:
            raise InputError("--headers and --header exclude each other")
        for text in (*choices["constants"], *choices.values()):
            try:  # bytes of the command line that are not UTF-8 are halves of surrogate pairs
                encodable(text if isinstance(text, str) else None)
            except UnicodeEncodeError:
                raise InputError(f"the option's value {text!r} is not UTF-8") from None
        if empty := [name for name in (*PARTS, "key_separator") if choices[name] == ""]:
            raise InputError(f"--{empty[0].replace('_', '-')} is empty; leave it out")
        parts = Parts(
            constants=tuple(map(_header, choices["constants"])),
            **{name: choices[name] for name in PARTS},
        )
        separator = choices["key_separator"]
        inputs = [
            Input.of(
                name, choices["format_"], parts, separator.encode() if separator else None, choices.get("delimiter")
            )
            for name in names or (STDIN,)
        ]
        return cls(topic=topic, inputs=inputs, choices=choices, progress_seconds=progress_seconds)

    def send(self, settings: Mapping[str, Any], flush_timeout: float) -> tuple[Counts, Ending]:
        """Send everything once."""
        counts = Counts()
        with Producer(settings) as producer, progress_of(counts, seconds=self.progress_seconds):
            return counts, send_all(producer, self.topic, self.inputs, counts, flush_timeout=flush_timeout)

    def resume(self, settings: Mapping[str, Any], path: Path, flush_timeout: float) -> tuple[Counts, Ending]:
        """Send what the run before has not committed."""
        if any(given.name == STDIN for given in self.inputs):
            raise InputError("--resume needs files: what was read from the standard input cannot be read again")
        if "transactional.id" in settings:
            raise InputError("--resume has a transactional.id of its own, in STATE; leave the setting out")
        counts = Counts()
        with locked(path):
            subject = subject_of(self.topic, [given.name for given in self.inputs], self.choices)
            state = recover(path, subject, settings)
            if line := continuation(self.inputs, state):
                click.echo(line, err=True)
            with progress_of(counts, seconds=self.progress_seconds):
                return counts, send_resumable(
                    settings, self.topic, self.inputs, counts, path=path, state=state, flush_timeout=flush_timeout
                )


def _header(written: str) -> tuple[str, bytes]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise InputError("--header takes NAME=VALUE")
    return name, value.encode()

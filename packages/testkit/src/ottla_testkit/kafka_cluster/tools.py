"""Kafka's command-line tools as functions: formatting empty nodes, printing log segments.

Each run needs about a second to start a JVM, so independent runs are parallel.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.errors import ClusterError, tail
from ottla_testkit.java.jars import DUMPER_APART
from ottla_testkit.java.release import release
from ottla_testkit.processes.interrupts import interrupts_deferred

TOOL_WITHIN = 60.0  # seconds


def format_nodes(
    java: Sequence[str], properties: Sequence[Path], *, cluster_id: str, options: Sequence[str] = ()
) -> None:
    """Format these nodes' empty data folders with this cluster id; `ClusterError` if settings are invalid."""
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", *options, "--config"]
    tools: list[subprocess.Popen[str]] = []
    try:
        with interrupts_deferred():
            tools.extend(_spawn([*command, str(path)]) for path in properties)
        for tool in tools:
            _finish(tool, problem="the brokers' settings were refused")
    finally:
        for tool in tools:
            with tool:  # closes its pipe, and waits
                tool.kill()


def dump_segments(java: Sequence[str], segments: Sequence[Path], *, version: str) -> str:
    """Return DumpLogSegments' output for the batches and records in these files."""
    package = "org.apache.kafka.tools" if release(version) >= DUMPER_APART else "kafka.tools"
    files = ",".join(map(str, segments))
    options = ["--deep-iteration", "--print-data-log", "--files", files]
    with _spawn([*java, f"{package}.DumpLogSegments", *options]) as tool:
        try:
            return _finish(tool, problem=f"DumpLogSegments failed for {files}")
        finally:
            tool.kill()


def _spawn(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, encoding="utf-8", errors="replace", env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip


def _finish(tool: subprocess.Popen[str], *, problem: str) -> str:
    try:
        printed, _ = tool.communicate(timeout=TOOL_WITHIN)
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{problem}: it ran for more than {TOOL_WITHIN:.0f} s") from error
    if tool.returncode:
        raise ClusterError(f"{problem}:\n{tail(printed)}")
    return printed

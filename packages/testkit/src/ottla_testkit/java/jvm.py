"""The command that runs a main class among a version's jars: memory, speed of start, and that its log is printed.

From 1.0 on slf4j-simple is there to log, which prints by itself; log4j, before, must be told to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla_testkit.java.release import needs_zookeeper

LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c)%n
"""


SOON_READY: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For a broker of some seconds: what runs often is compiled once, soon, and not well."""

SUSTAINED: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""For a broker under load: compiled and collected as Kafka's own start script has it, but for the heap's first size."""


def jvm_command(
    java: str,
    *,
    version: str,
    jars: Path,
    heap: str,
    folder: Path,
    options: Sequence[str] = (),
    sustained: bool = False,
) -> list[str]:
    """A command to which a main class and its arguments are added; `folder` takes files that it needs or unpacks."""
    command = [java, f"-Xmx{heap}", f"-Djava.io.tmpdir={folder}", *(SUSTAINED if sustained else SOON_READY)]
    if needs_zookeeper(version):
        log4j = folder / "log4j.properties"
        log4j.write_text(LOG4J)
        command += [f"-Dlog4j.configuration={log4j.as_uri()}", "-Dzookeeper.sasl.client=false"]
        # ZooKeeper would end for want of log4j's classes.
        command.append("-Dzookeeper.jmx.log4j.disable=true")
    return [*command, *options, "-cp", f"{jars}/*"]

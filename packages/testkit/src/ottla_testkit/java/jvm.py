"""The command that runs a main class with a version's jars: heap, fast start, and logging to the output.

From Kafka 1.0 on, the jars include slf4j-simple, which logs to the output by itself. Older versions log with log4j,
which needs a configuration; every version with a ZooKeeper gets it.
"""

from __future__ import annotations

import os
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
"""Options for a broker that runs for seconds: compile code that runs often once, early, without full optimization."""

SUSTAINED: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""Options for a broker under load: compiler and collector as in Kafka's start script, but another initial heap size."""


def jvm_command(
    java: str,
    *,
    version: str,
    jars: Path,
    heap: str,
    folder: Path,
    options: Sequence[str] = (),
    sustained: bool = False,
    class_path: Sequence[Path] = (),
) -> list[str]:
    """Return a command without main class and arguments; *folder* is for files that the command needs or unpacks.

    *class_path* has other places of classes: jars and folders.
    """
    command = [java, f"-Xmx{heap}", f"-Djava.io.tmpdir={folder}", *(SUSTAINED if sustained else SOON_READY)]
    if needs_zookeeper(version):
        log4j = folder / "log4j.properties"
        log4j.write_text(LOG4J)
        command += [f"-Dlog4j.configuration={log4j.as_uri()}", "-Dzookeeper.sasl.client=false"]
        # Without this setting, ZooKeeper fails because log4j's classes are missing.
        command.append("-Dzookeeper.jmx.log4j.disable=true")
    return [*command, *options, "-cp", os.pathsep.join((f"{jars}/*", *map(str, class_path)))]

"""The jars of Spark's own Kafka sink, for comparisons with it.

A session takes them by `spark.jars`. This module has the matching releases; `jars` fetches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla_testkit.java.download import Artifact, Route
from ottla_testkit.java.jars import fetched_jars

VERSION: Final = "4.2.0"

# Without dependencies: PySpark's jars include all of them, and some POMs name releases that were never published. 4.2.0
# is the newest release, and it runs in Spark 4.3.
ARTIFACTS: Final = tuple(
    Artifact(group=group, name=name, version=version, alone=True)
    for group, name, version in (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
        ("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
    )
)


def spark_sink_jars(
    *, cache: Path | None = None, route: Route | None = None, digests: Mapping[str, str] | None = None
) -> list[Path]:
    """Return the jars; the first call fetches them. `",".join(map(str, ...))` is the value for `spark.jars`.

    `cache`, `digests` and `OTTLA_KAFKA_CACHE` as for a broker's jars. Raises `KafkaUnavailableError` and
    `JarDigestError`.
    """
    folder = fetched_jars(f"spark-sink-{VERSION}", ARTIFACTS, cache=cache, route=route, digests=digests)
    return sorted(folder.glob("*.jar"))

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.java.download import Artifact
from ottla_testkit.java.spark_sink import ARTIFACTS, spark_sink_jars


def test_the_jars_of_the_sink_are_fetched_once_without_others(tmp_path: Path) -> None:
    asked: list[Artifact] = []

    def route(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        asked.extend(artifacts)
        for artifact in artifacts:
            (folder / f"{artifact.name}-{artifact.version}.jar").write_bytes(b"jar")

    digests = {f"{each.name}-{each.version}.jar": hashlib.sha512(b"jar").hexdigest() for each in ARTIFACTS}
    first = spark_sink_jars(cache=tmp_path, route=route, digests=digests)
    second = spark_sink_jars(cache=tmp_path, route=route, digests=digests)

    assert first == second
    assert sorted(jar.name for jar in first) == sorted(f"{each.name}-{each.version}.jar" for each in asked)
    assert "spark-sql-kafka-0-10_2.13-4.2.0.jar" in {jar.name for jar in first}
    assert all(artifact.alone for artifact in asked)

"""Logins and certificates on executors; and nothing that Spark shows or keeps of a write has its secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_spark_redaction import RECOMMENDED

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import Security
from spark_kit import SHARED_SPARK, WITHIN, arrived, values

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SECRET = "hunter2"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
OPTIONS = {
    "topic": "t",
    "report": "true",
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.max.block.ms": "0",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": LOGIN,
    "kafka.ssl.key.password": SECRET,
    "kafka.ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
}


PROGRAM = """
import json
import sys
from pathlib import Path
from pyspark.errors import PySparkException
from spark_kit import WITHIN, local_spark

options, folder = json.loads(sys.stdin.read()), Path(sys.argv[1])
events = {"spark_eventLog_enabled": "true", "spark_eventLog_compress": "false", "spark_eventLog_dir": sys.argv[2]}
redaction = {"spark_redaction_regex": sys.argv[3]}
with local_spark(folder / "warehouse", **events, **redaction) as spark:
    frame = spark.range(2).selectExpr("cast(id as string) as value")
    for wrong in ({}, {"kafka.sasl.jaas.confi": options["kafka.ssl.key.password"]}, {"kafka.sasl.mechanism": "SCRAM"}):
        try:
            frame.write.format("ottla").options(**{**options, **wrong}).mode("append").save()
        except PySparkException as error:
            print("raised:", error)
    frame.limit(0).write.format("ottla").options(**options).mode("append").save()
    frame.write.parquet(str(folder / "in"))
    stream = spark.readStream.schema("value string").parquet(str(folder / "in"))
    writer = stream.writeStream.format("ottla").options(**options).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.awaitTermination(int(WITHIN))
    except PySparkException as error:
        print("raised:", error)
    print(query.status, query.lastProgress, query.recentProgress)
    query.explain(True)
    for table in ("missing", "created"):
        try:
            if table == "missing":
                frame.writeTo(table).options(**options).append()
            else:
                frame.limit(0).write.format("ottla").options(**options).mode("append").saveAsTable(table)
        except PySparkException as error:
            print("raised:", error)
    own = ", ".join(f"'{key}' = '{value}'" for key, value in options.items()).replace("\\n", "\\\\n")
    spark.sql(f"EXPLAIN EXTENDED INSERT INTO created WITH ({own}) SELECT 'x' AS value").show(truncate=False)
"""


@pytest.mark.thorough(
    "a Spark of its own; the last test here searches the event log, and test_spark_connect.py what is printed"
)
def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    program, events = tmp_path / "program.py", tmp_path / "events"
    program.write_text(PROGRAM)
    events.mkdir()

    # A process of its own, to have all that Spark and its workers print.
    ended = subprocess.run(
        [sys.executable, program, tmp_path, events, RECOMMENDED],
        input=json.dumps(OPTIONS),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])},
        timeout=5 * WITHIN,
        check=False,
        capture_output=True,
        text=True,
    )

    recorded = [path.read_text() for path in events.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.count("raised: ") == 5
    assert "cannot be sent" in ended.stdout
    assert "ottla: the write" in ended.stderr  # what is printed besides commits can be searched
    assert any("ottla" in text for text in recorded)
    assert [text for text in [ended.stdout, ended.stderr, *recorded] if SECRET in text] == []


@pytest.mark.rule("security.spark.names")
def test_no_option_may_name_a_file_of_the_cluster(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("'x' as value")
    for options in (
        {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "/etc/passwd"},
        {"kafka.SSL.TrustStore.Location": "/etc/passwd"},
    ):
        with pytest.raises(
            PySparkException, match="OTTLA_ALLOWED_FILES=/etc/passwd in the environment of Spark's driver"
        ):
            frame.write.format("ottla").options(**{**OPTIONS, **options}).mode("append").save()


@pytest.mark.kafka
def test_certificates_are_passed_as_text_or_as_files_shipped_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    security = Security(folder=tmp_path, users={"alice": SECRET})
    authority = security.certificates.authority
    as_text = {"kafka.ssl.truststore.certificates": authority.read_text()}
    as_file = {"kafka.ssl.truststore.location": authority.name}
    spark.sparkContext.addFile(str(authority))
    with KafkaCluster(security=security) as kafka:
        kafka.create_topic("secure")
        options = {
            "topic": "secure",
            "kafka.bootstrap.servers": kafka.listener("SASL_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": LOGIN,
            "kafka.ssl.truststore.type": "PEM",
        }
        for value, trust in ((1, as_text), (2, as_file)):
            frame = spark.range(0, 1, 1, 1).selectExpr(f"'{value}' as value")
            frame.write.format("ottla").options(**options, **trust).mode("append").save()

        assert values(arrived(kafka, "secure")) == [b"1", b"2"]
    recorded = [path.read_bytes() for path in SHARED_SPARK.events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerJobStart" in text for text in recorded)
    assert [text for text in recorded if SECRET.encode() in text] == []

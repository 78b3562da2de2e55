"""What Spark shows of the options of tables: nothing secret, with the redaction that docs/spark.md recommends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ottla.interfaces import ConfigKey
from ottla.plugins.registry import Registry

SETTING = "spark.redaction.regex"
OF_A_SESSION = "spark.sql.redaction.options.regex"
"""What Spark hides besides. A session may set only this one."""

[RECOMMENDED] = re.findall(
    f"^{re.escape(SETTING)}=(.*)", (Path(__file__).parents[3] / "docs" / "spark.md").read_text(), re.MULTILINE
)

SECRET = "hunter2"
KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
OPTIONS = {
    "topic": "t",
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.max.block.ms": "0",
    "kafka.sasl.password": SECRET,
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase": SECRET,
    "kafka.ssl.keystore.key": KEY,
    "schema.registry.basic.auth.user.info": f"alice:{SECRET}",
}


CERTIFICATES = {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
"""Settings that our logs hide, too, because they are long; they are no secrets."""


def secret_keys() -> list[str]:
    """The secret settings of our plugins."""
    registry = Registry()
    plugins = [registry.plugin("transport", "SSL"), registry.plugin("serializer", "avro")]
    plugins += [registry.plugin("authenticator", name) for name in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")]
    declared: list[ConfigKey] = [key for plugin in plugins for key in plugin.config_keys()]
    return sorted({key.name for key in declared if key.secret} - CERTIFICATES)


def example_of(key: str) -> str:
    """A value: some are recognised by what all of their values have."""
    if key == "sasl.jaas.config":
        return f'PlainLoginModule required username="alice" password="{SECRET}";'
    return KEY if key.endswith((".key", ".pem")) else SECRET


def test_the_recommended_redaction_hides_the_secrets_of_all_plugins() -> None:
    found = secret_keys()

    assert "ssl.keystore.key" in found
    # Spark hides an option if the expression is found in its key or in its value.
    hidden = [key for key in found if re.search(RECOMMENDED, key) or re.search(RECOMMENDED, example_of(key))]
    assert hidden == found


def explained(frame: DataFrame, options: Mapping[str, str]) -> str:
    frame.createOrReplaceTempView("rows_to_write")
    session = frame.sparkSession
    session.sql("CREATE TABLE IF NOT EXISTS shown_options (value STRING) USING ottla")
    written = ", ".join(f"'{key}' = '{value}'" for key, value in options.items()).replace("\n", "\\n")
    try:
        return str(
            session.sql(
                f"EXPLAIN EXTENDED INSERT INTO shown_options WITH ({written}) SELECT value FROM rows_to_write"
            ).collect()
        )
    finally:
        session.sql("DROP TABLE shown_options")


def error_of_a_missing_table(frame: DataFrame, options: Mapping[str, str]) -> str:
    with pytest.raises(PySparkException) as caught:
        frame.writeTo("no_such_table").options(**options).append()
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("shown", [explained, error_of_a_missing_table])
def test_a_table_shows_no_secret_with_the_recommended_redaction(
    spark: SparkSession, shown: Callable[[DataFrame, Mapping[str, str]], str]
) -> None:
    before = spark.conf.get(OF_A_SESSION)
    assert before is not None, "Spark has a default"
    spark.conf.set(OF_A_SESSION, RECOMMENDED)
    spark.createDataFrame([], "nothing int")  # makes this session the thread's active one, which writes errors
    try:
        text = shown(spark.range(1).selectExpr("'x' as value"), OPTIONS)
    finally:
        spark.conf.set(OF_A_SESSION, str(before))

    assert text.count("redacted") >= 4
    assert SECRET not in text

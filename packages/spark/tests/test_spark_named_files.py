"""Options of a write name the files and URLs that the user who runs the cluster allows, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.interfaces import ConfigKey
from ottla.plugins.registry import Registry
from ottla_authenticator_sasl.conformance.kerberos_library import library_of_kerberos
from ottla_spark.options import producer_settings
from ottla_spark.options.named_files import names_a_file, names_a_url
from ottla_spark.options.options import read_options

OAUTH = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "kafka",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "s3cret",
}
URL = "kafka.sasl.oauthbearer.token.endpoint.url"
IDP = "https://idp.example.com/token"


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_ALLOWED_URLS", raising=False)
    monkeypatch.delenv("OTTLA_ALLOWED_FILES", raising=False)
    monkeypatch.delenv("OTTLA_ALLOWED_LOGINS", raising=False)
    monkeypatch.setattr(producer_settings, "_valid", set())


def problems(**options: str) -> list[str]:
    """The driver's error for these options, together with servers and a topic."""
    found: list[str] = []
    read_options({"kafka.bootstrap.servers": "localhost:9092", "topic": "t", **options}, problems=found)
    return found


FILES = (
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.crl.location",
    "https.ca.location",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.template.file",
    "strange.plugin.path",
    "strange.plugin.config_file",
)


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("key", FILES)
def test_a_file_is_refused_before_it_is_opened(key: str, tmp_path: Path) -> None:
    there, missing = tmp_path / "there.pem", tmp_path / "missing.pem"
    there.write_text("nothing of the kind")

    said = [problems(**{f"kafka.{key}": str(path)}) for path in (there, missing)]
    assert [len(each) for each in said] == [1, 1]
    assert said[0][0].replace("there.pem", "missing.pem") == said[1][0]
    assert said[0][0].endswith(
        f"{key}: '{there}' may not be read: it is not in the list of allowed files; the user who runs "
        f"the program can allow it with OTTLA_ALLOWED_FILES={there} in the environment of Spark's driver, and "
        "for executors as spark.executorEnv.OTTLA_ALLOWED_FILES"
    )


def test_other_problems_are_listed_with_a_file_that_is_not_allowed(tmp_path: Path) -> None:
    store = tmp_path / "authorities.pem"
    tls = {"kafka.ssl.truststore.location": str(store), "kafka.ssl.truststore.password": "s3cret"}

    said = problems(**tls, **{"kafka.security.protocol": "strange", "kafka.compresion.type": "lz4"})
    assert len(said) == 3
    assert "may not be read" in said[0]
    assert any("'compresion.type' is not a known key" in each for each in said)
    assert any("strange" in each for each in said)


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("value", ["../ca.pem", "certs/ca.pem", "./ca.pem", "..", ".", "ca.pem\0", "~/ca.pem"])
def test_a_bare_name_means_only_a_file_next_to_the_task(value: str) -> None:
    assert "is not an absolute path" in problems(**{"kafka.ssl.truststore.location": value})[0]


def test_a_bare_name_is_for_files_that_spark_ships() -> None:
    tls = {"kafka.security.protocol": "PLAINTEXT", "kafka.ssl.truststore.location": "ca.pem"}

    assert not any("may not be read" in each or "absolute" in each for each in problems(**tls))
    assert "is not an absolute path" in problems(**{"kafka.sasl.oauthbearer.assertion.file": "token"})[0]


def test_an_allowed_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", f"{tmp_path}/")
    tls = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": str(tmp_path / "missing.pem")}

    assert "No such file" in problems(**tls)[0]


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("url", [IDP, "http://169.254.169.254/latest", "http://127.0.0.1:8080/"])
def test_a_token_url_is_refused_unless_allowed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [said] = problems(**OAUTH, **{URL: url})
    assert f"OTTLA_ALLOWED_URLS={url} in the environment of Spark's driver" in said
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", url)

    assert problems(**OAUTH, **{URL: url}) == []


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("url", ["file:///var/run/token", "FILE:///var/run/%74oken", "file://localhost/var/run/token"])
def test_a_token_file_is_refused_unless_allowed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oauth = {key: value for key, value in OAUTH.items() if "credentials" not in key} | {URL: url}
    [said] = problems(**oauth)
    assert "OTTLA_ALLOWED_FILES=/var/run/token in the environment of Spark's driver" in said
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", "/var/run/token")

    assert problems(**oauth) == []


@pytest.mark.rule("security.spark.names")
def test_a_url_of_a_third_party_plugin_is_refused() -> None:
    assert "is not allowed" in problems(**{"kafka.strange.registry.url": IDP})[0]


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("option", ["keyTab", '"keyTab"', '"key\\124ab"'])
def test_a_keytab_in_a_jaas_config_is_refused_in_any_spelling(option: str) -> None:
    said = problems(
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
            f'serviceName="kafka" useKeyTab=true {option}="/etc/other.keytab";',
        }
    )

    assert "'/etc/other.keytab' may not be read" in said[0]


KERBEROS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "GSSAPI",
    "kafka.sasl.kerberos.service.name": "kafka",
}


@pytest.mark.rule("security.allowed.logins")
@pytest.mark.parametrize("keytab", [None, "/etc/kafka/app.keytab"], ids=["ticket cache", "keytab"])
def test_no_option_logs_in_as_the_user_of_the_cluster(keytab: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", library_of_kerberos())
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", "/etc/kafka/")
    options = KERBEROS | ({} if keytab is None else {"kafka.sasl.kerberos.keytab": keytab})

    [said] = problems(**options)
    assert said == (
        "in the kafka.* options, sasl.mechanism=GSSAPI: a login with Kerberos tickets uses the identity of the "
        "process, and the options may come from another user; the user who runs the process can allow it with "
        "OTTLA_ALLOWED_LOGINS=kerberos in the environment of Spark's driver, and for executors as "
        "spark.executorEnv.OTTLA_ALLOWED_LOGINS"
    )
    monkeypatch.setenv("OTTLA_ALLOWED_LOGINS", "kerberos")
    assert problems(**options) == []


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("option", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_tls_file_of_the_identity_server_in_a_jaas_config_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", IDP)
    jaas = f'org.x.OAuthBearerLoginModule required {option}="/etc/passwd";'

    assert (
        problems(**OAUTH, **{URL: IDP, "kafka.sasl.jaas.config": jaas})[0].count("'/etc/passwd' may not be read") == 1
    )


@pytest.mark.rule("security.spark.names")
@pytest.mark.parametrize("key", ["config.providers", "config.providers.file.class", "config.providers.env.param.x"])
def test_config_providers_are_refused(key: str) -> None:
    assert (
        "cannot be set: it would show files and environment variables of the cluster's machines"
        in problems(**{f"kafka.{key}": "file"})[0]
    )


HOLD_TEXT = frozenset({"https.ca.pem", "https.certificate.pem", "ssl.truststore.type", "ssl.keystore.type"})
"""Their meanings speak of the file whose place they take, or whose form they name."""


def declared() -> list[ConfigKey]:
    """The keys of all of our plugins."""
    registry = Registry()
    plugins = [registry.plugin("transport", "SSL")]
    plugins += [registry.plugin("authenticator", name) for name in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")]
    return [key for plugin in plugins for key in plugin.config_keys()]


def test_every_key_with_a_file_is_known_to_name_one() -> None:
    """A new key that names a file must end as such keys do, or be listed here."""
    speaking = {key.name for key in declared() if "file" in key.meaning.lower() and not key.secret}

    assert {name for name in speaking if not (names_a_file(name) or names_a_url(name))} == HOLD_TEXT

"""GSSAPI against a library of the test's own, for the real one needs Kerberos' headers, and a KDC, to be there."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import check_config
from ottla.errors import AuthenticationError, ConfigError, PluginNotFoundError
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla_authenticator_sasl.conformance.kerberos_library import (
    Context,
    GSSError,
    RequirementFlag,
    library_of_kerberos,
    recorded,
)
from sasl_plugins import mechanism, problem, refusal

SERVICE = {"sasl.kerberos.service.name": "kafka"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `gssapi`, as far as it is used."""
    module = library_of_kerberos()
    monkeypatch.setitem(sys.modules, "gssapi", module)
    return module


def arguments(settings: dict[str, str]) -> dict[str, Any]:
    """The arguments of a context."""
    exchange: Any = mechanism("GSSAPI", settings).authenticator("broker-1", 9092)
    exchange.start()
    made: dict[str, Any] = exchange._context.arguments
    return made


def authenticated() -> Authenticator:
    """An exchange that waits for the offer of security layers."""
    exchange = mechanism("GSSAPI", SERVICE).authenticator("broker-1", 9092)
    assert exchange.start() == b"AP-REQ"
    assert exchange.challenge(b"AP-REP") == Step(reply=b"", done=False)
    return exchange


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("layers", [b"\x01", b"\x07"])
def test_an_exchange_ends_without_a_security_layer(layers: bytes) -> None:
    answer = authenticated().challenge(b"wrapped:" + layers + b"\x00\xff\xff")

    assert answer == Step(reply=b"wrapped:\x01\x00\x00\x00", done=True)


@pytest.mark.usefixtures("library")
def test_the_plugin_has_all_attributes_of_the_contract() -> None:
    made = mechanism("gssapi", SERVICE)

    assert isinstance(made, Mechanism)
    assert made.blocking


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("offer", "said"),
    [
        (b"wrapped:\x06\x00\xff\xff", "requires a Kerberos security layer (sasl.qop), which Ottla does not support"),
        (b"wrapped:", "offers security layers in 0 bytes instead of 4"),
        (b"wrapped:\x01\x00\x00\x00\x00", "offers security layers in 5 bytes instead of 4"),
        (b"\x01\x00\x00\x00", "Kerberos could not verify the identity of kafka@broker-1: 'Major (393216)"),
    ],
)
def test_an_invalid_security_layer_offer_is_refused(offer: bytes, said: str) -> None:
    message = refusal(authenticated(), offer)

    assert said in message
    assert "kafka@broker-1" in message


@pytest.mark.usefixtures("library")
def test_a_broker_that_cannot_prove_its_identity_is_refused() -> None:
    exchange = mechanism("GSSAPI", SERVICE).authenticator("broker-1", 9092)
    exchange.start()

    assert "Kerberos could not verify the identity of kafka@broker-1: 'Major (655360)" in refusal(exchange, b"?")


def test_a_missing_ticket_is_reported_with_how_to_get_one(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ticket(_self: Context, token: bytes | None = None) -> bytes:
        raise GSSError("No Kerberos credentials available")

    monkeypatch.setattr(Context, "step", no_ticket)
    with pytest.raises(AuthenticationError, match=r"no Kerberos ticket for kafka@broker-1: 'No Kerb.*klist, kinit"):
        mechanism("GSSAPI", SERVICE).authenticator("broker-1", 9092).start()


@pytest.mark.usefixtures("library")
def test_a_context_is_for_the_broker_service_with_mutual_authentication() -> None:
    made = arguments(SERVICE)

    assert made["name"] == ("kafka@broker-1", "service")
    assert made["creds"] is None
    assert made["flags"] == 2 | 8 | 32
    assert made["mech"] == "kerberos"
    assert made["usage"] == "initiate"


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    "settings",
    [
        SERVICE | {"sasl.kerberos.principal": "alice@X", "sasl.kerberos.keytab": "/a"},
        {"sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/a" principal="alice@X" serviceName=kafka;'},
        SERVICE | {"sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/a" principal="alice@X";'},
    ],
)
def test_a_principal_and_its_keytab_may_be_given(settings: dict[str, str]) -> None:
    credentials = arguments(settings)["creds"]

    assert credentials == recorded(name=("alice@X", "principal"), usage="initiate", store={"client_keytab": "/a"})


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "sasl.mechanism=GSSAPI needs sasl.kerberos.service.name; it is kafka for most brokers"),
        (SERVICE | {"sasl.jaas.config": f"{MODULE} serviceName=other;"}, "serviceName in sasl.jaas.config differ"),
        (SERVICE | {"sasl.kerberos.keytab": "/a", "sasl.jaas.config": f"{MODULE};"}, "are both given; leave one out"),
        (SERVICE | {"sasl.jaas.config": "a.PlainLoginModule required;"}, "needs a Krb5LoginModule"),
        (SERVICE | {"sasl.login.class": "a.B"}, "Java's classes cannot be loaded here"),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(settings: dict[str, str], said: str) -> None:
    assert said in problem("GSSAPI", settings)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)

    with pytest.raises(PluginNotFoundError, match=r"try: pip install 'ottla-authenticator-sasl\[gssapi\]'"):
        mechanism("GSSAPI", SERVICE)


def test_the_real_library_has_the_functions_that_are_used() -> None:
    library = pytest.importorskip("gssapi")

    assert issubclass(importlib.import_module("gssapi.exceptions").GSSError, Exception)
    for name in (
        "MechType.kerberos",
        "NameType.hostbased_service",
        "NameType.kerberos_principal",
        "Credentials",
        "Name",
    ):
        found: Any = library
        for part in name.split("."):
            found = getattr(found, part)
    assert {flag.name for flag in RequirementFlag} <= {flag.name for flag in library.RequirementFlag}
    assert all(hasattr(library.SecurityContext, method) for method in ("step", "complete", "wrap", "unwrap"))


def refused(**settings: str) -> tuple[str, ...]:
    """The problems of a producer's settings without `sasl.mechanism`."""
    with pytest.raises(ConfigError) as caught:
        check_config({"bootstrap.servers": "kafka:9092", "security.protocol": "SASL_PLAINTEXT"}, **settings)
    return tuple(caught.value.problems)


def test_a_password_without_a_mechanism_is_no_matter_of_kerberos(
    caplog: pytest.LogCaptureFixture,
) -> None:
    [problem] = refused(sasl_username="alice", sasl_password="secret")

    assert problem == (
        "sasl.mechanism was left out, and that means GSSAPI (Kerberos), as in Java; set it to the mechanism of the "
        "brokers, such as SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"
    )
    assert caplog.records == []


def test_a_problem_of_the_default_mechanism_says_that_it_is_the_default() -> None:
    [problem] = refused()

    assert problem.startswith("sasl.mechanism=GSSAPI needs sasl.kerberos.service.name; it is kafka for most brokers (")
    assert "sasl.mechanism was left out" in problem


@pytest.mark.usefixtures("library")
def test_settings_of_kerberos_without_a_mechanism_are_those_of_gssapi() -> None:
    settings = {"sasl.kerberos.service.name": "kafka", "sasl.username": "alice"}

    check_config({"bootstrap.servers": "kafka:9092", "security.protocol": "SASL_PLAINTEXT"} | settings)


@pytest.mark.usefixtures("library")
def test_a_keytab_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for keytab in (str(tmp_path / "pipe"), f"FILE:{tmp_path / 'pipe'}", "/dev/zero"):
        plain = SERVICE | {"sasl.kerberos.keytab": keytab}
        of_java = SERVICE | {"sasl.jaas.config": f'{MODULE} useKeyTab="true" keyTab="{keytab}";'}

        assert f"sasl.kerberos.keytab={keytab} is not a regular file" in problem("GSSAPI", plain)
        assert f"keyTab in sasl.jaas.config={keytab} is not a regular file" in problem("GSSAPI", of_java)

"""Installations of only some packages, into an otherwise empty environment."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from installation.clean_environment import Environment, MakePlugin, build, done, listed, run
from long_forms import LONG

PRODUCER = """
    from ottla import Producer

    try:
        Producer({{"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "1", {settings}}}).close()
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("made")
"""
PARTITIONER = """
    from ottla.hookspecs import hookimpl

    class Always:
        def partition(self, topic, key, view):
            return 0

    @hookimpl
    def ottla_partitioner():
        return Always()
"""
KINDS_WITH_A_TEMPLATE = [
    "transport",
    "authenticator",
    "partitioner",
    "compressor",
    "reporter",
    "serializer",
    "interceptor",
    "encoder",
    "config_provider",
]


def made(environment: Environment, settings: str = "") -> str:
    """The result of making a producer with these settings: "made", or the error."""
    return done(environment.program(PRODUCER.format(settings=settings))).strip()


SEND = """
    from ottla import Producer, TopicUnavailableError

    with Producer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "100"}) as producer:
        try:
            producer.send("orders", b"value")
        except TopicUnavailableError as error:
            print("ECONNREFUSED" in str(error))
"""


def test_the_core_has_a_transport_and_reports_other_missing_plugins(environment: Environment) -> None:
    environment.install("ottla")

    assert made(environment) == "made"
    assert done(environment.program(SEND)).strip() == "True"
    assert "try: pip install ottla-transport-ssl" in made(environment, '"security.protocol": "SSL"')
    assert "PluginNotFoundError" in made(environment, '"compression.type": "zstd"')
    command = environment.run("-m", "ottla", "plugins")
    assert (command.returncode, command.stderr) == (
        2,
        'the command line needs click; try: pip install "ottla[cli]"\n',
    )


def test_codecs_report_missing_libraries(environment: Environment) -> None:
    environment.install("ottla[cli]")

    assert made(environment) == "made"
    assert made(environment, '"compression.type": "gzip"') == "made"
    assert 'try: pip install "ottla[lz4]"' in made(environment, '"compression.type": "lz4"')
    assert {name for name, problem in listed(environment).items() if problem} == {
        "compressor:lz4",
        "compressor:snappy",
        "compressor:zstd",
    }
    new = environment.run("-m", "ottla", "plugins", "new", "transport", "acme")
    assert (new.returncode, "try: pip install ottla-testkit" in new.stderr) == (2, True)


def test_with_all_packages_everything_is_available(environment: Environment) -> None:
    # `all` has ottla-accel, which takes a compiler.
    everything = ("ottla[all]", "ottla-spark") if LONG else ("ottla[cli,lz4,snappy,zstd]", "ottla-transport-ssl")
    environment.install(*everything, "ottla-authenticator-sasl", "ottla-testkit")

    assert {name for name, problem in listed(environment).items() if problem} <= {"authenticator:GSSAPI"}
    for codec in ("gzip", "lz4", "snappy", "zstd"):
        assert made(environment, f'"compression.type": "{codec}"') == "made"
    assert (
        made(
            environment,
            '"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"',
        )
        == "made"
    )
    done(environment.run("-m", "ottla", "plugins", "check", "transport:plaintext", "PLAIN", "SCRAM-SHA-512", "gzip"))
    encrypted = environment.run("-m", "ottla", "plugins", "check", "transport:ssl")
    assert (encrypted.returncode, "try: pip install 'ottla-testkit[tls]'" in encrypted.stderr) == (1, True)


@pytest.mark.thorough("full-installation runs it; tox has the example's own tests")
def test_a_third_party_transport_works_next_to_ours(environment: Environment) -> None:
    environment.install("ottla[cli]", "ottla-transport-plaintext", "ottla-transport-socks5-example")

    via = '"connection.via": "socks5"'
    assert made(environment, f'{via}, "socks5.proxy": "127.0.0.1:1080"') == "made"
    assert "needs socks5.proxy" in made(environment, via)
    assert listed(environment)["transport:socks5"] is None


@pytest.mark.thorough("full-installation runs it; test_broken_installations.py has such plugins without wheels")
def test_broken_plugins_are_reported_and_affect_no_other(environment: Environment, plugin: MakePlugin) -> None:
    environment.install(
        "ottla[cli]",
        "ottla-transport-plaintext",
        plugin("acme-good", PARTITIONER, name="good"),
        plugin("acme-broken", "import nothing_of_this_name", name="broken"),
        plugin("acme-newer", f"ottla_spec = 2\n{textwrap.dedent(PARTITIONER)}", name="newer"),
        plugin("acme-first", PARTITIONER, name="twin"),
        plugin("acme-second", PARTITIONER, name="TWIN"),
    )

    assert made(environment) == "made"
    assert made(environment, '"partitioner.class": "good"') == "made"
    reported = {
        "broken": "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "newer": "is made for hook specs 2, but this version of ottla supports 1; upgrade ottla, or install an older "
        "acme-newer",
    }
    problems = listed(environment)
    for name, words in reported.items():
        error = made(environment, f'"partitioner.class": "{name}"')
        assert error.startswith("InvalidPluginError ")
        assert words in error
        assert words in (problems[f"partitioner:{name}"] or "")
    assert problems["partitioner:good"] is None
    twin = made(environment, '"partitioner.class": "twin"')
    assert "more than one partitioner is named 'twin'; write acme-first:twin or acme-second:twin" in twin
    assert made(environment, '"partitioner.class": "acme-second:twin"') == "made"


@pytest.mark.thorough(
    "full-installation runs it; test_cli_plugins_new.py generates, checks and tests the same packages"
)
@pytest.mark.parametrize("name", ["abcdefgh-ijklmnopqr", *(["x"] if LONG else [])])
def test_a_generated_package_is_a_package_like_any_other(environment: Environment, tmp_path: Path, name: str) -> None:
    environment.install("ottla[cli]", "ottla-transport-plaintext", "ottla-testkit")
    folders = [tmp_path / "new" / kind for kind in KINDS_WITH_A_TEMPLATE]
    for kind, folder in zip(KINDS_WITH_A_TEMPLATE, folders, strict=True):
        done(environment.run("-m", "ottla", "plugins", "new", kind, name, "--directory", str(folder)))

    build(tmp_path / "built", folders)
    environment.install(*(tmp_path / "built").glob("*.whl"))
    problems = listed(environment)
    for kind, folder in zip(KINDS_WITH_A_TEMPLATE, folders, strict=True):
        assert problems[f"{kind}:{name.upper() if kind == 'authenticator' else name}"] is None
        done(run(sys.executable, "-m", "ruff", "check", "--no-cache", ".", cwd=folder))
        done(run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".", cwd=folder))
        types = ("--python-executable", environment.python, "--cache-dir", tmp_path / "mypy")
        done(run(sys.executable, "-m", "mypy", *types, cwd=folder))
    done(environment.run("-m", "ottla", "plugins", "check", *(f"{kind}:{name}" for kind in KINDS_WITH_A_TEMPLATE)))

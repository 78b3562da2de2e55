"""References in settings: which providers resolve them, with which values, and what is refused with which words."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla import Producer
from ottla.config import ProducerConfig, allow_lists
from ottla.errors import ConfigError, ConnectionFailedError, OttlaError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, ConfigProvider
from ottla.plugins.config_providers import allowed_paths
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import Registry
from ottla.plugins.registry.installed import announced
from ottla.plugins.selection import choose
from ottla_testkit.conformance import ConfigProviderConformance
from plugin_site import Site, plugin_site

site = plugin_site

SECRET = "hunter2-of-the-vault"
BASE = {"bootstrap.servers": "kafka:9092"}


def resolved(settings: Mapping[str, Any], registry: Registry | None = None) -> ProducerConfig:
    """The configuration with these settings."""
    registry = registry or Registry()
    config, _plugins = choose(read_draft({**BASE, **settings}, registry=registry), registry)
    return config


def client_id(written: str, **settings: str) -> str:
    """A setting with references, resolved by `env` unless the others say otherwise."""
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return resolved({"config.providers": "env,file,directory", "client.id": written, **named}).connection.client_id


def problems(settings: Mapping[str, Any], registry: Registry | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(settings, registry)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with secrets as files, and as properties; an environment with one."""
    monkeypatch.setenv("OTTLA_TEST_NAME", "from-env")
    (tmp_path / "kafka.properties").write_text(f"name = from-file\npassword={SECRET}\nodd=\\u00e9 é\n", "utf-8")
    (tmp_path / "name").write_text("from-directory")
    (tmp_path / "with-line-break").write_text("x\n")
    return tmp_path


# What is resolved


def test_an_environment_variable_is_resolved(folder: Path) -> None:
    assert client_id("${env:OTTLA_TEST_NAME}") == "from-env"


def test_a_property_of_a_file_is_resolved(folder: Path) -> None:
    assert client_id(f"${{file:{folder}/kafka.properties:name}}") == "from-file"
    assert client_id(f"${{file:{folder}/kafka.properties:odd}}") == "é é"


def test_a_file_of_a_directory_is_resolved(folder: Path) -> None:
    assert client_id(f"${{directory:{folder}:name}}") == "from-directory"


def test_several_references_with_text_around_them_are_resolved(folder: Path) -> None:
    written = f"a-${{env:OTTLA_TEST_NAME}}-${{directory:{folder}:name}}-${{env:OTTLA_TEST_NAME}}-z"

    assert client_id(written) == "a-from-env-from-directory-from-env-z"


def test_a_resolved_value_is_not_resolved_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_NAME", "${env:HOME}")

    assert client_id("${env:OTTLA_TEST_NAME}") == "${env:HOME}"


def test_keywords_may_contain_references(folder: Path) -> None:
    draft = read_draft(BASE, {"config_providers": "env", "client_id": "${env:OTTLA_TEST_NAME}"}, registry=Registry())

    assert draft.config.connection.client_id == "from-env"


def test_a_key_of_a_plugin_is_resolved(folder: Path) -> None:
    settings = {
        "config.providers": "env",
        "partitioner.class": "round_robin",
        "compression.type": "gzip",
        "compression.gzip.level": "${env:OTTLA_TEST_LEVEL}",
    }
    os.environ["OTTLA_TEST_LEVEL"] = "77"
    try:
        assert "compression.gzip.level" in problems(settings)
    finally:
        del os.environ["OTTLA_TEST_LEVEL"]


@pytest.mark.parametrize(
    ("alias", "written"),
    [
        ("secrets", "org.apache.kafka.common.config.provider.FileConfigProvider"),
        ("secrets", "file"),
        ("secrets", "FILE"),
        ("env", "file"),
    ],
)
def test_a_provider_may_have_any_name_and_a_java_class(folder: Path, alias: str, written: str) -> None:
    settings = {
        "config.providers": alias,
        f"config.providers.{alias}.class": written,
        "client.id": f"${{{alias}:{folder}/kafka.properties:name}}",
    }

    assert resolved(settings).connection.client_id == "from-file"


def test_other_java_providers_are_recognised_by_their_classes(folder: Path) -> None:
    settings = {
        "config.providers": "e,d",
        "config.providers.e.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.d.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "client.id": f"${{e:OTTLA_TEST_NAME}} ${{d:{folder}:name}}",
    }

    assert resolved(settings).connection.client_id == "from-env from-directory"


# What stays


def test_nothing_is_resolved_without_config_providers(folder: Path) -> None:
    assert resolved({"client.id": "${env:OTTLA_TEST_NAME}"}).connection.client_id == "${env:OTTLA_TEST_NAME}"


def test_references_to_unnamed_providers_stay_unchanged(folder: Path) -> None:
    settings = {"config.providers": "file", "client.id": "${env:OTTLA_TEST_NAME}"}

    assert resolved(settings).connection.client_id == "${env:OTTLA_TEST_NAME}"


def test_the_settings_of_the_caller_keep_their_references(folder: Path) -> None:
    settings = {**BASE, "config.providers": "env", "client.id": "${env:OTTLA_TEST_NAME}"}
    before = dict(settings)
    with Producer(settings):
        pass

    assert settings == before


# What is refused


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${env:OTTLA_TEST_NONE}", "client.id: ${env:OTTLA_TEST_NONE} has no value"),
        ("${env:a:OTTLA_TEST_NAME}", "an environment variable has no path; write ${env:NAME}"),
        ("${file:/nowhere/at/all:key}", "/nowhere/at/all cannot be read: No such file or directory"),
        ("${file:kafka.properties:key}", "kafka.properties is not an absolute path"),
        ("${file:/dev/zero:key}", "it is not a regular file"),
        ("${file:FOLDER/kafka.properties:none}", "has no value; is the name right, and may it be read?"),
        ("${directory:FOLDER}", "a folder and the name of a file in it are needed; write ${directory:/path:file}"),
        ("${directory:FOLDER:none}", "has no value"),
        ("${directory:FOLDER:../name}", "'../name' is not the name of a file in"),
        ("${directory:FOLDER:..}", "'..' is not the name of a file in"),
    ],
)
def test_a_reference_without_a_value_is_refused_and_never_sent(folder: Path, written: str, said: str) -> None:
    reported = problems({"config.providers": "env,file,directory", "client.id": written.replace("FOLDER", str(folder))})

    assert said in reported


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"config.providers": "vault"}, "no config_provider is named 'vault'"),
        ({"config.providers": "x", "config.providers.x.class": "com.acme.Vault"}, "Java classes cannot be loaded"),
        ({"config.providers": "x", "config.providers.x.class": 5}, "write the name of a plugin of the group"),
        ({"config.providers": "env", "config.providers.file.class": "file"}, "no provider of this name is in"),
        ({"config.providers": "env", "config.providers.env.param.x": "1"}, "config.providers.env.param.x is not known"),
        ({"config.providers": "env", "config.providers.env.parm.x": "1"}, "config.providers.env.parm.x is not known"),
        ({"config.providers": "env", "config.providers.env.param.allowlist.pattern": "("}, "it is not a regular expr"),
        ({"config.providers": "file", "config.providers.file.param.allowed.paths": "x"}, "'x' is not an absolute path"),
        ({"config.providers": "file", "config.providers.file.param.allowed.paths": "/no/such"}, "does not exist"),
    ],
)
def test_an_unusable_provider_is_refused_with_a_remedy(settings: Mapping[str, Any], said: str) -> None:
    assert said in problems(settings)


@pytest.mark.parametrize("below", ["", ".class", ".param.x"])
def test_names_of_providers_are_shown_on_one_short_line(below: str) -> None:
    for name in ("a\nb\x1b[31m", "x" * 10_000):
        reported = problems({"config.providers": "env" if below else name, f"config.providers.{name}{below}": "x"})

        assert "\x1b" not in reported
        assert "a\nb" not in reported
        assert max(map(len, reported.split("\n"))) < 1_500


def test_only_allowed_paths_are_read(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "kafka.properties").write_text("name=stolen")
    (folder / "link").symlink_to(outside / "kafka.properties")
    (folder / "inside").mkdir()
    (folder / "inside" / "link").symlink_to(folder / "kafka.properties")
    base = {"config.providers": "file", "config.providers.file.param.allowed.paths": str(folder)}
    for path in (
        outside / "kafka.properties",
        folder / "link",
        folder / ".." / outside.name / "kafka.properties",
        Path(f"{folder}x") / "y",
    ):
        assert "is outside of allowed.paths" in problems({**base, "client.id": f"${{file:{path}:name}}"})
    for path in (
        folder / "kafka.properties",
        folder / "inside" / "link",
        folder / "inside" / ".." / "kafka.properties",
    ):
        assert resolved({**base, "client.id": f"${{file:{path}:name}}"}).connection.client_id == "from-file"


def test_only_allowed_variables_are_read(folder: Path) -> None:
    base = {"config.providers": "env", "config.providers.env.param.allowlist.pattern": "^OTTLA_.*"}

    assert resolved({**base, "client.id": "${env:OTTLA_TEST_NAME}"}).connection.client_id == "from-env"
    assert "${env:PATH} has no value" in problems({**base, "client.id": "${env:PATH}"})


def test_a_large_file_is_not_read(folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * ((1 << 20) + 1))

    assert "it is larger than 1 MB" in problems(
        {"config.providers": "directory", "client.id": f"${{directory:{folder}:large}}"}
    )


def test_a_pipe_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert "it is not a regular file" in problems(
        {"config.providers": "directory", "client.id": f"${{directory:{folder}:pipe}}"}
    )


# Who decides


def test_the_operator_decides_which_providers_are_allowed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"config.providers": "env", "client.id": "${env:OTTLA_TEST_NAME}"}
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "file, directory")
    reported = problems(settings)
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "file,env")

    assert "OTTLA_ALLOWED_CONFIG_PROVIDERS=env in the environment" in reported
    assert resolved(settings).connection.client_id == "from-env"


def test_an_alias_does_not_bypass_the_allowed_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "file")
    reported = problems({"config.providers": "file", "config.providers.file.class": "env", "client.id": "${file:PATH}"})

    assert "env may not be used" in reported


def test_another_package_with_the_name_of_an_allowed_provider_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("1 / 0", name="env", kind="config_provider")
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "env")
    settings = {"config.providers": "env", "config.providers.env.class": "acme:env", "client.id": "${env:PATH}"}
    reported = problems(settings)
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "ACME:env")

    assert "acme:env may not be used; the user who runs the program can allow it with" in reported
    assert "config_provider 'env' of acme 1.0" in problems(settings)


@pytest.mark.parametrize("provider", ["env", "file", "directory"])
def test_options_of_others_resolve_nothing_unless_allowed(folder: Path, provider: str) -> None:
    with allow_lists.options_of_others():
        reported = problems({"config.providers": provider, "client.id": "${env:PATH}"})

    assert f"{provider} may not be used" in reported


def test_options_of_others_read_allowed_files_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "file")
    settings = {"config.providers": "file", "client.id": f"${{file:{folder}/kafka.properties:name}}"}
    with allow_lists.options_of_others():
        reported = problems(settings)
        monkeypatch.setenv("OTTLA_ALLOWED_FILES", f"{folder}/kafka.properties")
        name = resolved(settings).connection.client_id

    assert "OTTLA_ALLOWED_FILES" in reported
    assert name == "from-file"


def test_the_existence_of_a_forbidden_file_is_not_revealed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_CONFIG_PROVIDERS", "directory")
    (folder / "there").write_text("x")
    (folder / "allowed").mkdir()
    paths = {"config.providers.directory.param.allowed.paths": str(folder / "allowed")}
    reported = []
    for more, others in ((paths, contextlib.nullcontext()), ({}, allow_lists.options_of_others())):
        with others:
            reported += [
                problems({"config.providers": "directory", "client.id": f"${{directory:{folder}:{name}}}", **more})
                for name in ("there", "gone")
            ]

    assert reported[0].replace("there", "gone") == reported[1]
    assert reported[2].replace("there", "gone") == reported[3]


def test_a_link_that_appears_after_the_path_check_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret").write_text("name=stolen")
    checked_path = allowed_paths.checked_path

    def slowly(path: str, allowed: Sequence[Path] | None) -> Path:
        real = checked_path(path, allowed)
        (folder / "kafka.properties").unlink()
        (folder / "kafka.properties").symlink_to(folder / "secret")
        return real

    monkeypatch.setattr(allowed_paths, "checked_path", slowly)
    reported = problems({"config.providers": "file", "client.id": f"${{file:{folder}/kafka.properties:name}}"})

    assert "cannot be read: Too many levels of symbolic links" in reported


# Plugins


class Vault:
    """A third-party provider that counts its calls."""

    def __init__(self, give: Callable[[str, Collection[str]], Any]) -> None:
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.give = give

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        self.asked.append((path, frozenset(keys)))
        given: Mapping[str, str] = self.give(path, keys)
        return given


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, Collection[str]], Any]], Vault]:
    """Installs a provider named `vault`, which asks the function that it is given."""

    def install(give: Callable[[str, Collection[str]], Any]) -> Vault:
        import sys

        vault = Vault(give)

        @hookimpl
        def ottla_config_provider(config: Mapping[str, Any]) -> ConfigProvider:
            assert config["url"] == "https://vault"
            return vault

        @hookimpl
        def ottla_config_keys() -> list[ConfigKey]:
            return [ConfigKey(name="url", type=str, default="https://vault", meaning="where")]

        module = SimpleNamespace(ottla_config_provider=ottla_config_provider, ottla_config_keys=ottla_config_keys)
        monkeypatch.setitem(sys.modules, "vault_of_the_test", module)
        entry = EntryPoint("vault", "vault_of_the_test", "ottla.config_providers")
        monkeypatch.setattr("ottla.plugins.registry.lookup.announced", lambda: [*announced(), entry])
        return vault

    return install


def test_a_plugin_is_called_once_for_all_keys_of_a_path(installed: Any) -> None:
    vault = installed(lambda path, keys: {key: f"{path}-{key}" for key in keys})
    config = resolved(
        {
            "config.providers": "vault",
            "client.id": "${vault:a/b:one}",
            "transactional.id": "${vault:a/b:two}-${vault:c:one}",
        }
    )

    assert config.connection.client_id == "a/b-one"
    assert sorted(vault.asked) == [("a/b", frozenset({"one", "two"})), ("c", frozenset({"one"}))]


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda path, keys: None, "returned a NoneType, not a mapping"),
        (lambda path, keys: {"key": SECRET.encode()}, "${vault:a:key}: the config_provider 'vault' of "),
        (lambda path, keys: {"key": SECRET.encode()}, " returned a bytes, not a str"),
        (lambda path, keys: {"key": 5}, " returned an int, not a str"),
        (lambda path, keys: {"key": None}, "has no value"),
        (lambda path, keys: {}, "has no value"),
        (lambda path, keys: [][0], "raised IndexError"),
        (lambda path, keys: sys.exit(SECRET), "raised SystemExit"),
        (lambda path, keys: Lying(), "raised KeyError"),
    ],
)
def test_a_plugin_without_a_value_is_reported(installed: Any, give: Any, said: str) -> None:
    installed(give)

    assert said in problems({"config.providers": "vault", "client.id": "${vault:a:key}"})


@pytest.mark.parametrize("written", ["${Vault:a:key}", "a-${vualt:key}"])
@pytest.mark.parametrize("key", ["client.id", "sasl.password"])
def test_a_reference_to_a_provider_that_is_not_named_is_a_warning(
    installed: Any, written: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    installed(lambda path, keys: {})
    resolved({"config.providers": "vault", key: written})

    assert (
        f"{key} has a reference to a provider that config.providers does not name, which is used as text; it names "
        "vault"
    ) in caplog.messages
    assert "ualt:" not in caplog.text, "the name may be a part of a secret"


class Lying(dict[str, str]):
    """A mapping that has no values."""

    def get(self, key: str, default: object = None) -> Any:
        raise KeyError(key)


def test_the_text_of_a_plugin_error_is_quoted_only_for_ottla_errors(installed: Any) -> None:
    def fail(path: str, keys: Collection[str]) -> Mapping[str, str]:
        raise OttlaError("the vault is sealed") if path == "ours" else ValueError(SECRET)

    installed(fail)
    reported = problems(
        {"config.providers": "vault", "client.id": "${vault:theirs:key}", "transactional.id": "${vault:ours:key}"}
    )

    assert "the vault is sealed" in reported
    assert "the config_provider 'vault' of an unnamed distribution (vault_of_the_test) raised ValueError" in reported
    assert SECRET not in reported


# Secrets


def test_a_resolved_secret_is_shown_nowhere(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = {
        "config.providers": "file",
        "acme.password": f"${{file:{folder}/kafka.properties:password}}",
        "linger.ms": "${file:" + str(folder) + "/kafka.properties:name}",
    }
    draft = read_draft({**BASE, **settings}, registry=Registry())

    assert SECRET not in repr(draft) + repr(draft.config) + str(dict(draft.config.plugin_values.items()))
    assert SECRET not in problems(settings) + caplog.text


@pytest.mark.parametrize(
    "key",
    ["ssl.truststore.location", "ssl.ca.location", "compression.type", "interceptor.classes", "value.serializer"],
)
def test_no_plugin_quotes_what_a_provider_read(folder: Path, key: str) -> None:
    written = f"${{file:{folder}/kafka.properties:password}}"
    settings = {**BASE, "config.providers": "file", "security.protocol": "SSL", key: written}
    with pytest.raises(OttlaError) as refused, Producer(settings):
        pass

    assert SECRET not in str(refused.value)


def test_no_rule_quotes_what_a_provider_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_NUMBER", "987654")
    key = "max.in.flight.requests.per.connection"

    reported = problems({"config.providers": "env", "enable.idempotence": True, key: "${env:OTTLA_TEST_NUMBER}"})

    assert f"conflicts with {key}=[hidden]" in reported


@pytest.mark.parametrize("key", ["linger.ms", "acks", "queue.buffering.max.ms", "compression.gzip.level"])
def test_no_problem_quotes_what_a_provider_read(folder: Path, key: str) -> None:
    written = f"${{file:{folder}/kafka.properties:password}}"
    reported = problems({"config.providers": "file", "compression.type": "gzip", key: written})

    assert SECRET not in reported
    assert "the value that a config provider read (not shown) is not" in reported


@pytest.mark.parametrize("wrong", ["two\nlines", "x" * 40_000], ids=["lines", "long"])
def test_the_limits_of_a_text_are_those_that_a_provided_value_breaks(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("OTTLA_TEST_TEXT", wrong)

    reported = problems({"config.providers": "env", "client.id": "${env:OTTLA_TEST_TEXT}"})

    assert (
        "client.id: the value that a config provider read (not shown) is not a string of at most 32,767 bytes in "
        "UTF-8, without line breaks or other characters that would change how log lines look"
    ) in reported


def key(name: str, *, rotates: bool) -> ConfigKey:
    return ConfigKey(name=name, type=lambda raw: raw, default=None, meaning="", secret=True, rotates=rotates)


def test_a_rotating_key_gets_a_function_that_reads_it_again(folder: Path) -> None:
    written = f"${{file:{folder}/kafka.properties:password}}"
    settings = {**BASE, "config.providers": "file", "a.b": f"x-{written}", "c.d": written}
    draft = read_draft(settings, registry=Registry())
    values = draft.claim([key("a.b", rotates=True), key("c.d", rotates=False)], plugin="the test")
    assert values["c.d"] == SECRET
    assert values["a.b"]() == f"x-{SECRET}"

    (folder / "kafka.properties").write_text("password=next")
    assert values["a.b"]() == "x-next"

    (folder / "kafka.properties").unlink()
    with pytest.raises(ConnectionFailedError, match=r"a\.b cannot be read again: .* No such file or directory"):
        values["a.b"]()
    assert SECRET not in repr(values["a.b"])


# The suite that third-party providers have to pass


class TestEnvironment(ConfigProviderConformance):
    keys = ("PATH",)

    @pytest.fixture
    def provider(self) -> ConfigProvider:
        made: ConfigProvider = Registry().plugin("config_provider", "env").create({"allowlist.pattern": None})
        return made


@pytest.mark.parametrize("name", ["file", "directory"])
class TestFiles(ConfigProviderConformance):
    keys = ("name",)

    @pytest.fixture
    def provider(self, name: str, folder: Path) -> ConfigProvider:
        self.path = str(folder if name == "directory" else folder / "kafka.properties")  # type: ignore[misc]
        made: ConfigProvider = Registry().plugin("config_provider", name).create({"allowed.paths": None})
        return made

    def change(self, provider: ConfigProvider) -> None:
        path = Path(self.path)
        (path / "name" if path.is_dir() else path).write_text("name=changed")


@pytest.mark.parametrize("providers", [{}, {"config.providers": "file"}], ids=["none", "another"])
def test_a_reference_without_its_provider_is_warned_of(
    providers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    config = resolved({**providers, "client.id": "${env:NAME}", "sasl.password": "${env:WORD}${else:x}"})

    assert config.connection.client_id == "${env:NAME}"
    assert [record.getMessage() for record in caplog.records if record.name.endswith("config_references")] == [
        "client.id has a reference ${env:...}, which is used as text, because config.providers does not name 'env'",
        "sasl.password has a reference ${env:...}, which is used as text, because config.providers does not name 'env'",
    ]


def test_a_reference_with_its_provider_causes_no_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert client_id("${env:OTTLA_TEST_NAME}") == "from-env"
    assert "reference" not in caplog.text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (f"password={SECRET}\xff".encode("latin-1"), "is not UTF-8"),
        (f"password={SECRET}\\u12".encode(), "line 1 has a \\u without four hexadecimal digits"),
    ],
    ids=["not UTF-8", "a cut escape"],
)
def test_a_file_that_cannot_be_read_is_named_without_its_secrets(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "kafka.properties"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        resolved({"config.providers": "file", "client.id": f"${{file:{path}:password}}"})

    assert str(path) in str(caught.value)
    assert problem in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in repr(error)
        error = error.__cause__ or error.__context__

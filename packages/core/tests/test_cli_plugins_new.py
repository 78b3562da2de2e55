"""`ottla plugins new`: what it writes works as it stands, whatever the kind and the name."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import Result
from long_forms import LONG

from command_runner import CliRunner
from ottla.cli.commands import ottla
from ottla.plugins.registry import KINDS
from ottla_testkit.mock_cluster import MockCluster

pytestmark = pytest.mark.slow

FINE, USAGE = 0, 2
WRITTEN = list(KINDS)
SLOW = ("bomb", "flush_is_true", "last_call", "older_formats", "varint_bounds")
"""Tests of the suites that take seconds. In the short form only the check runs them, not a package's own tests, too."""

LONGEST = "abcdefgh-ijklmnop_qrstuv"
USES_ALL = """
import sys

from ottla import Producer

servers, secrets = sys.argv[1:]
settings = {
    "bootstrap.servers": servers,
    "client.id": "${acme-2:shop:till}",
    "config.providers": "acme-2",
    "config.providers.acme-2.param.file": secrets,
    "connection.via": "acme-2",
    "acme.2.address": servers.split(",")[0],
    "partitioner.class": "acme-2",
    "compression.type": "acme-2",
    "compression.gzip.level": 9,
    "value.serializer": "acme-2",
    "interceptor.classes": "acme-2",
    "metric.reporters": "acme-2",
    "record.encoder": "acme-2",
}
with Producer(settings) as producer:
    deliveries = [producer.send("orders", {"n": n}, key=b"%d" % n, headers=[("h", None)]) for n in range(100)]
    assert len({delivery.result(60).partition for delivery in deliveries}) > 1
    [lost] = [name for name in producer.metrics() if name.group == "plugins"]
    assert dict(lost.tags)["client-id"] == "till-1"
"""


def new(kind: str, name: str, *more: str) -> Result:
    return CliRunner().invoke(ottla, ["plugins", "new", kind, name, *more])


@pytest.fixture
def written(tmp_path: Path) -> list[Path]:
    """A package of each kind."""
    folders = [tmp_path / f"new-{kind}" for kind in WRITTEN]
    for kind, folder in zip(WRITTEN, folders, strict=True):
        result = new(kind, "acme-2", "--directory", str(folder))
        assert result.exit_code == FINE
    return folders


def announced(folder: Path) -> str:
    """Make the metadata that an installation leaves next to the sources; return the folder."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    [(group, entries)] = project["entry-points"].items()
    info = folder / "src" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    return str(info.parent)


@pytest.mark.parametrize(
    "command",
    [
        "tests",
        pytest.param(
            "suites", marks=pytest.mark.thorough("the packages' own tests, which the gate has, run these suites")
        ),
    ],
)
def test_each_generated_plugin_passes_its_tests_and_its_suite(
    written: list[Path], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    sites = [announced(folder) for folder in written]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sites, os.environ.get("PYTHONPATH", "")]))
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--import-mode=importlib", "--rootdir", "."]
    short = [] if LONG else ["-k", f"not ({' or '.join(SLOW)})"]
    tests = ["pytest", "-W", "error", *options, *short]
    suites = ["ottla", "plugins", "check", *(f"{kind}:acme-2" for kind in WRITTEN)]
    ended = subprocess.run(
        [sys.executable, "-m", *([*tests, *map(str, written)] if command == "tests" else suites)],
        cwd=written[0].parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == FINE, ended.stdout + ended.stderr
    assert " passed" in ended.stdout


def test_each_generated_plugin_passes_mypy_with_its_settings(written: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="it is not built for this interpreter")
    # Their authors run it in each folder. All have the same settings, so one process checks all of them: it reads the
    # types of ottla, the testkit and pytest once.
    settings = [tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["mypy"] for folder in written]
    assert settings == [{"strict": True, "files": ["src", "tests"]}] * len(written)
    sources = [folder / name for folder in written for name in settings[0]["files"]]
    config = written[0] / "pyproject.toml"
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", *sources],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": os.pathsep.join(str(folder / "src") for folder in written)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == FINE, ended.stdout + ended.stderr


def test_a_producer_sends_with_the_plugins_of_all_templates(
    written: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")  # the mock cluster is in its wheel
    sites = [announced(folder) for folder in written]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sites, os.environ.get("PYTHONPATH", "")]))
    secrets = tmp_path / "secrets.json"
    secrets.write_text('{"shop": {"till": "till-1"}}')
    with MockCluster() as cluster:
        command = [sys.executable, "-W", "error", "-c", USES_ALL, cluster.bootstrap_servers, str(secrets)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == FINE, ended.stderr


@pytest.mark.parametrize("name", ["x", LONGEST, "UPPER"])
@pytest.mark.parametrize("kind", WRITTEN)
def test_any_name_gives_valid_python_without_placeholders(tmp_path: Path, kind: str, name: str) -> None:
    name = name[:20] if kind == "authenticator" else name
    folder = tmp_path / "new"
    assert new(kind, name, "--directory", str(folder)).exit_code == FINE

    for file in folder.rglob("*"):
        assert "@" not in str(file.relative_to(folder))
        if file.suffix == ".py":
            compile(file.read_text(), str(file), "exec")
        if file.is_file():
            assert ".in" not in file.suffixes
            assert not any(f"@{word}@" in file.read_text() for word in ("NAME", "KEY", "CLASS", "MODULE", "KIND"))


def test_the_package_is_named_after_its_kind_and_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = new("partitioner", "by_Region")

    project = tomllib.loads((tmp_path / "ottla-partitioner-by-region" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "ottla-partitioner-by-region"
    assert project["entry-points"] == {
        "ottla.partitioners": {"by_Region": "ottla_partitioner_by_region.plugin"},
    }
    assert "ottla plugins check partitioner:by_Region" in result.stdout


def test_a_mechanism_is_named_in_upper_case(tmp_path: Path) -> None:
    new("authenticator", "x-token", "--directory", str(tmp_path))

    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert list(project["entry-points"]["ottla.authenticators"]) == ["X-TOKEN"]


def test_no_existing_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    result = new("transport", "acme", "--directory", str(tmp_path))

    assert result.exit_code == USAGE
    assert "exists and is not empty; name another folder with --directory" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("name", ["", "2fast", "a b", "a--b", "a-", "../a", "é", LONGEST + "w"])
def test_a_name_that_no_package_can_have_is_refused(tmp_path: Path, name: str) -> None:
    result = new("transport", name, "--directory", str(tmp_path))

    assert result.exit_code == USAGE
    assert "is not a valid plugin name; use up to 24 letters and digits" in result.output
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_already_installed_is_refused(tmp_path: Path) -> None:
    result = new("compressor", "GZIP", "--directory", str(tmp_path))

    assert result.exit_code == USAGE
    assert "the installed compressor 'gzip' of ottla" in result.output


def test_every_kind_of_plugin_is_in_the_help_without_a_broken_word() -> None:
    reported = CliRunner().invoke(ottla, ["plugins", "new", "--help"], terminal_width=80).output

    assert f"KIND is one of {', '.join(KINDS)}." in " ".join(reported.split())


def test_the_name_of_a_package_has_hyphens(tmp_path: Path) -> None:
    new("config_provider", "my_vault", "--directory", str(tmp_path))

    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["name"] == "ottla-config-provider-my-vault"
    assert project["entry-points"]["ottla.config_providers"] == {"my_vault": "ottla_config_provider_my_vault.plugin"}

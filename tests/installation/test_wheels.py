"""The files in the wheels."""

from __future__ import annotations

import email
import re
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from installation.clean_environment import COMPILED, PURE, ROOT
from long_forms import LONG
from packaging.requirements import Requirement

TOP = {
    "core": {"ottla"},
    "transport-plaintext": {"ottla_transport_plaintext"},
    "transport-ssl": {"ottla_transport_ssl"},
    "authenticator-sasl": {"ottla_authenticator_sasl"},
    "opentelemetry": {"ottla_opentelemetry"},
    "reporter-prometheus": {"ottla_reporter_prometheus"},
    "serializer-schema-registry": {"ottla_serializer_schema_registry"},
    "testkit": {"ottla_testkit"},
    "spark": {"ottla_spark", "pyspark_ottla"},
    "accel": {"ottla_accel"},
}
SUFFIXES = {".py", ".typed", ".pyi", ".in", ".so", ".pyd", ".txt"}
URLS = {"Changelog", "Documentation", "Issues", "Source"}
CLASSIFIERS = {
    "Development Status :: 3 - Alpha",
    "Intended Audience :: Developers",
    "Programming Language :: Python :: 3 :: Only",
    *(f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)),
    "Programming Language :: Python :: Implementation :: CPython",
    "Typing :: Typed",
}
SHIPPED = [*PURE, *(COMPILED if LONG else ())]


def distribution(package: str) -> str:
    return "ottla" if package == "core" else f"ottla_{package.replace('-', '_')}"


@pytest.fixture(params=SHIPPED)
def package(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def wheel(wheels: Path, package: str) -> zipfile.ZipFile:
    [path] = wheels.glob(f"{distribution(package)}-*.whl")
    return zipfile.ZipFile(path)


def description(metadata: Message) -> str:
    """The README in the metadata."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    return text


def modules(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if ".dist-info/" not in name]


def test_a_wheel_contains_exactly_its_modules(package: str, wheel: zipfile.ZipFile) -> None:
    names = modules(wheel)

    assert {name.partition("/")[0] for name in names} == TOP[package]
    assert [name for name in names if Path(name).suffix not in SUFFIXES] == []
    assert [name for name in names if "__pycache__" in name or ("/tests/" in name and "/template/" not in name)] == []


def test_a_wheel_contains_every_module_of_the_sources(package: str, wheel: zipfile.ZipFile) -> None:
    source = ROOT / "packages" / package / "src"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.suffix in {".py", ".typed", ".in"}}

    assert wanted - set(modules(wheel)) == set()


def test_type_information_is_shipped(package: str, wheel: zipfile.ZipFile) -> None:
    assert f"{distribution(package)}/py.typed" in wheel.namelist()


@pytest.fixture
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_the_metadata_of_a_package_is_complete(package: str, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(description(metadata)) > 200
    assert metadata["Author"]
    assert metadata["Keywords"]
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} == URLS
    assert set(metadata.get_all("Classifier", [])) >= CLASSIFIERS


def test_links_of_a_package_lead_to_files_of_the_repository(package: str, metadata: Message) -> None:
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    targets = {*re.findall(r"\]\(([^)#]+)", description(metadata)), urls["Documentation"], urls["Changelog"]}
    start = f"{urls['Source']}/blob/main/"

    assert [target for target in targets if not target.startswith("https://")] == []
    ours = [target.removeprefix(start) for target in targets if target.startswith(start)]
    assert [path for path in ours if not (ROOT / path).is_file()] == []


def test_every_requirement_of_a_package_has_a_lower_bound(package: str, metadata: Message) -> None:
    needed = map(Requirement, metadata.get_all("Requires-Dist", []))

    assert [str(one) for one in needed if not one.specifier and one.name != metadata["Name"]] == []


def test_packages_of_ours_require_each_other_exactly(package: str, metadata: Message) -> None:
    needed = list(map(Requirement, metadata.get_all("Requires-Dist", [])))
    ours = [one for one in needed if one.name.startswith("ottla") and one.name != metadata["Name"]]

    assert ours
    assert {str(one.specifier) for one in ours} == {f"=={metadata['Version']}"}

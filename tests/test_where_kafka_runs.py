"""The settings on the page "Where people run Kafka" make a producer."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from documents import ROOT, Block, blocks
from ottla.config import settings
from ottla.config.allow_lists import URLS
from ottla.producer.config_check import check_config
from ottla_testkit.kafka_cluster.certificates import Certificates

SETTINGS = [each for each in blocks(ROOT / "docs" / "where-kafka-runs.md") if each.language == "properties"]


def with_files(text: str, folder: Path) -> str:
    """The settings, with files of *folder* in the place of those that a service would give."""
    files = Certificates(folder / "certificates")
    (folder / "password").write_text("a password\n")
    for setting, file in {"ssl.truststore.location": files.authority, "ssl.keystore.location": files.alice}.items():
        text = re.sub(rf"(?m)^{re.escape(setting)}=.*$", f"{setting}={file}", text)
    return text.replace("/etc/kafka/user", str(folder))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", [pytest.param(each, id=str(each)) for each in SETTINGS])
def test_a_producer_takes_the_settings_of_the_page(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(URLS, raising=False)  # of a broker of other tests
    for name in re.findall(r"\$\{env:(\w+)\}", block.text):
        monkeypatch.setenv(name, f"value of {name}")
    file = tmp_path / "producer.properties"
    file.write_text(with_files(block.text, tmp_path))

    in_force = check_config(settings.read(file))

    named = {line.partition("=")[0] for line in block.text.splitlines() if ".param." not in line}
    assert named - set(in_force) == set()
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_every_service_with_settings_has_its_block() -> None:
    assert len(SETTINGS) == 10

"""The keywords of `Producer` for type checkers: all settings of the core, and no name that is not one."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from ottla import Producer, check_config, per_process
from ottla.aio import AsyncProducer
from ottla.config.config_def import OPTIONS
from ottla.config.keywords import ProducerKeywords
from ottla_testkit.mock_producer import MockProducer

ROOT = Path(__file__).resolve().parents[3]
MYPY_SECONDS = 800  # a guard against hangs: with an empty cache, mypy reads all of ottla

PROGRAM = """
from functools import partial

from ottla import Producer, check_config, per_process
from ottla.aio import AsyncProducer
from ottla.config import settings
from ottla.interfaces import ProducerRecord, TopicView
from ottla.results import RecordMetadata


class ByLength:
    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return len(key or b"") % view.partitions

    def serialize(self, data: str) -> bytes:
        return data.encode()


class Audit:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: object) -> None:
        pass


Producer(bootstrap_servers="localhost:9", linger_ms=5, acks="all", sasl_password=lambda: "x", client_id=None)
Producer(settings.from_environment("KAFKA_"), compression_type="zstd")
Producer({"a.key.of.another.plugin": 1}, enable_idempotence=True)
Producer(partitioner_class=ByLength, interceptor_classes=["audit", Audit, Audit()], value_serializer=str.encode)
Producer(partitioner_class=partial(ByLength), compression_type="zstd")
Producer(partitioner_class=lambda topic, key, view: 0, key_serializer=ByLength().serialize)
Producer(linger_mss=5)
AsyncProducer(batch_sise=1)
check_config(linger_ms=[5])
per_process(acks=1, retires=1)
Producer(partitioner_class=Audit)
Producer(interceptor_classes=[ByLength()])
"""


def test_every_setting_of_the_core_is_a_keyword_of_its_type() -> None:
    declared = ProducerKeywords.__annotations__
    expected = {key.replace(".", "_"): f"{option.type.annotation} | None" for key, option in OPTIONS.items()}
    found = {name: getattr(declared[name], "__forward_arg__", "Any") for name in expected if name in declared}

    assert found == expected, "run python tools/keywords.py"


def test_all_that_take_settings_have_these_keywords() -> None:
    for taker in (Producer, AsyncProducer, MockProducer, check_config, per_process):
        assert signature(taker).parameters["options"].annotation == "Unpack[ProducerKeywords]"


@pytest.mark.slow
def test_a_type_checker_finds_keywords_that_are_no_settings(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=MYPY_SECONDS, check=False)
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]

    print(checked.stdout, checked.stderr)
    assert [int(line.split(":")[1]) for line in errors] == [33, 34, 35, 36, 37, 38]
    assert 'Unexpected keyword argument "linger_mss"' in errors[0]
    assert 'did you mean "linger_ms"' in errors[0]

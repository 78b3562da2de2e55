import logging
import os
import shutil
import threading
from pathlib import Path

import pytest

from ottla_testkit.java.class_archive import ClassArchive
from ottla_testkit.java.jars import CACHE_VARIABLE, KAFKA_VERSION, kafka_jars
from ottla_testkit.kafka_cluster import KafkaCluster

WHOLE = bytes(1_000_000)


@pytest.fixture
def java(tmp_path: Path) -> str:
    executable = tmp_path / "java"
    executable.write_text("one Java")
    return str(executable)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


def archive(java: str, jars: Path, scratch: Path, *, recorded: bytes | None = None) -> ClassArchive:
    scratch.mkdir(exist_ok=True)
    made = ClassArchive(java, jars=jars, scratch=scratch)
    if recorded is not None:
        option = next(option for option in made.recording if "ArchiveClassesAtExit" in option)
        Path(option.partition("=")[2]).write_bytes(recorded)
    return made


def test_without_an_archive_java_uses_none_until_one_is_recorded(java: str, jars: Path, tmp_path: Path) -> None:
    first = archive(java, jars, tmp_path / "first", recorded=WHOLE)
    assert first.wanted
    assert first.options == ()

    first.keep()

    later = archive(java, jars, tmp_path / "later")
    [kept] = jars.iterdir()
    assert not later.wanted
    assert f"-XX:SharedArchiveFile={kept}" in later.options
    assert kept.read_bytes() == WHOLE


def test_each_java_has_its_own_archive(java: str, jars: Path, tmp_path: Path) -> None:
    first = archive(java, jars, tmp_path / "first", recorded=WHOLE)
    first.keep()
    Path(java).write_text("another Java")

    assert archive(java, jars, tmp_path / "later").wanted


def test_if_java_records_no_archive_it_is_logged_and_not_retried(
    java: str, jars: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla_testkit")
    archive(java, jars, tmp_path / "first").keep()

    later = archive(java, jars, tmp_path / "later")
    assert not later.wanted
    assert later.options == ()
    [line] = caplog.messages
    assert line == f"Java recorded no class archive for {jars}; brokers start without one"


def test_a_truncated_archive_counts_as_none(java: str, jars: Path, tmp_path: Path) -> None:
    archive(java, jars, tmp_path / "first", recorded=WHOLE).keep()
    [kept] = jars.iterdir()
    kept.write_bytes(WHOLE[:-1])

    later = archive(java, jars, tmp_path / "later", recorded=WHOLE)
    assert later.wanted
    assert later.options == ()
    later.keep()
    assert later.options


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_no_archive_is_wanted_in_a_read_only_folder(java: str, jars: Path, tmp_path: Path) -> None:
    jars.chmod(0o500)

    assert not archive(java, jars, tmp_path / "first").wanted


def test_a_failed_recording_is_logged_at_debug(
    java: str, jars: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="ottla_testkit")
    first = archive(java, jars, tmp_path / "first", recorded=WHOLE)
    jars.rmdir()

    first.keep()

    [line] = caplog.messages
    assert line.startswith(f"cannot keep the class archive {jars}/classes-")
    assert "; brokers start without one: " in line


def test_concurrent_recordings_leave_a_complete_archive(java: str, jars: Path, tmp_path: Path) -> None:
    recorded = [archive(java, jars, tmp_path / f"{n}", recorded=b"%d" % n * 1_000_000) for n in range(8)]
    threads = [threading.Thread(target=each.keep) for each in recorded]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    [path] = jars.iterdir()
    kept = path.read_bytes()
    assert len(kept) == 1_000_000
    assert len(set(kept)) == 1


@pytest.mark.thorough("each run that fetches a new Kafka does so")
@pytest.mark.kafka
def test_the_first_cluster_leaves_an_archive_that_the_next_one_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(kafka_jars(), tmp_path / KAFKA_VERSION, ignore=shutil.ignore_patterns("*.jsa"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    with KafkaCluster():
        pass
    [kept] = (tmp_path / KAFKA_VERSION).glob("*.jsa")

    with KafkaCluster() as kafka:
        assert str(kept) in Path(f"/proc/{kafka.pid(1)}/maps").read_text()
        assert "warning" not in kafka.log(1).lower().partition("kafka")[0]

"""Jars are the ones whose digests are pinned, or Java does not run them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla_testkit import pin_jars
from ottla_testkit.errors import JarDigestError, KafkaUnavailableError
from ottla_testkit.java import jar_digests
from ottla_testkit.java.download import Artifact, Route
from ottla_testkit.java.jar_digests import VARIABLE, all_digests, digest_of, parse, pinned, verify
from ottla_testkit.java.jars import broker_artifacts, fetched_jars, kafka_jars
from ottla_testkit.java.spark_sink import ARTIFACTS
from ottla_testkit.kafka_cluster.identity_server import SERVER

RIGHT, WRONG = b"the jar that is pinned", b"another jar"
BROKER = broker_artifacts("9.9.9")
PINS = {f"{each.name}-{each.version}.jar": hashlib.sha512(RIGHT).hexdigest() for each in BROKER}


def bring(content: bytes, *, name: str | None = None) -> Route:
    """A route whose jars have this content, or only the one with that name has."""

    def route(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        for artifact in artifacts:
            jar = folder / f"{artifact.name}-{artifact.version}.jar"
            jar.write_bytes(content if name in (None, artifact.name) else RIGHT)

    return route


def fetch(cache: Path, content: bytes = RIGHT, *, name: str | None = None) -> Path:
    return kafka_jars("9.9.9", cache=cache, route=bring(content, name=name), pause=0, digests=PINS)


def put_in_place(jar: Path, content: bytes) -> None:
    """Other content with the size and the times of before, as an attacker would."""
    before = jar.stat()
    jar.write_bytes(content)
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_jar_with_another_digest_never_reaches_the_cache(tmp_path: Path) -> None:
    with pytest.raises(JarDigestError, match=r"slf4j-simple-1\.7\.36\.jar is not the file that is pinned") as raised:
        fetch(tmp_path, WRONG, name="slf4j-simple")

    assert not isinstance(raised.value, KafkaUnavailableError)  # which skips tests
    assert list(tmp_path.iterdir()) == []


def test_a_jar_without_a_digest_is_refused_with_the_command_to_pin_it(tmp_path: Path) -> None:
    with pytest.raises(JarDigestError, match=rf"(?s)not pinned.*ottla_testkit\.pin_jars.*{VARIABLE}"):
        kafka_jars("9.9.9", cache=tmp_path, route=bring(RIGHT), pause=0)


def test_a_jar_that_another_process_put_into_the_cache_is_verified(tmp_path: Path) -> None:
    def lose_the_race(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        bring(RIGHT)(artifacts, folder=folder, scratch=scratch)
        (tmp_path / "9.9.9").mkdir()
        bring(WRONG)(artifacts, folder=tmp_path / "9.9.9", scratch=scratch)

    with pytest.raises(JarDigestError, match="not the file that is pinned"):
        kafka_jars("9.9.9", cache=tmp_path, route=lose_the_race, digests=PINS)


def test_a_cache_from_before_digests_were_pinned_is_verified(tmp_path: Path) -> None:
    (tmp_path / "9.9.9").mkdir()
    bring(RIGHT)(BROKER, folder=tmp_path / "9.9.9", scratch=tmp_path)

    assert fetch(tmp_path) == tmp_path / "9.9.9"

    put_in_place(tmp_path / "9.9.9" / "slf4j-simple-1.7.36.jar", WRONG)
    with pytest.raises(JarDigestError, match=r"Delete it from this cache"):
        fetch(tmp_path)


def test_a_jar_that_changes_in_the_cache_is_found_at_the_next_use(tmp_path: Path) -> None:
    jar = fetch(tmp_path) / "slf4j-simple-1.7.36.jar"

    put_in_place(jar, RIGHT[::-1])  # of the same size

    with pytest.raises(JarDigestError, match="not the file that is pinned"):
        fetch(tmp_path)


def test_a_jar_that_was_added_to_the_cache_is_refused(tmp_path: Path) -> None:
    (fetch(tmp_path) / "added-1.jar").write_bytes(RIGHT)

    with pytest.raises(JarDigestError, match=r"added-1\.jar is not pinned"):
        fetch(tmp_path)


def test_unchanged_jars_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def noted(jar: Path) -> str:
        read.append(jar)
        return digest_of(jar)

    monkeypatch.setattr(jar_digests, "digest_of", noted)

    for _ in range(3):
        fetch(tmp_path)

    assert sorted(jar.name for jar in read) == sorted(PINS)


def test_a_damaged_or_false_record_of_verification_is_ignored(tmp_path: Path) -> None:
    folder = fetch(tmp_path)
    [record] = folder.glob(".verified*")
    text = record.read_text()
    put_in_place(folder / "slf4j-simple-1.7.36.jar", WRONG)

    for damaged in (text, "", "[1]", "{", '{"slf4j-simple-1.7.36.jar": 3}'):
        record.write_text(damaged)
        with pytest.raises(JarDigestError):
            fetch(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_is_verified_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "9.9.9"
    folder.mkdir()
    bring(RIGHT)(BROKER, folder=folder, scratch=tmp_path)
    folder.chmod(0o500)
    try:
        assert fetch(tmp_path) == folder
    finally:
        folder.chmod(0o700)


# Which are pinned


def test_every_jar_requested_by_name_is_pinned() -> None:
    sets = [*map(broker_artifacts, pin_jars.VERSIONS), [SERVER], ARTIFACTS]
    asked = {f"{artifact.name}-{artifact.version}.jar" for each in sets for artifact in each}

    assert asked <= pinned().keys()


def test_a_file_may_pin_more_jars_but_none_of_ours_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = next(iter(pinned()))
    more = tmp_path / "digests.txt"
    more.write_text("".join(f"{digest}  {name}\n" for name, digest in {**PINS, ours: "0" * 128}.items()))
    monkeypatch.setenv(VARIABLE, str(more))

    assert all_digests() == {**PINS, **pinned()}
    assert fetched_jars("a", [BROKER[0]], cache=tmp_path, route=bring(RIGHT)).is_dir()


@pytest.mark.parametrize("text", [None, "0 a.jar", "x" * 128 + "  a.jar", "0" * 128 + "  ../a.jar", "0" * 128])
def test_a_file_of_digests_that_cannot_be_read_is_an_error(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / "digests.txt").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "digests.txt"))

    with pytest.raises(JarDigestError, match=VARIABLE):
        verify(tmp_path)


def test_two_digests_for_one_jar_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"a different digest for a\.jar"):
        parse("0" * 128 + "  a.jar\n" + "1" * 128 + "  a.jar\n")


def test_lines_of_sha512sum_are_read_in_both_of_its_forms() -> None:
    assert parse("# comment\n\n" + "0" * 128 + "  a.jar\n" + "1" * 128 + " *b-1.jar\n") == {
        "a.jar": "0" * 128,
        "b-1.jar": "1" * 128,
    }


def test_the_printed_digests_of_a_version_pin_its_jars() -> None:
    assert pin_jars.digests([BROKER], by=[bring(RIGHT)]) == PINS


def test_sources_with_different_files_of_one_name_pin_nothing() -> None:
    with pytest.raises(ValueError, match="two files are called"):
        pin_jars.digests([BROKER], by=[bring(RIGHT), bring(WRONG)])


def test_sources_are_those_that_work_on_this_machine() -> None:
    count = (shutil.which("mvn") is not None) + (importlib.util.find_spec("pyspark") is not None)

    assert len(list(pin_jars.routes())) == count

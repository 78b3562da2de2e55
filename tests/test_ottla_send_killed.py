"""`ottla send --resume`, killed at each step: consumers of committed records get each record once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from long_forms import LONG, share

from ottla.cli.send.state import Position, State
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import delete_topics
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from transactions_kit import chance, new_id, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 3
HANG_GUARD = 300.0

# Sends itself a signal before or after the Nth call of a function. Transactions are small, so that there are many.
CHILD = """
    import functools, os, signal, sys
    from ottla import Producer
    from ottla.cli.send import inputs, resumable
    from ottla.cli.send.state import State
    inputs.BLOCK_BYTES, resumable.TRANSACTION_BYTES = 4_000, 20_000
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    step, *arguments = sys.argv[1:]
    if step:
        kill, when, name, number = step.split()
        kind = {"save": State, "send_block": resumable}.get(name, Producer)
        original, calls = getattr(kind, name), 0

        @functools.wraps(original)
        def killed(*args, **options):
            global calls
            calls += 1
            if when == "after":
                original(*args, **options)
            if calls == int(number):
                os.kill(os.getpid(), getattr(signal, kill))
            if when == "before":
                return original(*args, **options)

        setattr(kind, name, killed)
    sys.argv = ["ottla", *arguments]
    from ottla.cli import main
    main()
"""
FAILED, USAGE, INTERRUPTED, KILLED = 1, 2, 130, -9
BETWEEN = "before send_block 8"  # in the transaction after a committed one
STEPS = (
    "before save 4",  # prepared, and not in STATE
    "before commit_transaction 1",  # prepared, and in STATE
    "after commit_transaction 1",  # committed, and in STATE as prepared
    *(("after save 1", "before prepare_transaction 2") if LONG else ()),
    BETWEEN,
)


def child(step: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    text = "\n".join(line[4:] for line in CHILD.splitlines())
    return subprocess.Popen(
        [sys.executable, "-c", text, step, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(step: str, arguments: Sequence[str]) -> int:
    with child(step, arguments) as process:
        try:
            out, log = process.communicate(timeout=HANG_GUARD)
        finally:
            process.kill()
    print(step, process.returncode, out, log)
    return process.returncode


def prepared(kafka: KafkaCluster, folder: Path, lines: int) -> tuple[str, list[bytes], list[str]]:
    """A topic, the lines of a file, and the arguments that send the file to the topic."""
    topic = f"send-{new_id()}"
    kafka.create_topic(topic, partitions=PARTITIONS)
    written = [b"line %06d of the file that is sent" % number for number in range(lines)]
    (folder / "input.txt").write_bytes(b"\n".join(written) + b"\n")
    servers = ["--bootstrap-servers", kafka.bootstrap_servers]
    return topic, written, ["send", topic, str(folder / "input.txt"), "--resume", str(folder / "STATE"), *servers]


def everything(kafka: KafkaCluster, topic: str) -> list[bytes]:
    return sorted(value for part in read(kafka.bootstrap_servers, topic, partitions=PARTITIONS) for value in part)


@pytest.mark.parametrize(
    ("level", "steps"),
    [
        pytest.param(2, STEPS, id="version 2"),
        pytest.param(
            0,
            STEPS if LONG else STEPS[2:3],
            id="version 0",
            marks=pytest.mark.thorough("the gate has today's version of transactions"),
        ),
    ],
)
def test_a_file_is_sent_once_despite_a_kill_at_each_step(
    kafka: KafkaCluster, level: int, steps: Sequence[str], tmp_path: Path
) -> None:
    set_feature(kafka.address(1), TRANSACTION_VERSION, level)
    try:
        topic, lines, arguments = prepared(kafka, tmp_path, 6_000)
        codes = [run(f"SIGKILL {step}", arguments) for step in steps]
        before_the_end = json.loads((tmp_path / "STATE").read_text())
        ended = [run("", arguments), run("", arguments)]  # the second one has nothing to send
    finally:
        set_feature(kafka.address(1), TRANSACTION_VERSION, 2)

    assert codes == [KILLED] * len(steps)
    assert before_the_end["position"]["record"] < len(lines)
    if steps[-1] == BETWEEN:  # the committed transaction is noted before the next one makes the brokers forget it
        assert before_the_end["prepared"] is None
    assert ended == [0, 0]
    assert everything(kafka, topic) == lines


@pytest.mark.skipif(not LONG, reason="the long form: OTTLA_SOAK=1")
def test_a_file_is_sent_once_despite_twenty_kills_at_random(kafka: KafkaCluster, tmp_path: Path) -> None:
    random = chance("kills of ottla send")
    topic, lines, arguments = prepared(kafka, tmp_path, 1_000_000)
    state, kills = tmp_path / "STATE", 0
    while kills < 20:
        before = state.stat().st_mtime_ns if state.exists() else 0
        with child("", arguments) as process:
            while process.poll() is None and (not state.exists() or state.stat().st_mtime_ns == before):
                time.sleep(0.01)
            time.sleep(random.uniform(0, 1.5))
            process.kill()
        assert process.returncode == KILLED, "the file is too short for twenty kills"
        kills += 1
        print(kills, json.loads(state.read_text())["position"])

    assert run("", arguments) == 0
    assert everything(kafka, topic) == lines


def test_a_resumed_run_says_where_it_begins_and_that_nothing_is_left(kafka: KafkaCluster, tmp_path: Path) -> None:
    _topic, _lines, arguments = prepared(kafka, tmp_path, 3)
    outputs = []
    for _ in range(2):
        with child("", arguments) as process:
            outputs.append(process.communicate(timeout=HANG_GUARD))
    (first, first_log), (second, second_log) = outputs

    assert "nothing to do" not in first
    assert "continuing" not in first_log
    assert second.rstrip().endswith("nothing to do: runs before this one have committed all records")
    assert "input.txt is committed before record 3; this run begins there" in second_log


def test_a_state_is_refused_for_another_cluster(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic, lines, arguments = prepared(kafka, tmp_path, 3)
    assert run("", arguments) == 0
    state = State.load(tmp_path / "STATE")
    elsewhere = attrs.evolve(state.target, cluster="another")
    attrs.evolve(state, target=elsewhere, position=Position()).save(tmp_path / "STATE")
    with child("", arguments) as process:
        _out, log = process.communicate(timeout=HANG_GUARD)

    assert process.returncode == USAGE
    assert f"is for cluster another, and bootstrap.servers is cluster {state.target.cluster}" in " ".join(log.split())
    assert everything(kafka, topic) == lines


def test_a_state_is_refused_for_a_topic_that_was_created_again(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic, _lines, arguments = prepared(kafka, tmp_path, 3_000)
    assert run(f"SIGKILL {BETWEEN}", arguments) == KILLED
    before = State.load(tmp_path / "STATE")
    outputs = []
    for again in (False, True):
        if again:
            kafka.create_topic(topic, partitions=PARTITIONS)
        else:
            delete_topics(kafka.address(1), [topic])
        with child("", arguments) as process:
            _out, log = process.communicate(timeout=HANG_GUARD)
        outputs.append(" ".join(log.split()))
        assert process.returncode == USAGE

    assert before.position.record > 0
    assert f"{topic!r} with the id {before.target.topic_id}, which does not exist any more" in outputs[0]
    assert f"{topic!r} with the id {before.target.topic_id}, which has the id" in outputs[1]
    assert "use a new file to send everything" in outputs[1]
    assert State.load(tmp_path / "STATE") == before
    assert everything(kafka, topic) == []


def test_a_state_learns_the_id_of_a_topic_that_its_records_create(tmp_path: Path) -> None:
    with KafkaCluster(config={"auto.create.topics.enable": "true"}) as kafka:
        topic, _lines, arguments = prepared(kafka, tmp_path, 3)
        delete_topics(kafka.address(1), [topic])
        assert run("", arguments) == 0
        learned = State.load(tmp_path / "STATE").target.topic_id
        delete_topics(kafka.address(1), [topic])
        kafka.create_topic(topic, partitions=PARTITIONS)

        assert learned is not None
        assert run("", arguments) == USAGE


def test_a_topic_may_be_created_again_before_its_first_record(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic, lines, arguments = prepared(kafka, tmp_path, 3)
    assert run("SIGKILL before send_block 1", arguments) == KILLED
    delete_topics(kafka.address(1), [topic])
    kafka.create_topic(topic, partitions=PARTITIONS)

    assert run("", arguments) == 0
    assert everything(kafka, topic) == lines


@pytest.mark.parametrize(
    "step",
    share(
        ["before commit_transaction 2", "before send_block 8", *(["after commit_transaction 2"] if LONG else ())],
        gate=1,
        why="the gate interrupts one step",
    ),
)
def test_ctrl_c_says_how_far_the_file_is_committed(kafka: KafkaCluster, step: str, tmp_path: Path) -> None:
    topic, lines, arguments = prepared(kafka, tmp_path, 3_000)
    with child(f"SIGINT {step}", arguments) as process:
        out, log = process.communicate(timeout=HANG_GUARD)
    print(out, log)
    state = json.loads((tmp_path / "STATE").read_text())

    assert process.returncode == INTERRUPTED
    assert f"input.txt is committed before record {state['position']['record']}" in out
    assert ("a transaction after it is prepared" in out) == (state["prepared"] is not None) == ("commit" in step)
    assert out.startswith(f"records committed: {state['position']['record']:,}, failed: 0; ")
    assert run("", arguments) == 0
    assert everything(kafka, topic) == lines


def test_a_record_that_cannot_be_sent_is_named_by_its_place_in_the_file(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic, lines, arguments = prepared(kafka, tmp_path, 1_000)
    lines[700] = b"x" * 3_000_000
    (tmp_path / "input.txt").write_bytes(b"\n".join(lines))
    with child("", arguments) as process:
        out, log = process.communicate(timeout=HANG_GUARD)
    print(out, log)

    assert process.returncode == FAILED
    assert f"stopped: record 700 of {tmp_path / 'input.txt'}: " in out
    assert set(everything(kafka, topic)) < set(lines[:700])


def test_the_record_that_a_broker_refuses_is_named_and_not_its_batch(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = f"send-{new_id()}"
    kafka.create_topic(topic, config={"message.timestamp.after.max.ms": "3600000"})
    now = time.time_ns() // 1_000_000
    times = [now + (86_400_000 if number == 700 else 0) for number in range(1_000)]
    (tmp_path / "input.ndjson").write_text("".join(f'{{"time": {each}}}\n' for each in times))
    servers = ["--bootstrap-servers", kafka.bootstrap_servers]
    for resume in ([], ["--resume", str(tmp_path / "STATE")]):
        with child(
            "", ["send", topic, str(tmp_path / "input.ndjson"), "--timestamp", "time", *resume, *servers]
        ) as ran:
            out, log = ran.communicate(timeout=HANG_GUARD)
        print(out, log)

        assert ran.returncode == FAILED
        [first] = [line for line in out.splitlines() if line.startswith("stopped: " if resume else "failed: ")][:1]
        assert f"record 700 of {tmp_path / 'input.ndjson'}: the broker refused the record" in first

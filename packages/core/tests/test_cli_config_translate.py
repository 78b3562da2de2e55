"""`ottla config translate`: other clients' configurations become ours, with a reason for each line that cannot."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import CliRunner
from ottla import check_config
from ottla.cli.commands import ottla
from ottla.config import settings
from ottla.config.config_def import OPTIONS
from ottla.config.java_keys import JAVA_KEYS
from ottla.config.key_names import KEYS_OF_OWN_PLUGINS
from ottla.config.other_clients import OTHER_CLIENTS

FINE, LINE_FAILED, USAGE = 0, 1, 2
SECRET = "hunter2-and-more"
LIBRDKAFKA = """\
# the producer of the shop
metadata.broker.list = kafka:9092
queue.buffering.max.kbytes = 64000
queue.buffering.max.ms = 5
message.timeout.ms = 60000
compression.codec = gzip
compression.level = 3
request.required.acks = -1
socket.keepalive.enable = true
"""


def translated(text: str, *options: str, tmp_path: Path, name: str = "given.properties") -> Result:
    file = tmp_path / name
    file.write_text(text)
    return CliRunner().invoke(ottla, ["config", "translate", str(file), *options])


def document(text: str, *options: str, tmp_path: Path, name: str = "given.properties") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(translated(text, "--json", *options, tmp_path=tmp_path, name=name).stdout)
    return found


def test_a_translated_file_is_a_configuration_of_ours(tmp_path: Path) -> None:
    result = translated(LIBRDKAFKA, tmp_path=tmp_path)
    (tmp_path / "ours.properties").write_text(result.stdout)
    ours = settings.from_file(tmp_path / "ours.properties")

    check_config(ours)
    assert result.exit_code == FINE
    assert ours == {
        "partitioner.class": "consistent_random",
        "bootstrap.servers": "kafka:9092",
        "buffer.memory": "65536000",
        "linger.ms": "5",
        "delivery.timeout.ms": "60000",
        "compression.type": "gzip",
        "compression.gzip.level": "3",
        "acks": "-1",
    }


def test_the_other_default_partitioner_is_warned_of_first(tmp_path: Path) -> None:
    lines = translated(LIBRDKAFKA, tmp_path=tmp_path).stdout.splitlines()

    assert lines[2].startswith("# - librdkafka's default partitioner hashes keys with CRC-32")
    assert lines.index("partitioner.class=consistent_random") < lines.index("bootstrap.servers=kafka:9092")


def test_the_default_time_out_of_a_record_is_named_where_it_is_used(tmp_path: Path) -> None:
    default = translated("metadata.broker.list=k:1\n", tmp_path=tmp_path).stdout
    given = translated("metadata.broker.list=k:1\nmessage.timeout.ms=60000\n", tmp_path=tmp_path).stdout

    assert "a record fails after 120 s" in default
    assert "a record fails after" not in given


@pytest.mark.parametrize(
    ("client", "given", "changes"),
    [
        (
            "kafka-python",
            "",
            ["records without a key", "a batch waits", "the producer is idempotent", "a record waits"],
        ),
        ("kafka-python", "acks=1\nlinger.ms=0\n", ["records without a key"]),
        ("kafka-python", "retries=0\n", ["records without a key", "a batch waits", "a record waits"]),
        ("aiokafka", "linger.ms=5\nenable.idempotence=true\n", ["records without a key", "a record fails"]),
        ("aiokafka", "transactional.id=a\n", ["records without a key", "a batch waits", "a record fails"]),
        ("librdkafka", "enable.idempotence=false\n", ["librdkafka's default partitioner", "a record fails"]),
        ("librdkafka", "partitioner=murmur2\nacks=1\nmessage.timeout.ms=60000\n", []),
    ],
)
def test_a_change_is_named_only_where_the_settings_leave_it(
    client: str, given: str, changes: list[str], tmp_path: Path
) -> None:
    found = document(f"bootstrap.servers=k:1\n{given}", "--from", client, tmp_path=tmp_path)["warnings"]

    assert len(found) == len(changes), found
    assert all(one.startswith(other) for one, other in zip(found, changes, strict=True)), found


def test_no_changes_have_no_heading(tmp_path: Path) -> None:
    text = "metadata.broker.list=k:1\npartitioner=murmur2\nacks=1\nmessage.timeout.ms=60000\n"

    assert "What changes" not in translated(text, tmp_path=tmp_path).stdout


def test_a_setting_that_is_left_out_is_so_once(tmp_path: Path) -> None:
    text = "metadata.broker.list=k:1\nsocket.keepalive.enable=true\nclient.software.name=x\ngroup.id=g\n"
    lines = translated(text, tmp_path=tmp_path).stdout

    assert "socket.keepalive.enable: left out; TCP keep-alive is always on" in lines
    assert "client.software.name: left out; there is nothing to set in its place" in lines
    assert "group.id: left out; it is for consumers" in lines


def test_a_codec_of_an_extra_is_kept_with_what_to_install(tmp_path: Path) -> None:
    result = translated("metadata.broker.list=k:1\ncompression.type=lz4\n", tmp_path=tmp_path)

    assert "compression.type=lz4" in result.stdout.splitlines()
    assert 'compression.type: kept; lz4 needs an extra: pip install "ottla[lz4]"' in result.stdout


def test_a_partitioner_that_was_set_is_kept(tmp_path: Path) -> None:
    result = translated("metadata.broker.list=k:1\npartitioner=fnv1a_random\n", tmp_path=tmp_path)

    assert "partitioner.class=fnv1a_random" in result.stdout.splitlines()
    assert "partitioner.class=consistent_random" not in result.stdout.splitlines()


def test_a_line_without_a_translation_sets_the_exit_code(tmp_path: Path) -> None:
    result = translated("bootstrap.servers=k:1\nacks=all\nlinger.msec=5\n", tmp_path=tmp_path)

    assert result.exit_code == LINE_FAILED
    assert result.stdout.splitlines()[-1] == (
        "# line 3, linger.msec: failed; 'linger.msec' is not a known key; did you mean 'linger.ms'?"
    )


@pytest.mark.parametrize("client", ["aiokafka", "confluent-kafka", "kafka-python", "librdkafka"])
def test_every_key_of_another_client_has_an_outcome(client: str, tmp_path: Path) -> None:
    listed = (Path(__file__).parent / "other_clients" / f"{client}.txt").read_text().splitlines()
    keys = [line for line in listed if not line.startswith("#")]
    known = set(OPTIONS) | JAVA_KEYS | KEYS_OF_OWN_PLUGINS
    for key in keys:
        source = client if client in ("aiokafka", "kafka-python") else "librdkafka"
        [line] = document(f"{key}=1\n", "--from", source, tmp_path=tmp_path)["lines"]

        assert line["outcome"] == "kept" or line["remark"], key
        assert set(line["settings"]) <= known, key


def test_an_outcome_never_contradicts_the_error_for_the_same_key(tmp_path: Path) -> None:
    for key, other in OTHER_CLIENTS.items():
        [line] = document(f"{key}=true\n", "--from", "librdkafka", tmp_path=tmp_path)["lines"]
        if other.name is not None and not other.remark and line["outcome"] == "changed":
            assert list(line["settings"]) == [other.name]


@pytest.mark.parametrize(
    ("line", "settings_of_ours", "outcome"),
    [
        ("ssl.endpoint.identification.algorithm=none", {"ssl.endpoint.identification.algorithm": ""}, "changed"),
        ("enable.ssl.certificate.verification=true", {}, "left out"),
        ("enable.ssl.certificate.verification=false", {}, "failed"),
        ("partitioner=random", {"partitioner.ignore.keys": "true"}, "changed"),
        ("partitioner=mine", {}, "failed"),
        ("compression.level=-1", {}, "left out"),
        ("linger.ms=0.5", {}, "failed"),
        ("message.timeout.ms=0", {"delivery.timeout.ms": "2147483647"}, "changed"),
        ("ssl.keystore.type=JKS", {}, "failed"),
        ("ssl.certificate.location=/both.pem", {"ssl.keystore.location": "/both.pem"}, "changed"),
        ("dr_cb=f", {}, "failed"),
        ("group.id=g", {}, "left out"),
        ("retries=7", {"retries": "7"}, "kept"),
        ("connections.max.idle.ms=0", {"connections.max.idle.ms": "-1"}, "changed"),
        ("connections.max.idle.ms=9000", {"connections.max.idle.ms": "9000"}, "kept"),
        ("socket.send.buffer.bytes=0", {}, "left out"),
        ("socket.receive.buffer.bytes=0", {}, "left out"),
        ("socket.send.buffer.bytes=9000", {"send.buffer.bytes": "9000"}, "changed"),
        ("topic.metadata.refresh.interval.ms=-1", {"metadata.max.age.ms": "2147483647"}, "changed"),
        ("compression.type=inherit", {}, "left out"),
        ("ssl.ca.location=probe", {}, "left out"),
    ],
)
def test_a_value_means_here_what_it_meant_there(
    line: str, settings_of_ours: dict[str, str], outcome: str, tmp_path: Path
) -> None:
    [found] = document(f"{line}\n", "--from", "librdkafka", tmp_path=tmp_path)["lines"]

    assert (found["settings"], found["outcome"]) == (settings_of_ours, outcome)


def test_values_of_librdkafka_have_no_other_meaning_for_java(tmp_path: Path) -> None:
    [found] = document("connections.max.idle.ms=0\n", "--from", "java", tmp_path=tmp_path)["lines"]

    assert (found["settings"], found["outcome"]) == ({"connections.max.idle.ms": "0"}, "kept")


def test_a_certificate_and_its_key_in_two_files_are_not_translated(tmp_path: Path) -> None:
    text = "ssl.certificate.location=/a.pem\nssl.key.location=/b.pem\n"

    assert [line["outcome"] for line in document(text, tmp_path=tmp_path)["lines"]] == ["failed", "failed"]


def test_settings_that_do_not_fit_together_set_the_exit_code(tmp_path: Path) -> None:
    result = translated("metadata.broker.list=k:1\nmessage.timeout.ms=30000\n", tmp_path=tmp_path)

    assert result.exit_code == LINE_FAILED
    assert result.stdout.splitlines()[-1].startswith("# together: delivery.timeout.ms=30000 is below linger.ms=5")


def test_two_names_of_one_setting_must_agree(tmp_path: Path) -> None:
    lines = document("queue.buffering.max.ms=5\nlinger.ms=7\n", tmp_path=tmp_path)["lines"]

    assert [line["outcome"] for line in lines] == ["changed", "failed"]
    assert lines[1]["remark"] == "linger.ms has another value from line 1; leave one out"


def test_secrets_are_printed_only_on_request(tmp_path: Path) -> None:
    text = f"sasl.mechanisms=PLAIN\nsasl.password={SECRET}\nunknown.password={SECRET}\nssl.key.pem={SECRET}\n"

    for options in ([], ["--json"]):
        assert SECRET not in translated(text, *options, tmp_path=tmp_path).output
    assert f"sasl.password={SECRET}" in translated(text, "--show-secrets", tmp_path=tmp_path).stdout.splitlines()


@pytest.mark.parametrize("value", [" two  words", "a\\b", "tab\there", "=#!:", "\u00e9"])
def test_a_value_survives_the_properties_file(value: str, tmp_path: Path) -> None:
    result = translated(json.dumps({"sasl.username": value}), tmp_path=tmp_path, name="given.json")
    (tmp_path / "ours.properties").write_bytes(result.stdout.encode("iso-8859-1"))

    assert settings.from_file(tmp_path / "ours.properties")["sasl.username"] == value


def test_comments_name_the_line_of_a_member_of_json(tmp_path: Path) -> None:
    text = '{"acks": "all", "nested": {"a": [1,\n 2]}, "no.such": "}",\n\n "other" : 1, "acks": 1}'
    lines = document(text, tmp_path=tmp_path, name="given.json")["lines"]

    assert [(line["key"], line["line"]) for line in lines] == [("acks", 4), ("nested", 1), ("no.such", 2), ("other", 4)]
    assert document("\n{ }", tmp_path=tmp_path, name="given.json")["lines"] == []


# Where settings are written


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("bootstrap_servers=k:1\nlinger_ms=5\n", "kafka-python"),
        ("bootstrap_servers=k:1\nenable_idempotence=true\n", "aiokafka"),
        ("bootstrap_servers=k:1\nenable_idempotence=true\nretries=5\n", "kafka-python"),
        ("bootstrap.servers=k:1\nlinger.ms=5\n", "java"),
        ("bootstrap.servers=k:1\ndr_cb=f\n", "librdkafka"),
        ("kafka.bootstrap.servers=k:1\ntopic=orders\n", "spark"),
    ],
)
def test_the_client_is_recognized_by_its_settings(text: str, client: str, tmp_path: Path) -> None:
    assert document(text, tmp_path=tmp_path)["client"] == client


def test_options_of_spark_keep_their_prefix(tmp_path: Path) -> None:
    text = "kafka.bootstrap.servers=k:1\ntopic=orders\nkafka.linger.ms=5\nkafka.key.serializer=x\nsubscribe=a\n"
    lines = document(text, tmp_path=tmp_path)["lines"]

    assert [(line["outcome"], line["settings"]) for line in lines] == [
        ("kept", {"kafka.bootstrap.servers": "k:1"}),
        ("kept", {"topic": "orders"}),
        ("kept", {"kafka.linger.ms": "5"}),
        ("failed", {}),
        ("left out", {}),
    ]


def test_settings_are_read_from_a_program_that_is_not_run(tmp_path: Path) -> None:
    program = """\
        raise SystemExit("run")
        conf = {"bootstrap.servers": "k:1", "linger.ms": 5, "on_delivery": print}
        producer = confluent_kafka.Producer(conf, logger=log)
        """
    text = "\n".join(line.strip() for line in program.splitlines())
    lines = document(text, tmp_path=tmp_path, name="app.py")["lines"]

    assert [(line["line"], line["key"], line["outcome"]) for line in lines] == [
        (2, "bootstrap.servers", "kept"),
        (2, "linger.ms", "kept"),
        (2, "on_delivery", "failed"),
        (3, "logger", "left out"),
    ]


def test_keyword_arguments_of_a_program_are_settings(tmp_path: Path) -> None:
    text = "p = KafkaProducer(bootstrap_servers=['a:1', 'b:2'], acks='all', value_serializer=lambda v: v)\n"
    found = document(text, tmp_path=tmp_path, name="app.py")

    assert found["client"] == "kafka-python"
    assert [line["settings"] for line in found["lines"]] == [{"bootstrap.servers": "a:1,b:2"}, {"acks": "all"}, {}]
    assert not found["ok"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", "[1]", "it must be a JSON object"),
        ("a.json", '{"a": sesame}', "line 1 is not JSON"),
        ("a.py", "print(1)", "it makes no producer"),
        ("a.py", "x = (", "line 1 is not Python"),
        ("a.py", "x = 1\0", "line 1 is not Python"),
        ("a.py", "Producer(settings())", "line 1 computes the settings"),
        ("a.properties", "a=\\u12", "without four hexadecimal digits"),
    ],
)
def test_a_file_that_cannot_be_read_is_wrong_usage(name: str, text: str, reason: str, tmp_path: Path) -> None:
    result = translated(text, tmp_path=tmp_path, name=name)

    assert result.exit_code == USAGE
    assert reason in " ".join(result.output.split())
    assert "sesame" not in result.output


def test_a_pem_key_that_was_pasted_is_not_shown(tmp_path: Path) -> None:
    text = "ssl.key.pem=-----BEGIN PRIVATE KEY-----\nMHcCAQEEIFCdQ3lmb3Jz\n-----END PRIVATE KEY-----\n"
    result = translated(text, tmp_path=tmp_path)

    assert result.exit_code != 0
    assert "line 1 has a part of a PEM text" in result.output
    assert "MHcCAQEE" not in result.output


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("app.py", b"\xef\xbb\xbfProducer({'client.id': 'caf\xc3\xa9'})"),
        ("app.py", b"# coding: latin-1\nProducer({'client.id': 'caf\xe9'})"),
        ("given.json", b'\xef\xbb\xbf{"client.id": "caf\xc3\xa9"}'),
    ],
    ids=["a program with a byte order mark", "a program in Latin-1", "JSON with a byte order mark"],
)
def test_the_encoding_of_a_file_is_that_of_its_program(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    result = CliRunner().invoke(ottla, ["config", "translate", str(tmp_path / name), "--json"])

    [line] = json.loads(result.stdout)["lines"]
    assert line["settings"] == {"client.id": "caf\xe9"}


def test_warnings_of_python_about_a_program_are_not_shown(tmp_path: Path) -> None:
    program = "pattern = '\\d'\nProducer({'client.id': 'shop'})"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert translated(program, tmp_path=tmp_path, name="app.py").exit_code == FINE


@pytest.mark.parametrize("name", ["deep.json", "deep.py"])
def test_a_file_that_is_nested_too_deeply_is_refused(name: str, tmp_path: Path) -> None:
    result = translated("[" * 100_000, tmp_path=tmp_path, name=name)

    assert result.exit_code != 0
    assert "Traceback" not in result.output
    assert not isinstance(result.exception, RecursionError | MemoryError)

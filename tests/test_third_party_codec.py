"""A third-party codec: a separate package with another implementation of a codec that Kafka knows.

It has a name of its own, which `compression.type` asks for; what it writes is Kafka's by its `codec_id`.
"""

from __future__ import annotations

import importlib
import logging
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import ConfigError, PluginNotFoundError, Producer, check_config
from ottla.errors import InvalidPluginError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

UNREACHABLE = "127.0.0.1:9"
MODULE = "stranger_isal_gzip"
PACKAGE = """
    '''gzip by Intel's ISA-L. A third-party package: it imports Ottla's interfaces and nothing else of it.'''

    import logging

    from ottla.errors import CorruptBatchError
    from ottla.hookspecs import hookimpl
    from ottla.interfaces import ConfigKey

    LEVEL = ConfigKey(name="compression.isal.level", type=int, default=2, meaning="0 is fast, 3 is small.")
    log = logging.getLogger(__name__)

    class IsalGzip:
        codec_id = 1

        def __init__(self, isal_zlib, level):
            self.isal_zlib = isal_zlib
            self.level = level

        def compress(self, chunks, *, level):
            stream = self.isal_zlib.compressobj(self.level if level is None else level, wbits=31)
            log.debug("packing at level %d", self.level)
            return b"".join([*map(stream.compress, chunks), stream.flush()])

        def decompress(self, buffer, *, limit):
            stream = self.isal_zlib.decompressobj(wbits=31)
            try:
                plain = stream.decompress(buffer, limit + 1)
            except self.isal_zlib.error as error:
                raise CorruptBatchError(f"no gzip data: {error}") from error
            if len(plain) > limit or not stream.eof:
                raise CorruptBatchError("too much or too little")
            return plain

    @hookimpl
    def ottla_config_keys():
        return [LEVEL]

    @hookimpl
    def ottla_compressor(config):
        from isal import isal_zlib
        return IsalGzip(isal_zlib, config["compression.isal.level"])
"""


def install(site: Path, name: str, *, codec_id: int = 1) -> None:
    """The package as pip would leave it behind."""
    package = PACKAGE.replace("codec_id = 1", f"codec_id = {codec_id}")
    (site / f"{MODULE}.py").write_text(textwrap.dedent(package))
    info = site / "stranger_isal_gzip-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-isal-gzip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ottla.compressors]\n{name} = {MODULE}\n")
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path`."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop(MODULE, None)


@pytest.mark.kafka
@pytest.mark.parametrize(("options", "level"), [({}, 2), ({"compression.isal.level": "3"}, 3)])
def test_its_records_are_read_by_others_and_named_gzip_in_the_log(
    kafka: KafkaCluster,
    make_topic: MakeTopic,
    site: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    level: int,
) -> None:
    install(site, "isal-gzip")
    topic = make_topic()
    values = [b"value %d " % number * 20 for number in range(2_000)]

    with (
        caplog.at_level(logging.DEBUG, logger=MODULE),
        Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "isal-gzip", **options}
        ) as producer,
    ):
        for value in values:
            producer.send(topic, value)

    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == values
    assert "compresscodec: gzip" in kafka.dump_log(topic)
    assert {record.message for record in caplog.records if record.name == MODULE} == {f"packing at level {level}"}


def test_its_declared_option_is_checked_like_any_other(site: Path) -> None:
    install(site, "isal-gzip")

    check_config({"compression.isal.level": 0}, bootstrap_servers=UNREACHABLE, compression_type="isal-gzip")
    with pytest.raises(ConfigError, match=r"compression\.isal\.level"):
        check_config({"compression.isal.level": "high"}, bootstrap_servers=UNREACHABLE, compression_type="isal-gzip")


def test_without_its_package_the_available_codecs_are_named() -> None:
    with pytest.raises(
        PluginNotFoundError, match=r"no compressor is named 'isal-gzip'.*installed: gzip, lz4, snappy, zstd"
    ):
        check_config(bootstrap_servers=UNREACHABLE, compression_type="isal-gzip")


def test_under_a_used_name_the_built_in_codec_is_used_and_both_can_be(site: Path) -> None:
    install(site, "gzip")

    for name in ("gzip", "third-party-isal-gzip:gzip"):
        check_config(bootstrap_servers=UNREACHABLE, compression_type=name)


@pytest.mark.parametrize("codec_id", [0, 5, 9])
def test_a_codec_unknown_to_kafka_is_refused(site: Path, codec_id: int) -> None:
    install(site, "isal-gzip", codec_id=codec_id)

    with pytest.raises(InvalidPluginError, match=f"codec_id {codec_id} is none of Kafka's"):
        check_config(bootstrap_servers=UNREACHABLE, compression_type="isal-gzip")

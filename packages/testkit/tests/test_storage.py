"""The storage of nodes with KRaft: formatted once, and copied with new ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.java.jars import KAFKA_VERSION, kafka_jars
from ottla_testkit.java.jvm import jvm_command
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import storage
from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.processes.free_ports import free_ports

FEATURES = b"which features the cluster has"


@pytest.fixture(autouse=True)
def nothing_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(storage, "_formatted", {})


@attrs.define
class Tool:
    """A StorageTool that writes what Kafka's does, and notes the names of the nodes' files."""

    runs: list[str] = attrs.field(factory=list)

    def __call__(
        self, _java: Sequence[str], properties: Sequence[Path], *, cluster_id: str, options: Sequence[str]
    ) -> None:
        self.runs += [path.stem for path in properties]
        for path in properties:
            data = path.with_name(path.stem.replace("node", "data"))
            data.mkdir()
            (data / "bootstrap.checkpoint").write_bytes(FEATURES)
            (data / "meta.properties").write_text(
                f"#\nnode.id={path.stem[4:]}\ndirectory.id=x\nversion=1\ncluster.id={cluster_id}\n"
            )


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setattr(storage, "format_nodes", made)
    return made


Format = Callable[..., list[Node]]


@pytest.fixture
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Format:
    """Formats the nodes of a new cluster, with these arguments of its configuration."""

    def formatted(nodes: int = 1, **settings: Any) -> list[Node]:
        folder = tmp_path_factory.mktemp("cluster")
        made = [Node(number, folder=folder, port=0, command=()) for number in range(1, nodes + 1)]
        storage.format_storage(made, java=(), config=config(nodes, **settings))
        return made

    return formatted


def config(nodes: int, **settings: Any) -> ClusterConfig:
    default = ClusterConfig(
        nodes=range(1, nodes + 1),
        version=KAFKA_VERSION,
        properties={},
        heap="256m",
        sustained=False,
        security=None,
        distant=None,
    )
    return attrs.evolve(default, **settings)


def meta(node: Node) -> Mapping[str, str]:
    lines = (node.data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_one_node_of_a_cluster_is_formatted_and_the_others_are_copies(tool: Tool, formatted: Format) -> None:
    nodes = formatted(3)

    assert tool.runs == ["node1"]
    assert [meta(node)["node.id"] for node in nodes] == ["1", "2", "3"]
    assert len({meta(node)["cluster.id"] for node in nodes}) == 1
    assert len({meta(node)["directory.id"] for node in nodes}) == 3
    assert {meta(node)["version"] for node in nodes} == {"1"}
    assert {(node.data / "bootstrap.checkpoint").read_bytes() for node in nodes} == {FEATURES}


def test_a_later_cluster_is_a_copy_with_an_id_of_its_own(tool: Tool, formatted: Format) -> None:
    [first], [second] = formatted(), formatted(properties={"num.io.threads": 3})

    assert tool.runs == ["node1"]
    assert meta(first).keys() == meta(second).keys()
    assert meta(first)["cluster.id"] != meta(second)["cluster.id"]
    assert meta(first)["directory.id"] != meta(second)["directory.id"]


@pytest.mark.parametrize(
    "differing",
    [
        {"version": "3.9.1"},
        {"properties": {"unstable.feature.versions.enable": "true"}},
        {"properties": {"inter.broker.protocol.version": "3.8"}},
    ],
    ids=lambda differing: next(iter(differing)),
)
def test_other_features_are_formatted_by_kafka(tool: Tool, formatted: Format, differing: Mapping[str, object]) -> None:
    formatted()
    formatted(**differing)
    formatted(**differing)

    assert tool.runs == ["node1", "node1"]


def test_other_users_are_formatted_by_kafka(tool: Tool, formatted: Format, tmp_path: Path) -> None:
    for users in ({"alice": "one-password"}, {"alice": "another-password"}):
        formatted(security=Security(folder=tmp_path / users["alice"], users=users))

    assert tool.runs == ["node1", "node1"]


@pytest.mark.parametrize("setting", ["log.dir", "log.dirs", "metadata.log.dir"])
def test_folders_that_the_user_names_are_formatted_by_kafka(tool: Tool, formatted: Format, setting: str) -> None:
    formatted(3, properties={setting: "/elsewhere"})

    assert tool.runs == ["node1", "node2", "node3"]


def test_after_a_refused_format_the_next_cluster_is_formatted(
    monkeypatch: pytest.MonkeyPatch, formatted: Format
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise ClusterError("refused")

    working = Tool()
    monkeypatch.setattr(storage, "format_nodes", refuse)
    with pytest.raises(ClusterError, match="refused"):
        formatted()
    monkeypatch.setattr(storage, "format_nodes", working)
    formatted()

    assert working.runs == ["node1"]


@pytest.mark.thorough("each cluster of the gate after the first is such a copy")
@pytest.mark.kafka
@pytest.mark.usefixtures("kafka")  # which skips it without Java
def test_a_copy_has_the_files_and_the_keys_that_kafka_writes(tmp_path: Path) -> None:
    jars = kafka_jars(KAFKA_VERSION)
    java = jvm_command(java_command(), version=KAFKA_VERSION, jars=jars, heap="256m", folder=tmp_path)
    ports = free_ports(4)
    controllers = {1: ports[2], 2: ports[3]}
    nodes = [Node(number, folder=tmp_path, port=ports[number - 1], command=()) for number in controllers]
    for node in nodes:
        config(2).write_properties(node, controllers=controllers, zookeeper=None)
    storage.format_storage(nodes, java=java, config=config(2))

    by_kafka, copied = nodes
    assert {file.name for file in copied.data.iterdir()} == {file.name for file in by_kafka.data.iterdir()}
    assert meta(copied).keys() == meta(by_kafka).keys()
    differing = {key for key, value in meta(copied).items() if value != meta(by_kafka)[key]}
    assert differing == {"node.id", "directory.id"}

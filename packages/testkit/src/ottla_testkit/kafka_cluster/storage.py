"""The empty storage of nodes with KRaft: StorageTool formats the first node, and later nodes get a copy.

StorageTool runs for a second in a separate JVM. What it writes depends on Kafka's version, its options and the
settings in `_FORMAT`, and nothing else but the ids in `meta.properties` differs between nodes. So each process formats
once for each of these and keeps the files in memory. A setting that Kafka refuses then fails the start of the broker,
with the same reason in its log.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.tools import format_nodes

_META: Final = "meta.properties"
_FORMAT: Final = ("inter.broker.protocol.version", "unstable.")
"""Prefixes of settings that StorageTool reads for the features of the cluster."""
_FOLDERS: Final = ("log.dir", "metadata.log.dir")
"""Prefixes of settings that move files out of a node's folder, where a copy would miss them."""

_formatted: Final[dict[Hashable, Mapping[str, bytes]]] = {}


def format_storage(nodes: Sequence[Node], *, java: Sequence[str], config: ClusterConfig) -> None:
    """Format these nodes, whose properties are written, with one new cluster id; `ClusterError` if Kafka refuses."""
    cluster_id = _random_id()
    if any(name.startswith(_FOLDERS) for name in config.properties):
        format_nodes(java, [node.properties for node in nodes], cluster_id=cluster_id, options=config.format_options)
        return
    key = _key(config)
    if key not in _formatted:
        first, *nodes = nodes
        format_nodes(java, [first.properties], cluster_id=cluster_id, options=config.format_options)
        _formatted[key] = _files(first.data)
    for node in nodes:
        _copy(_formatted[key], node.data, ids={"cluster.id": cluster_id, "node.id": str(node.number)})


def _key(config: ClusterConfig) -> Hashable:
    shaping = {name: value for name, value in config.properties.items() if name.startswith(_FORMAT)}
    return config.version, tuple(config.format_options), frozenset(shaping.items())


def _files(folder: Path) -> Mapping[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _copy(files: Mapping[str, bytes], folder: Path, *, ids: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    lines = files[_META].decode().splitlines()
    (folder / _META).write_text("".join(f"{_with_ids(line, ids)}\n" for line in lines))


def _with_ids(line: str, ids: Mapping[str, str]) -> str:
    name, equals, _ = line.partition("=")
    # Kafka 3.7 and later give each folder an id, which must be unique in the cluster.
    replaced = {**ids, "directory.id": _random_id()}.get(name)
    return line if replaced is None else f"{name}{equals}{replaced}"


def _random_id() -> str:
    """Return an id as Kafka writes its own: a random UUID in base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

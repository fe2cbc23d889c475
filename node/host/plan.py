"""What each node of a host is started with. Pure.

All nodes listen on the same AMQP address, each on a direct one as well, and on ports of their own
for management, metrics and other nodes: those of node 1 are the ones that are configured, those of
the others follow. They share the limit of memory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from node.config.config_layers import Address, ConfigError
from node.config.settings import Config

PEER_PORTS_ABOVE: Final = 20_000  # that of AMQP, where `listeners.cluster` is not set
PORT_MAX: Final = 65_535
SECRET_NAME: Final = "cluster.secret"


class NodePlan(Struct, frozen=True):
    """One node: its settings by key, beside those that all nodes get."""

    name: str
    data: Path
    settings: Mapping[str, str]


def plans_of(config: Config, count: int) -> list[NodePlan]:
    """The nodes of a host; ConfigError: the configuration is not one for several nodes."""
    _check(config)
    peers = [_peer_address(config, index) for index in range(count)]
    seeds = config.cluster.seeds or tuple(
        _moved(config.cluster.advertised, index) or address for index, address in enumerate(peers)
    )
    return [_plan(config, index, count, peers[index], seeds) for index in range(count)]


def secret_path(config: Config) -> Path:
    """Where the secret of the cluster is; the host makes that file if it is not configured."""
    return config.cluster.secret_file or config.node.data_dir / SECRET_NAME


def node_name(name: str, number: int) -> str:
    """`warren@host` becomes `warren-1@host`."""
    local, at, host = name.partition("@")
    return f"{local}-{number}{at}{host}"


def _check(config: Config) -> None:
    """What several nodes cannot share."""
    listeners = config.listeners
    for key, address in {
        "listeners.amqp": listeners.amqp,
        "listeners.amqps": listeners.amqps,
        "listeners.management": listeners.management,
        "listeners.cluster": listeners.cluster,
    }.items():
        if address is not None and address.port == 0:
            raise ConfigError(f"{key} = {address}: allowed for `warren host`: a port from 1")
    if listeners.direct is not None:
        raise ConfigError("listeners.direct: not allowed for `warren host`, which chooses it")


def _peer_address(config: Config, index: int) -> Address:
    chosen = config.listeners.cluster
    if chosen is None:
        chosen = Address("127.0.0.1", config.listeners.amqp.port + PEER_PORTS_ABOVE)
    return _moved_there(chosen, index)


def _plan(
    config: Config, index: int, count: int, peers: Address, seeds: tuple[Address, ...]
) -> NodePlan:
    listeners, number = config.listeners, index + 1
    name = node_name(config.node.name, number)
    data = config.node.data_dir / f"node-{number}"
    settings = {
        "node.name": name,
        "node.data_dir": str(data),
        "listeners.reuse_port": "true",
        "listeners.cluster": str(peers),
        "cluster.seeds": ",".join(map(str, seeds)),
        "cluster.secret_file": str(secret_path(config)),
    }
    if listeners.plain:
        settings["listeners.direct"] = str(_moved_there(listeners.amqp, number))
    for key, address, distance in (
        ("listeners.management", listeners.management, index),
        ("listeners.management_tls", listeners.management_tls, index),
        ("listeners.metrics", listeners.metrics, index),
        ("listeners.web_amqp", listeners.web_amqp, index),
        ("listeners.stream", listeners.stream, index),
        ("listeners.stream_tls", listeners.stream_tls, index),
        ("listeners.amqp_advertised", listeners.amqp_advertised, number),
        ("listeners.management_advertised", listeners.management_advertised, index),
        ("listeners.stream_advertised", listeners.stream_advertised, index),
        ("listeners.stream_tls_advertised", listeners.stream_tls_advertised, index),
        ("cluster.advertised", config.cluster.advertised, index),
    ):
        if address is not None:
            settings[key] = str(_moved_there(address, distance))
    watermark = config.vm_memory_high_watermark
    if watermark.absolute is not None:
        settings["vm_memory_high_watermark.absolute"] = str(watermark.absolute // count)
    else:
        settings["vm_memory_high_watermark.relative"] = f"{watermark.relative / count:.6f}"
    if config.log.file is not None:
        file = config.log.file
        settings["log.file"] = str(file.with_name(f"{file.stem}-{number}{file.suffix}"))
    return NodePlan(name, data, settings)


def _moved(address: Address | None, distance: int) -> Address | None:
    return None if address is None else _moved_there(address, distance)


def _moved_there(address: Address, distance: int) -> Address:
    """ConfigError: there is no such port."""
    port = address.port + distance
    if port > PORT_MAX:
        raise ConfigError(f"{address}: a node of the host would need port {port}")
    return Address(address.host, port)

"""A shovel's status as `/api/shovels` shows it, with RabbitMQ's names and some of ours."""

from typing import TYPE_CHECKING

from federation.forwarding import TERMINATED
from federation.shovel_parameters import AMQP_10
from node.federating.link_rows import forwarded

if TYPE_CHECKING:
    from federation.shovel import ShovelStatus


def shovel_row(status: "ShovelStatus", node: str) -> dict[str, object]:
    config = status.config
    row: dict[str, object] = {
        "vhost": status.vhost,
        "name": status.name,
        "node": node,
        "type": "dynamic",
        "state": status.facts.state,
        "src_protocol": config.source.protocol,
        "dest_protocol": config.target.protocol,
        **forwarded(status.facts),
    }
    if status.source:
        row["src_uri"] = status.source
        row["dest_uri"] = status.target
    named = {
        "src_address" if config.source.protocol == AMQP_10 else "src_queue": config.source.queue,
        "src_exchange": config.source.exchange,
        "src_exchange_key": config.source.exchange_key,
        "dest_address" if config.target.protocol == AMQP_10 else "dest_queue": config.target.queue,
        "dest_exchange": config.target.exchange,
        "dest_exchange_key": config.target.exchange_key,
    }
    row |= {name: value for name, value in named.items() if value}
    if status.facts.state == TERMINATED:
        row["reason"] = status.facts.reason
    return row

"""Events of shovels and federation links, in RabbitMQ's words."""

from typing import TYPE_CHECKING

from node.federating.link_rows import shown_state

if TYPE_CHECKING:
    from federation.shovel_parameters import ShovelConfig
    from federation.upstreams import LinkConfig
    from node.events.events import Events


def tell_link(events: "Events", config: "LinkConfig", state: str, reason: str) -> None:
    """A link has another state, or failed once more."""
    more = {"error": reason} if reason else {}
    events.tell(
        "federation.link.status",
        id=config.id,
        type=config.kind,
        vhost=config.vhost,
        name=config.name,
        upstream=config.upstream,
        status=shown_state(state),
        **more,
    )


def tell_shovel(events: "Events", config: "ShovelConfig", state: str, reason: str) -> None:
    """The same for a shovel."""
    more = {"reason": reason} if reason else {}
    events.tell("shovel.worker.status", name=config.name, vhost=config.vhost, status=state, **more)

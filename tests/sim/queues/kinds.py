"""The queues of the simulation by name: their arguments, and what the ledger may expect of them."""

from dataclasses import dataclass, field
from typing import Final

from queues.definitions.arguments import encode_arguments

TTL_MS: Final = 800


@dataclass(frozen=True, slots=True)
class Kind:
    """`target` is the queue that gets its dead; "": they are dropped, and not counted."""

    arguments: dict[str, object] = field(default_factory=dict)
    durable: bool = True
    target: str = ""
    drops: bool = False  # messages leave without a client's doing
    refuses: bool = False
    top_level: int = 0
    default_level: int = 0

    @property
    def quorum(self) -> bool:
        return self.arguments.get("x-queue-type") == "quorum"

    @property
    def lazy(self) -> bool:
        return self.arguments.get("x-queue-mode") == "lazy"

    @property
    def plain(self) -> bool:
        """Nothing leaves or is refused but by a client that the ledger knows of."""
        return not (self.target or self.drops or self.refuses)

    def encoded(self) -> bytes:
        return encode_arguments(self.arguments)

    def level(self, priority: int | None) -> int:
        return self.default_level if priority is None else min(priority, self.top_level)


def dead_to(name: str, **others: object) -> dict[str, object]:
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": name,
    }
    return arguments | {name.replace("_", "-"): value for name, value in others.items()}


LAZY: Final[dict[str, object]] = {"x-queue-mode": "lazy"}
TARGETS: Final = ("dead", "qdead")

KINDS: Final[dict[str, Kind]] = {
    "dead": Kind(),
    "qdead": Kind(LAZY),
    "a": Kind(),
    "b": Kind(),
    "t1": Kind(durable=False),
    "lazy": Kind(LAZY),
    "rank": Kind({"x-max-priority": 3}, top_level=3),
    "short": Kind(dead_to("dead", x_max_length=6), target="dead", drops=True),
    "full": Kind({"x-max-length": 6, "x-overflow": "reject-publish"}, refuses=True),
    "bytes": Kind(
        dead_to("qdead", x_max_length_bytes=2500, x_overflow="reject-publish-dlx"),
        target="qdead",
        refuses=True,
    ),
    "brief": Kind(dead_to("dead", x_message_ttl=TTL_MS), target="dead", drops=True),
    "lazyd": Kind(LAZY | dead_to("qdead"), target="qdead"),
}

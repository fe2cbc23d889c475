"""Ids by which queues leave out what a link or shovel brings a second time (`federation-dedup`)."""

from collections.abc import Mapping
from typing import Final

from queues.hosts.message_digests import DUPLICATE_IDS

ASK_FOR_IDS: Final[Mapping[str, object]] = {"x-delivery-ids": True}  # arguments of a consumer
DELIVERY_ID: Final = "x-delivery-id"


def mark_id(headers: dict[str, object], message_id: str | None, scope: str) -> None:
    """Give the message the id by which a queue with `id-cache-size` knows that it has had it: that
    of its publisher, else that of the upstream's queue, else its message-id within `scope`."""
    own = headers.pop(DELIVERY_ID, None)
    if not any(name in headers for name in DUPLICATE_IDS) and (own or message_id):
        headers[DUPLICATE_IDS[0]] = own or f"{scope}/{message_id}"

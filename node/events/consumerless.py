"""The part of a `SessionSink` that is about consumers, for sessions of the node that have none.

Not compiled, for those that take it are not (`queues.queue_host.PublishingOnly` is for those that
are).
"""

from typing import NoReturn


class Consumerless:
    """Of a session that has no consumers, and so is never told any of this."""

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        unasked()

    def on_attached(self, uid: int, number: int) -> None:
        unasked()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        unasked()

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        unasked()

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        unasked()

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        unasked()


def unasked() -> NoReturn:
    raise AssertionError("a queue told a session of the node of something that it never asked for")

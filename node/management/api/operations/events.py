"""GET /api/events: what happens in the cluster, while it happens, as Server-Sent Events.

For callers with the tag monitoring. `names` chooses events by their names: patterns between commas
in which `*` stands for anything, as in `queue.*,connection.closed`. Each event has

    id: PROCESS-NUMBER
    event: queue.created
    data: {"name": ..., "timestamp": ms since 1970, "node": ..., "properties": {...}}

Who comes again with the header `Last-Event-ID` gets what it has missed, as far as this node knows
of it. `events.lost` says that something is missing: `count` in its properties, or null if no node
knows how many. A comment comes every HEARTBEAT_S. A client that does not keep up learns how many
it has lost, and its stream ends; so does that of a user who may not see it any more, or takes no
bytes for WRITE_S. No more than FOLLOWERS_MAX streams (503).
"""

import asyncio
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

from aiohttp import web

from node.events.event_feed import Entry, EventFeed, FeedFull, Lost
from node.management.access import MONITOR_TAGS, Context, caller_of
from node.management.replies import ENCODER, ApiError

HEARTBEAT_S: Final = 15.0
WRITE_S: Final = 30.0
BEGUN_S: Final = 2.0  # that nodes have to answer before the stream begins without them
RETRY_MS: Final = 2000  # what clients wait before they come again
PATTERNS_MAX: Final = 32
PATTERN_LENGTH_MAX: Final = 100
LAST_ID_MAX: Final = 64
HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # for proxies that would gather it
}
HEARTBEAT: Final = b": \n\n"
LOST: Final = "events.lost"


class EventStreams:
    """Streams of events, each as long as its request."""

    def __init__(self, context: Context, feed: EventFeed) -> None:
        self._context = context
        self._feed = feed

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/events", self.follow, allow_head=False)]

    async def follow(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        wants = wanted(request.query.get("names", ""))
        last_id = request.headers.get("Last-Event-ID", "")[:LAST_ID_MAX]
        try:
            follower = self._feed.join(wants, last_id)
        except FeedFull as error:
            raise ApiError(503, "unavailable", str(error)) from error
        try:
            await self._feed.begun(BEGUN_S)
            answer = web.StreamResponse(headers=HEADERS)
            await answer.prepare(request)
            await answer.write(b"retry: %d\n\n" % RETRY_MS)
            while self._may_follow(caller.name):
                taken = await follower.take(HEARTBEAT_S)
                if taken is None:
                    break
                async with asyncio.timeout(WRITE_S):
                    await answer.write(self._lines(taken))
        except (ConnectionResetError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # The client is gone, or takes nothing.
        finally:
            self._feed.leave(follower)
        return answer

    def _may_follow(self, user: str) -> bool:
        found = self._context.access.user(user)
        return found is not None and bool(MONITOR_TAGS.intersection(found.tags))

    def _lines(self, taken: list[Entry | Lost]) -> bytes:
        if not taken:
            return HEARTBEAT
        return b"".join(map(self._told, taken))

    def _told(self, entry: Entry | Lost) -> bytes:
        if isinstance(entry, Lost):
            return message(LOST, 0, entry.node, {"count": entry.count or None}, "")
        event = entry.event
        shown = self._feed.id_of(entry.number)
        return message(event.name, event.at_ms, event.node, event.properties, shown)


def message(
    name: str, at_ms: int, node: str, properties: dict[str, object], event_id: str
) -> bytes:
    """One event as it goes to the client."""
    data = ENCODER.encode(
        {"name": name, "timestamp": at_ms, "node": node, "properties": properties}
    )
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: ".encode() + data + b"\n\n"


def wanted(names: str) -> Callable[[str], bool]:
    """Which events a query asks for; ApiError 400 for too many patterns, or too long ones."""
    patterns = [each.strip().replace("#", "*") for each in names.split(",") if each.strip()]
    if len(patterns) > PATTERNS_MAX or any(len(p) > PATTERN_LENGTH_MAX for p in patterns):
        raise ApiError.bad_request(
            f"names: up to {PATTERNS_MAX} patterns of {PATTERN_LENGTH_MAX} characters"
        )
    if not patterns:
        return lambda name: True
    return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)

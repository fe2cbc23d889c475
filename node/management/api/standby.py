"""Warm standbys: their status and promotion, and what a primary answers its standby.

A primary is asked for `definitions` with a known digest, for `state` with known tokens by queue,
for `messages` and `digests` with the uid of a queue and runs of numbers (`node.standby.feed`).
Questions are those of `node.standby.questions`, answers are MessagePack.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from node.management.access import Context, caller_of, visible_vhosts
from node.management.bodies import DEFINITIONS_BYTES_MAX, flag, read_body, read_raw
from node.management.changes import change, existing_vhost
from node.management.replies import ApiError, json_reply
from node.management.rows.listing import list_reply
from node.standby.definition_rows import exported
from node.standby.feed import FeedFailed
from node.standby.questions import BadQuestion, Question, decode_question
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import DeleteParameter
from queues.definitions.metadata.vhost import VHost
from queues.definitions.standby import STANDBY, standby_parameter

if TYPE_CHECKING:
    from node.standby.standby_service import StandbyService

MSGPACK: Final = "application/msgpack"
DIGEST_BYTES: Final = 16


class Standbys:
    """Status for monitoring users; administrators promote, and serve standbys."""

    def __init__(self, context: Context, standbys: "StandbyService") -> None:
        self._context = context
        self._standbys = standbys
        self._version = -1  # of the metadata
        self._exports: dict[str, bytes] = {}  # digests at that version, by vhost
        self._answers: dict[str, Callable[[VHost, Question], Awaitable[object]]] = {
            "definitions": self._definitions,
            "state": self._state,
            "messages": self._messages,
            "digests": self._digests,
        }

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/standbys", self.every),
            web.post("/api/standbys/{vhost}/promote", self.promote),
            web.post("/api/vhosts/{vhost}/standby-feed", self.answer),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        seen = set(visible_vhosts(self._context, caller))
        rows = [row for row in await self._standbys.all_rows() if row["vhost"] in seen]
        return await list_reply(request, rows, lambda row: str(row["vhost"]), lambda row: row)

    async def _row(self, vhost: str) -> dict[str, object]:
        for row in await self._standbys.all_rows():
            if row["vhost"] == vhost:
                return row
        raise ApiError.not_found("standby_not_found")

    async def promote(self, request: web.Request) -> web.Response:
        """Serve clients from here. Refused while the primary answers, unless forced."""
        caller_of(request).require_administrator()
        vhost = existing_vhost(self._context, request)
        row = await self._row(vhost)
        is_forced = flag(await read_body(request), "force")
        if not is_forced and await self._standbys.primary_answers(vhost):
            reason = (
                f"the primary of vhost '{vhost}' still answers at {row['uri']}, and may confirm "
                "messages that would not be here: stop its clients or its nodes first, "
                "or promote with force"
            )
            raise ApiError(409, "primary_alive", reason)
        parameter = standby_parameter(self._context.operations.metadata, vhost)
        if parameter is not None:
            await change(self._context, DeleteParameter(vhost, STANDBY, parameter.name))
        self._standbys.look()
        return json_reply({**row, "state": "promoted", "forced": is_forced})

    # As a primary

    async def answer(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        vhost = self._context.operations.metadata.vhosts[existing_vhost(self._context, request)]
        raw = await read_raw(request, DEFINITIONS_BYTES_MAX)
        try:
            question = await decode_question(raw)
            work = self._answers[question.name](vhost, question)
        except (BadQuestion, KeyError) as error:
            raise ApiError.bad_request("unknown question of a standby") from error
        try:
            body = msgspec.msgpack.encode(await work)
        except FeedFailed as error:
            raise ApiError(503, "unavailable", str(error)) from error
        except (ValueError, TypeError) as error:
            raise ApiError.bad_request("unknown question of a standby") from error
        return web.Response(body=body, content_type=MSGPACK)

    async def _definitions(self, vhost: VHost, question: Question) -> object:
        (known,) = question.about
        metadata = self._context.operations.metadata
        if metadata.version != self._version:
            self._version, self._exports = metadata.version, {}
        if known == self._exports.get(vhost.name):
            return [known, None]
        rows = exported(metadata, vhost)
        encoded = msgspec.json.encode(rows, order="deterministic")
        digest = self._exports[vhost.name] = sha256(encoded).digest()[:DIGEST_BYTES]
        return [digest, None if digest == known else msgspec.json.decode(encoded)]

    async def _state(self, vhost: VHost, question: Question) -> object:
        if standby_parameter(self._context.operations.metadata, vhost.name) is not None:
            raise FeedFailed(f"vhost '{vhost.name}' is a standby itself")
        return await self._standbys.feed.state(vhost, question.known)

    async def _messages(self, vhost: VHost, question: Question) -> object:
        uid, runs = question.about
        return await self._standbys.feed.messages(self._queue(vhost, uid), runs)

    async def _digests(self, vhost: VHost, question: Question) -> object:
        uid, runs = question.about
        return await self._standbys.feed.digests(self._queue(vhost, uid), runs)

    def _queue(self, vhost: VHost, uid: int) -> Queue:
        queue = self._context.operations.metadata.queue(uid)
        if queue is None or queue.vhost != vhost.name:
            raise FeedFailed("the queue was deleted")
        return queue

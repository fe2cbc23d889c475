"""Links of AMQP 1.0 follow the leaders of their queues.

A broker tells in the flows of a link whether the leader of its queue is on the node of this
connection, and where it is else. Then a connection to that node is opened, and the link moves to it
by itself: it is attached there, what is on its way on the old one is waited for, and from then on
the new one carries it. Nothing is lost or doubled by it, messages of a publisher keep their order,
and a consumer settles what it still holds where it got it. One link moves at a time.

What cannot be reached, is not the node it should be, or refuses the link is left alone for a time
that grows: the link stays where it is, for every node serves every queue. When a connection to a
leader is lost, its links go back to the first one (`home`), as after any loss of a connection.
Links move no more often than `pause_s`, and not before a leader has been the same for `steady_s`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from warren.client.errors import ClientError
from warren.client.links import LinkHandle, Movable, Quiet
from warren.client.sockets import Dial
from warren.client.state import LinkState
from warren.client.url import BrokerUrl, parse_url

if TYPE_CHECKING:
    from warren.client.connection import Connection

log = logging.getLogger("warren.client")

RETRY_DOUBLINGS: Final = 5


@dataclass(frozen=True, slots=True)
class Follow:
    """How links follow. `dial`: another way to a node than a socket."""

    steady_s: float = 0.5  # so long a leader is the same before a link moves to it
    pause_s: float = 5.0  # between two moves of one link
    rest_s: float = 5.0  # for what is under way to be answered
    retry_s: float = 10.0  # until a node is tried again; twice as long each time, 32 times at most
    idle_s: float = 30.0  # until a connection without links is closed
    connections_max: int = 16  # to leaders
    dial: Callable[[BrokerUrl], Dial] | None = None


@dataclass(slots=True)
class Course:
    """One link that is not where its leader is. `due_s`: when it is to move."""

    leader: str
    due_s: float


@dataclass(slots=True)
class Shunned:
    """A node that could not be reached."""

    until_s: float
    failures: int


class Following:
    """Of one connection of the user, the home; owns those to leaders.

    Invariant: `_courses` has links that are to be looked at, each once; one task moves them.
    """

    def __init__(
        self,
        home: "Connection",
        follow: Follow,
        open_to: Callable[[BrokerUrl], Awaitable["Connection"]],
    ) -> None:
        self.home = home
        self._follow = follow
        self._open_to = open_to
        self._others: dict[str, Connection] = {}  # by name of the node
        self._idle: dict[str, float] = {}  # since when it has had no links
        self._courses: dict[LinkHandle, Course] = {}
        self._moved_s: dict[LinkHandle, float] = {}
        self._shunned: dict[str, Shunned] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.moves = 0

    @property
    def others(self) -> "dict[str, Connection]":
        """Connections to leaders, by name of the node."""
        return self._others

    def told(self, handle: LinkHandle) -> None:
        """A flow has told something of the link."""
        leader = elsewhere(handle.state)
        if leader is None or handle.movable is None or self.home.error is not None:
            self._courses.pop(handle, None)
            return
        course = self._courses.get(handle)
        if course is not None and course.leader == leader:
            return
        now_s = asyncio.get_running_loop().time()
        moved_s = self._moved_s.get(handle, now_s - self._follow.pause_s)
        due_s = max(now_s + self._follow.steady_s, moved_s + self._follow.pause_s)
        self._courses[handle] = Course(leader, due_s)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def forget(self, handle: LinkHandle) -> None:
        """The link is over."""
        self._courses.pop(handle, None)
        self._moved_s.pop(handle, None)

    async def close(self) -> None:
        """Move nothing any more, and close the connections to leaders with their links."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])
        others, self._others = list(self._others.values()), {}
        for other in others:
            other.heir = None
            await other.close()

    def stop(self) -> None:
        """Move nothing any more."""
        if self._task is not None:
            self._task.cancel()

    def end(self, error: ClientError) -> None:
        """The home is over, without a close: so are the others, at once."""
        self.stop()
        others, self._others = list(self._others.values()), {}
        for other in others:
            other.heir = None
            other.abort(error)

    # The task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            now_s = loop.time()
            for handle, course in list(self._courses.items()):
                if course.due_s <= now_s and self._courses.get(handle) is course:
                    del self._courses[handle]
                    await self._follow_leader(handle, course)
            next_s = await self._close_idle(loop.time())
            next_s = min([next_s, *(each.due_s for each in self._courses.values())])
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_s):
                    await self._wake.wait()

    async def _follow_leader(self, handle: LinkHandle, course: Course) -> None:
        if not handle.is_up or elsewhere(handle.state) != course.leader:
            return  # The broker repeats the hint when the link is up again.
        loop = asyncio.get_running_loop()
        shunned = self._shunned.get(course.leader)
        if shunned is not None and loop.time() < shunned.until_s:
            course.due_s = shunned.until_s
            self._courses.setdefault(handle, course)
            return
        target = await self._connection_to(course.leader, handle.state)
        if target is None:
            self._shun(course.leader)
        else:
            self._shunned.pop(course.leader, None)
        is_moved = target is not None and await self._move(handle, target)
        if handle.error is None:
            self._moved_s[handle] = loop.time()
        if not is_moved:
            self.told(handle)  # So it is tried again.
            return
        self.moves += 1
        log.info("link %s follows its leader to %s", handle.terms.name, course.leader)

    def _shun(self, node: str) -> None:
        shunned = self._shunned.setdefault(node, Shunned(0.0, 0))
        wait_s = self._follow.retry_s * 2.0 ** min(shunned.failures, RETRY_DOUBLINGS)
        shunned.until_s = asyncio.get_running_loop().time() + wait_s
        shunned.failures += 1

    async def _close_idle(self, now_s: float) -> float:
        """Close connections that have been unused for long; return when to look again."""
        next_s = now_s + self._follow.idle_s
        for name, other in list(self._others.items()):
            if other.error is not None:
                del self._others[name]
            elif other.has_links:
                self._idle.pop(name, None)
            elif now_s - self._idle.setdefault(name, now_s) >= self._follow.idle_s:
                del self._others[name], self._idle[name]
                await other.close()
            else:
                next_s = min(next_s, self._idle[name] + self._follow.idle_s)
        return next_s

    # To the leader

    async def _connection_to(self, node: str, state: LinkState) -> "Connection | None":
        """One that is open, or a new one; None: there is no way to it."""
        if self.home.node == node:
            return self.home if self.home.is_open else None
        other = self._others.get(node)
        if other is not None and other.is_open:
            return other
        if len(self._others) >= self._follow.connections_max:
            return None
        for endpoint in state.leader_endpoints:
            url = self._url_of(endpoint)
            opened = None if url is None else await self._open(url)
            if opened is None:
                continue
            if opened.node == node:
                self._others[node] = opened
                return opened
            log.warning("%s is node %s, not %s", endpoint, opened.node, node)
            await opened.close()
        return None

    def _url_of(self, endpoint: str) -> BrokerUrl | None:
        """With user and vhost of the home; None: another protocol, or no address."""
        home = self.home.url
        try:
            where = parse_url(endpoint)
        except ValueError:
            return None
        return None if where.tls != home.tls else replace(home, host=where.host, port=where.port)

    async def _open(self, url: BrokerUrl) -> "Connection | None":
        try:
            return await self._open_to(url)
        except (OSError, ClientError) as error:  # TimeoutError is an OSError.
            log.info("no connection to the leader at %s:%d: %s", url.host, url.port, error)
            return None

    async def _move(self, handle: LinkHandle, target: "Connection") -> bool:
        """Whether the link is carried by `target` now; else it goes on where it was."""
        movable = handle.movable
        assert movable is not None
        if target is handle.connection:
            return True
        arriving = LinkHandle(target, handle.terms, Quiet())
        is_moved = False
        try:
            await target.attach([arriving])
            is_moved = await self._carry_over(handle, movable, arriving, target)
        except (OSError, ClientError) as error:
            log.info("link %s is not taken by its leader: %s", handle.terms.name, error)
        finally:
            if not is_moved:
                arriving.connection.forget(arriving)
                arriving.drop()
        return is_moved

    async def _carry_over(
        self, handle: LinkHandle, movable: Movable, arriving: LinkHandle, target: "Connection"
    ) -> bool:
        """From the old link to the one that has arrived, if nothing has happened to either."""
        try:
            rested = await movable.rest(self._follow.rest_s)
            if not rested or not handle.is_up or not arriving.is_up:
                return False
            if arriving.connection is not target:
                return False  # It was lost, and its links came back.
            movable.leave(handle.replace_by(arriving))
            return True
        finally:
            movable.go_on()


def elsewhere(state: LinkState) -> str | None:
    """The leader, if it is on another node that can be reached."""
    if state.local is not False or not state.leader_endpoints:
        return None
    return state.leader

"""One vhost of this node as a warm standby: passes, one after the other. Not compiled.

A pass asks the primary what its queues have, and brings those that this node leads to it; the node
that leads the definitions brings these, too. All that the primary had confirmed when a pass began
is here when it ends: the time since then is the recovery point (RPO). While this cluster has a
resource alarm, passes bring definitions and settlements, and no messages.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

from federation.forwarding import RUNNING, STARTING, TERMINATED, Forwarding
from federation.standby_parameter import StandbyConfig
from node.cluster.services.status_channel import NoAnswer
from node.standby.feed import is_replicated, is_stream
from node.standby.held_queue import HeldQueue, Primary, QueueFault
from node.standby.held_stream import HeldStream
from node.standby.primary_client import PrimaryClient, PrimaryFailed
from node.standby.stored_runs import Unreadable
from queues.definitions.broker_objects import Queue

if TYPE_CHECKING:
    from node.broker import Broker

log = logging.getLogger("warren.federation")

TOGETHER_MAX: Final = 16  # queues that are copied at the same time
LOGGED_AGAIN: Final = 50  # of equal failures in a row, one line in so many
BLOCKED: Final = "blocked"  # messages are missing, and an alarm is set
FAULTS: Final = (PrimaryFailed, QueueFault, Unreadable, NoAnswer)

Row = dict[str, object]
# Make the definitions of a vhost those rows, by part. QueueFault: that is not possible now.
CopyDefinitions = Callable[[str, dict[str, Any]], Awaitable[None]]


class Replica:
    """See the module."""

    def __init__(
        self,
        broker: "Broker",
        config: StandbyConfig,
        copy_definitions: CopyDefinitions,
        client: Callable[[StandbyConfig], PrimaryClient] = PrimaryClient,
        clock_s: Callable[[], float] = monotonic,
        roll: Callable[[], float] = random.random,
    ) -> None:
        """`roll`: of 0..1, for the jitter of the back-off."""
        self.config = config
        self._broker = broker
        self._copy_definitions = copy_definitions
        self._client = client(config)
        self._clock_s = clock_s
        self._roll = roll
        self._core = Forwarding(config.reconnect_s)
        self._queues: dict[int, HeldQueue | HeldStream] = {}  # by uid here
        self._known: dict[str, tuple[bytes, Any]] = {}  # by name: token, and what it stands for
        self._definitions = b""  # digest of those that were brought here
        self._synced_s: float | None = None  # by `clock_s`: when the last whole pass began
        self._elsewhere: set[int] = set()  # queues that other nodes led then
        self._synced_at = 0.0  # the same as a time of day
        self._last_error = ""
        self._lacks = False  # messages, in this or the last pass, because of an alarm
        self._alarm = ""  # for which the last pass lacked messages
        self._dropped = [0, 0, 0]  # counters of queues that another node leads now

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                begun_s, begun_at = self._clock_s(), time()
                wait_s = self.config.interval_s
                try:
                    elsewhere = await self._pass()
                    if elsewhere is not None:
                        self._synced_s, self._synced_at = begun_s, begun_at
                        self._elsewhere = elsewhere
                        self._to_running()
                    else:
                        self._to_incomplete()
                except FAULTS as error:
                    wait_s = self._failed(str(error))
                await asyncio.sleep(max(0.0, begun_s + wait_s - self._clock_s()))
        finally:
            await self._client.close()

    def release(self, is_promoted: bool) -> None:
        """Hold no messages any more."""
        for queue in self._queues.values():
            queue.release(is_promoted)
        self._queues = {}

    async def primary_answers(self) -> bool:
        client = PrimaryClient(self.config)
        try:
            return await client.answers()
        finally:
            await client.close()

    @property
    def synced_s(self) -> float | None:
        """By `clock_s`: all that the primary had confirmed then is in the queues that this node
        leads. None: that is not known, as another node has led one of them since then."""
        is_known = not any(int(each.uid) in self._elsewhere for each in self._led())
        return self._synced_s if is_known else None

    def row(self) -> Row:
        """What this node has of it."""
        core, queues = self._core, self._queues.values()
        synced_s, copied = self.synced_s, self._dropped
        row: Row = {
            "vhost": self.config.vhost,
            "name": self.config.name,
            "node": self._broker.node_name,
            "state": self._state,
            "uri": self._client.shown,
            "rpo_seconds": None if synced_s is None else round(self._clock_s() - synced_s, 1),
            "synced_at": 0 if synced_s is None else int(self._synced_at * 1000),
            "queues": sum(1 for _ in self._led()),
            "messages": sum(each.held_count for each in queues),
            "messages_copied": copied[0] + sum(each.copied_count for each in queues),
            "messages_settled": copied[1] + sum(each.settled_count for each in queues),
            "bytes_copied": copied[2] + sum(each.copied_bytes for each in queues),
        }
        if self._last_error:
            row["last_error"] = self._last_error
        if core.state == TERMINATED:
            row["error"] = core.reason
        elif self._state == BLOCKED:
            row["error"] = f"resource alarm: {self._alarm}"
        return row

    # States

    @property
    def _state(self) -> str:
        if self._alarm and self._broker.alarms.is_set():
            return BLOCKED
        return shown_state(self._core.state)

    def _to_running(self) -> None:
        self._alarm = ""
        if self._core.state != RUNNING:
            log.info("standby of vhost '%s' has all that the primary has", self.config.vhost)
            self._core.opened()
            self._tell("")
        self._core.failures = 0

    def _to_incomplete(self) -> None:
        """The primary answers, and this node lacks something."""
        self._core.restarted()
        was, self._alarm = self._alarm, self._broker.alarms.reason() if self._lacks else ""
        if self._alarm and not was:
            log.warning(
                "standby of vhost '%s' copies no messages until the resource alarm is over: %s",
                self.config.vhost,
                self._alarm,
            )
            self._tell(self._alarm)

    def _failed(self, reason: str) -> float:
        """Seconds until the next try."""
        self._alarm = ""
        core = self._core
        was = (core.state, core.reason)
        wait_s = core.failed(reason, self._roll())
        self._last_error = reason
        if was != (core.state, core.reason):
            self._tell(reason)
        if core.failures % LOGGED_AGAIN == 1:
            log.warning(
                "standby of vhost '%s' does not get what the primary confirms now: %s",
                self.config.vhost,
                reason,
            )
        return wait_s

    def _tell(self, reason: str) -> None:
        more = {"error": reason} if reason else {}
        self._broker.events.tell(
            "standby.status",
            vhost=self.config.vhost,
            name=self.config.name,
            status=self._state,
            **more,
        )

    # A pass

    async def _pass(self) -> set[int] | None:
        """Bring all queues that this node leads up to date; uids of those that others lead. None:
        the pass was not whole, as a queue has no leader here or lacks messages."""
        if self._broker.definitions.group.is_leader:
            await self._follow_definitions()
        known = {name: token for name, (token, _) in self._known.items()}
        rows = await self._client.state(known)
        self._lacks = False
        faults: list[str] = []
        there: dict[str, Any] = {}
        for name, token, uid, epoch, runs, fault, offsets in rows:
            if fault:
                faults.append(f"queue '{name}' of the primary: {fault}")
                continue
            content = self._known[name][1] if runs is None else (runs, offsets)
            there[name] = (token, uid, epoch, content)
        self._known = {name: (each[0], each[3]) for name, each in there.items()}
        led, others = self._here_and_elsewhere()
        has_all = self._has_all(there)
        leader_of = self._broker.operating.leader_of
        is_whole = all(leader_of(each.vhost, each.name) for each in others)
        self._forget_queues({int(each.uid) for each in led})
        room = asyncio.Semaphore(TOGETHER_MAX)
        work = [
            self._follow(room, each, *there[each.name])
            for each in led
            if each.name in there and not self._has_all_of(each, *there[each.name])
        ]
        # All of them end here, whatever fails: no queue is worked on twice at a time.
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome:
                faults.append(outcome)
        if not has_all:
            self._definitions = b""
            faults.append("the definitions of the primary are not here yet")
        if faults:
            raise QueueFault(faults[0])
        return {int(each.uid) for each in others} if is_whole and not self._lacks else None

    def _here_and_elsewhere(self) -> tuple[list[Queue], list[Queue]]:
        """Queues of the vhost whose messages are copied: by this node, and by others."""
        vhost = self._broker.metadata.vhosts.get(self.config.vhost)
        is_led_here = self._broker.operating.is_led_here
        here: list[Queue] = []
        elsewhere: list[Queue] = []
        for each in () if vhost is None else vhost.queues.values():
            if is_replicated(each):
                (here if is_led_here(each.uid) else elsewhere).append(each)
        return here, elsewhere

    def _led(self) -> list[Queue]:
        return self._here_and_elsewhere()[0]

    def _has_all(self, there: dict[str, Any]) -> bool:
        vhost = self._broker.metadata.vhosts.get(self.config.vhost)
        return vhost is not None and all(name in vhost.queues for name in there)

    def _forget_queues(self, led: set[int]) -> None:
        """Release queues that are gone, or that another node leads now."""
        for uid in [each for each in self._queues if each not in led]:
            self._forget(uid)

    def _forget(self, uid: int) -> None:
        queue = self._queues.pop(uid)
        queue.release(False)
        counts = (queue.copied_count, queue.settled_count, queue.copied_bytes)
        self._dropped = [a + b for a, b in zip(self._dropped, counts, strict=True)]

    def _has_all_of(self, queue: Queue, token: bytes, uid: int, epoch: int, content: Any) -> bool:
        """Whether there is nothing to do for one queue: most are idle, and cost no task."""
        held = self._queues.get(int(queue.uid))
        if held is not None:
            return held.is_as(token)
        return not any(content) and self._is_empty(queue)

    async def _follow(
        self,
        room: asyncio.Semaphore,
        queue: Queue,
        token: bytes,
        uid: int,
        epoch: int,
        content: Any,
    ) -> str:
        """Bring one queue here to that of the primary; why that failed."""
        runs, offsets = content
        client, here = self._client, int(queue.uid)
        held = self._queues.get(here)
        if held is None:
            kind = HeldStream if is_stream(queue) else HeldQueue
            held = self._queues[here] = kind(self._broker, here)
        primary = Primary(
            uid,
            epoch,
            [(first, count) for first, count in runs],
            lambda some: client.messages(uid, some),
            lambda some: client.digests(uid, some),
            [(bytes(name), offset) for name, offset in offsets],
            token,
        )
        async with room:
            try:
                if not await held.follow(primary):
                    self._lacks = True
            except QueueFault as error:
                if self._queues.get(here) is held:
                    self._forget(here)
                return f"queue '{queue.name}': {error}"
        return ""

    def _is_empty(self, queue: Queue) -> bool:
        core = self._broker.queues.hosts.awake.get(queue.uid)
        return core is None or core.machine.length() == 0

    # Definitions

    async def _follow_definitions(self) -> None:
        digest, wanted = await self._client.definitions(self._definitions)
        if wanted is None:
            return
        await self._copy_definitions(self.config.vhost, wanted)
        self._definitions = digest


def shown_state(state: str) -> str:
    return {TERMINATED: "error", STARTING: "starting"}.get(state, state)

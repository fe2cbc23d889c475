"""Runs a story about a link or shovel between two brokers: commands in, what the brokers see out.

    > exchange                 federate the exchange 'x' of `down` with that of `up`
    > queue                    the same with the queue 'q'
    > shovel                   move the queue 'q' of `up` to the queue 'q' of `down`
                               each with `name=value` of its parameter, as in `prefetch-count=2`
    > change name=value        another value of the parameter: it ends and begins again
    > remove                   it is removed for good;  `restart`: an operator restarts it
    > leave; arrive            its node drains, and ends it;  another node begins it
    > bind a b                 bindings of 'x' at `down`;  `unbind a`
    > demand; calm             consumers wait at `down`, or do not
    > put 1 2 3                messages come to the queue that it consumes at `up`; `4<other`: one
                               that cluster `other` has sent before
    > confirm; confirm 2       `down` confirms all, or so many;  `refuse`: nacks one;
                               `return`: no queue takes them
    > block; unblock           `down` takes no messages
    > cut up                   its connections are lost;  `down up`: they are refused, too;  `up up`
    > deaf up                  what is acknowledged over its connections does not reach it
    > locked up; open up       it refuses logins, or does not
    > unknown TYPE             `up` does not know exchanges of that type;  `exists up x`
    > pause; resume            > wait 2    seconds pass

Commands on one line, parted by `;`, are done one after the other. Answers are indented by two: what
each broker was asked, and `=` the state. Lines that begin with `#`, and blank ones, are kept as
they are. Everything else is generated. Time is virtual.
"""

import asyncio
import json
import random
from contextlib import suppress

from federation.ends import Dialler
from federation.link import IDLE_LOOKS, Link, Local
from federation.shovel import Shovel
from federation.shovel_parameters import shovel_config, shovel_faults
from federation.upstreams import EXCHANGE, QUEUE, link_config, upstream_faults
from queues.definitions.arguments import encode_arguments
from queues.routing.federation_upstream import Place
from tests.golden.federation.scripted_broker import ScriptedBroker, Story
from tests.sim.federation.virtual_time import played
from warren.client.sockets import Dial

TURNS = 100  # of the loop, in which everything that can happen now happens
UPSTREAM = {"uri": "amqp://guest:guest@/%2F", "reconnect-delay": 1}
SHOVEL = {
    "src-uri": "amqp://guest:guest@/%2F",
    "src-queue": "q",
    "dest-uri": "amqp://",
    "dest-queue": "q",
    "reconnect-delay": 1,
}


def run_script(text: str) -> str:
    """The same story with its answers as they are now."""
    lines: list[str] = []

    async def told() -> None:
        script = Script()
        for line in text.splitlines():
            if line.startswith("> "):
                lines.append(line)
                lines.extend("  " + answer for answer in await script.run(line[2:]))
            elif line.startswith("#") or not line:
                lines.append(line)
        await script.end()

    random.seed(1)
    played(told())
    return "\n".join(lines) + "\n"


class Script:
    """The brokers of one story, and the link or shovel between them."""

    def __init__(self) -> None:
        self._story = Story()
        self._up = ScriptedBroker("up", self._story)
        self._down = ScriptedBroker("down", self._story)
        self._brokers = {"up": self._up, "down": self._down}
        self._bindings: set[str] = set()
        self._has_demand = False
        self._kind = ""
        self._value: dict[str, object] = {}
        self._work: Link | Shovel | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, line: str) -> list[str]:
        for command in line.split(";"):
            word, *more = command.split()
            done = getattr(self, f"_on_{word}")(*more)
            if done is not None:
                await done
            for _ in range(TURNS):
                await asyncio.sleep(0)
        return [*self._story.take(), self._state()]

    def _state(self) -> str:
        if self._work is None:
            return "= none"
        facts = self._work.status().facts
        if self._task is not None and self._task.done():
            return f"= complete, {facts.forwarded} forwarded"
        words = [facts.state]
        if facts.state == "terminated":
            words.append(facts.reason)
        words.append(f"{facts.forwarded} forwarded, {facts.in_flight} in flight")
        if facts.blocked:
            words.append("blocked")
        return f"= {', '.join(words)}"

    # What runs

    def _on_exchange(self, *words: str) -> None:
        self._kind, self._value = EXCHANGE, {**UPSTREAM, **values(words)}
        self._begin()

    def _on_queue(self, *words: str) -> None:
        self._kind, self._value = QUEUE, {**UPSTREAM, **values(words)}
        self._begin()

    def _on_shovel(self, *words: str) -> None:
        self._kind, self._value = "shovel", {**SHOVEL, **values(words)}
        self._begin()

    def _begin(self) -> None:
        dialler = Dialler(self._dial)
        if self._kind == "shovel":
            assert not shovel_faults("s", self._value), shovel_faults("s", self._value)
            config = shovel_config("/", "s", self._value)
            self._work = Shovel(config, dialler, lambda: "down", ignore)
        else:
            assert not upstream_faults("up", self._value), upstream_faults("up", self._value)
            value = {**self._value, "upstream": "up"}
            name = "x" if self._kind == EXCHANGE else "q"
            link = link_config(self._kind, "/", name, value, "topic", True, False, b"")
            self._work = Link(link, dialler, self._local(), ignore)
        self._task = asyncio.ensure_future(self._work.run())

    def _dial(self, is_internal: bool) -> Dial:
        """The node's own broker, as its internal user; the other one is dialled with a login."""
        return self._down.dial if is_internal else self._up.dial

    def _local(self) -> Local:
        empty = encode_arguments({})
        return Local(
            lambda vhost: Place("down", vhost, "id of down"),
            lambda vhost, name: frozenset((key.encode(), empty) for key in self._bindings),
            lambda vhost, name: self._has_demand,
            lambda vhost, name: True,
        )

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _on_change(self, *words: str) -> None:
        await self.end()
        self._value = {**self._value, **values(words)}
        self._begin()

    async def _on_restart(self) -> None:
        await self._on_change()

    async def _on_leave(self) -> None:
        await self.end()
        self._work = None

    def _on_arrive(self) -> None:
        self._begin()

    async def _on_remove(self) -> None:
        await self.end()
        if isinstance(self._work, Link):
            await self._work.clean_up()
        self._work = None

    def _on_pause(self) -> None:
        assert self._work is not None
        self._work.pause(True)

    def _on_resume(self) -> None:
        assert self._work is not None
        self._work.pause(False)

    async def _on_wait(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    # The cluster of the link

    def _on_bind(self, *keys: str) -> None:
        self._bindings |= set(keys)
        self._look(definitions_changed=True)

    def _on_unbind(self, *keys: str) -> None:
        self._bindings -= set(keys)
        self._look(definitions_changed=True)

    def _on_demand(self) -> None:
        self._has_demand = True
        self._look(definitions_changed=False)

    def _on_calm(self) -> None:
        self._has_demand = False
        for _ in range(IDLE_LOOKS):
            self._look(definitions_changed=False)

    def _look(self, definitions_changed: bool) -> None:
        if isinstance(self._work, Link):
            self._work.look(definitions_changed)

    # The brokers

    def _on_put(self, *words: str) -> None:
        queue = "federation: x -> down" if self._kind == EXCHANGE else "q"
        parts = [word.split("<") for word in words]
        self._up.put(queue, [(int(each[0]), False, tuple(each[1:])) for each in parts])

    def _on_confirm(self, count: str = "1000000") -> None:
        self._down.answer(int(count), True)

    def _on_refuse(self) -> None:
        self._down.answer(1, False)

    def _on_return(self) -> None:
        for peer in self._down.peers:
            peer.return_all()

    def _on_block(self) -> None:
        for peer in self._down.peers:
            peer.block(True)

    def _on_unblock(self) -> None:
        for peer in self._down.peers:
            peer.block(False)

    def _on_cut(self, name: str) -> None:
        self._brokers[name].cut()

    def _on_down(self, name: str) -> None:
        self._brokers[name].is_reachable = False
        self._brokers[name].cut()

    def _on_up(self, name: str) -> None:
        self._brokers[name].is_reachable = True

    def _on_deaf(self, name: str) -> None:
        for peer in self._brokers[name].peers:
            peer.is_deaf = True

    def _on_locked(self, name: str) -> None:
        self._brokers[name].is_locked = True

    def _on_open(self, name: str) -> None:
        self._brokers[name].is_locked = False

    def _on_unknown(self, type_: str) -> None:
        self._up.unknown_types.add(type_)

    def _on_exists(self, name: str, exchange: str) -> None:
        self._brokers[name].exchanges.add(exchange)


def values(words: tuple[str, ...]) -> dict[str, object]:
    """`name=value` with values of JSON, or text."""
    found: dict[str, object] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def ignore(state: str, reason: str) -> None:
    """The state is in the answers."""

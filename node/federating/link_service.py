"""Runs the shovels and federation links that are this node's part of the cluster's.

    service = LinkService(broker, copy_definitions)
    await service.run()        # supervised; ends its links when it is cancelled

Looks at the definitions when they have changed, and at who runs what every LOOK_S. Each shovel or
link has a task, which is restarted by `supervised` if it fails by a fault of ours.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from federation.shovel_parameters import ShovelConfig, shovel_config, stored_shovel_faults
from federation.upstreams import QUEUE, LinkConfig
from federation.uris import BadUri, SecretBox
from node.federating.link_events import tell_link, tell_shovel
from node.federating.link_owner import LinkOwner, Members, slot_of
from node.federating.link_rows import link_row
from node.federating.local_side import LocalSide
from node.federating.pauses import pause_command, paused_keys
from node.federating.shovel_rows import shovel_row
from node.federating.stored_uris import opened
from node.federating.uri_key import secret_box
from node.federating.wanted_links import SHOVEL, wanted_links, wanted_shovels
from node.standby.standby_service import StandbyService
from node.supervision import supervised
from node.timers import until_next
from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata.commands import DeleteParameter

if TYPE_CHECKING:
    from federation.ends import Dialler
    from federation.link import Link
    from federation.shovel import Shovel
    from node.broker import Broker
    from node.standby.replica import CopyDefinitions

log = logging.getLogger("warren.federation")

LOOK_S: Final = 0.1
STOP_S: Final = 5.0  # what removed links delete at their upstreams may delay a stop by so much
SHOVELS: Final = "shovels"  # questions to other nodes
LINKS: Final = "federation-links"
RESTART: Final = "restart-link"
CLUSTER_NAME: Final = "cluster_name"
CLUSTER_ID: Final = "cluster_id"

Row = dict[str, object]
Wanted: TypeAlias = Parameter | LinkConfig


class Running:
    """A shovel or link and its task."""

    def __init__(self, wanted: Wanted, work: "Shovel | Link", task: "asyncio.Task[None]") -> None:
        self.wanted = wanted
        self.work = work
        self.task = task


class LinkService:
    """Invariant: `_running` has the links whose slots this node owned when it looked last."""

    def __init__(self, broker: "Broker", copy_definitions: "CopyDefinitions") -> None:
        self._broker = broker
        self._box: SecretBox | None = None
        self.standbys = StandbyService(broker, lambda: self.box, copy_definitions)
        self._owner = LinkOwner(broker.coordination, self._members)
        self._local = LocalSide(broker)
        self._dialler: Dialler | None = None  # once something runs here
        self._wanted: dict[str, Wanted] = {}
        self._version = -1
        self._slots: frozenset[int] = frozenset()  # of what is wanted
        self._looked: tuple[int, frozenset[int]] | None = None  # version and owned slots, done with
        self._paused: frozenset[str] = frozenset()  # keys
        self._refused: dict[str, Parameter] = {}  # what makes no sense, and was logged
        self._running: dict[str, Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        status = broker.operating.status
        status.serve(SHOVELS, self._tell_shovels)
        status.serve(LINKS, self._tell_links)
        status.serve(RESTART, self._told_restart)

    @property
    def box(self) -> SecretBox:
        """Encrypts URIs that are stored."""
        if self._box is None:
            self._box = secret_box(self._broker.config)
        return self._box

    async def run(self) -> None:
        told = -1  # version of the definitions that links have looked at
        try:
            while True:
                version = self._broker.metadata.version
                self._look()
                if self._running:
                    await self._follow(version != told)
                told = version
                await asyncio.sleep(until_next(LOOK_S, time.monotonic()))
        finally:
            self._owner.stop()
            for key in list(self._running):
                self._end(key, for_good=False)
            await self._end_all()

    async def _follow(self, definitions_changed: bool) -> None:
        """Have links look at bindings, which are definitions, and at the demand for queues."""
        from federation.link import Link

        queues = [
            (each.wanted.vhost, each.wanted.name)
            for each in self._running.values()
            if isinstance(each.wanted, LinkConfig) and each.wanted.kind == QUEUE
        ]
        if queues:
            await self._local.refresh(queues)
        if queues or definitions_changed:
            for running in self._running.values():
                if isinstance(running.work, Link):
                    running.work.look(definitions_changed)

    # What runs here

    @property
    def runs_any(self) -> bool:
        return bool(self._running)

    def shovel_rows(self) -> list[Row]:
        """Of the shovels that run here, as listings show them."""
        from federation.shovel import Shovel

        node = self._broker.node_name
        return [
            shovel_row(each.status(), node) for each in self._works() if isinstance(each, Shovel)
        ]

    def link_rows(self) -> list[Row]:
        """Of the federation links that run here."""
        from federation.link import Link

        node = self._broker.node_name
        return [link_row(each.status(), node) for each in self._works() if isinstance(each, Link)]

    def _works(self) -> "list[Shovel | Link]":
        """What runs here and is defined so now: the next look ends the rest."""
        self._read()
        wanted = self._wanted
        return [each.work for key, each in self._running.items() if wanted.get(key) == each.wanted]

    async def all_shovels(self) -> list[Row]:
        """Of the cluster; those that no node runs now are starting."""
        self._read()
        wanted = [each for each in self._wanted.values() if isinstance(each, Parameter)]
        if not wanted:
            return []
        names = {(each.vhost, each.name) for each in wanted}
        rows = [*self.shovel_rows(), *await self._elsewhere(SHOVELS)]
        rows.sort(key=lambda row: row["state"] == "running")
        # While a shovel moves, two nodes may show it: the one where it runs counts.
        found = {(row["vhost"], row["name"]): row for row in rows}
        missing = names - found.keys()
        return [row for name, row in found.items() if name in names] + [
            {"vhost": vhost, "name": name, "type": "dynamic", "state": "starting"}
            for vhost, name in sorted(missing)
        ]

    async def all_links(self) -> list[Row]:
        """The federation links of the cluster."""
        self._read()
        if not any(isinstance(each, LinkConfig) for each in self._wanted.values()):
            return []
        rows = [*self.link_rows(), *await self._elsewhere(LINKS)]
        rows.sort(key=lambda row: row["status"] == "running")
        return list({row["id"]: row for row in rows}.values())

    async def _elsewhere(self, question: str) -> list[Row]:
        answers = await self._broker.operating.status.ask_others(question)
        return [row for parts in answers.values() for row in parts or ()]

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        """Whether a node of the cluster runs it and has restarted it."""
        return await self._restart_anywhere(f"{SHOVEL}/{vhost}/{name}")

    async def restart_link(self, link: str) -> bool:
        """The same for a federation link, by its id."""
        return await self._restart_anywhere(link)

    def key_of(self, link: str) -> str | None:
        """The key of a federation link, by its id."""
        self._read()
        for key, wanted in self._wanted.items():
            if isinstance(wanted, LinkConfig) and wanted.id == link:
                return key
        return None

    def key_of_shovel(self, vhost: str, name: str) -> str | None:
        self._read()
        key = f"{SHOVEL}/{vhost}/{name}"
        return key if key in self._wanted else None

    async def _restart_anywhere(self, which: str) -> bool:
        if self._restart(which):
            return True
        answers = await self._broker.operating.status.ask_others(RESTART, which)
        return any(bool(parts and parts[0]) for parts in answers.values())

    def _restart(self, which: str) -> bool:
        """Begin again without waiting, if it runs here; by key, or by the id of a link."""
        self._look()
        for key, running in self._running.items():
            if which in (key, getattr(running.work, "id", "")):
                self._end(key, for_good=False)
                self._looked = None
                self._look()
                return True
        return False

    async def _tell_shovels(self, member: int, about: Any) -> AsyncIterator[object]:
        for row in self.shovel_rows() if self._running else ():
            yield row

    async def _tell_links(self, member: int, about: Any) -> AsyncIterator[object]:
        for row in self.link_rows() if self._running else ():
            yield row

    async def _told_restart(self, member: int, about: Any) -> AsyncIterator[object]:
        yield self._restart(str(about))

    # What is to run

    def _look(self) -> None:
        """Bring what runs here to what is defined and owned."""
        self._read()
        here = self._owner.decide(self._slots)
        if self._looked == (self._version, here):
            return
        self._looked = self._version, here
        for key, running in list(self._running.items()):
            wanted = self._wanted.get(key)
            if wanted != running.wanted or slot_of(key) not in here:
                self._end(key, for_good=wanted is None)
            else:
                running.work.pause(key in self._paused)
        for key, wanted in self._wanted.items():
            if key not in self._running and slot_of(key) in here:
                self._begin(key, wanted)

    def _read(self) -> None:
        metadata = self._broker.metadata
        if metadata.version == self._version:
            return
        self._version = metadata.version
        self._paused = paused_keys(metadata)
        links = wanted_links(metadata, lambda: self.box, self._warn)
        self._wanted = {**wanted_shovels(metadata), **links}
        self._slots = frozenset(map(slot_of, self._wanted))
        properties = self._broker.server_properties
        properties[CLUSTER_NAME] = self._local.cluster_name()
        properties[CLUSTER_ID] = self._local.cluster_id()

    def _begin(self, key: str, wanted: Wanted) -> None:
        config = self._shovel(wanted) if isinstance(wanted, Parameter) else wanted
        if config is None:
            return
        # Imported here: a node without links does without the client.
        from federation.link import Link
        from federation.shovel import Shovel

        work: Shovel | Link
        if isinstance(config, ShovelConfig):
            told = partial(tell_shovel, self._broker.events, config)
            work = Shovel(config, self._dial(), self._local.cluster_name, told)
        else:
            told = partial(tell_link, self._broker.events, config)
            work = Link(config, self._dial(), self._local.local(), told)
        work.pause(key in self._paused)
        task = asyncio.create_task(supervised(key, work.run))
        self._running[key] = Running(wanted, work, task)
        task.add_done_callback(lambda done: self._done(key, task))

    def _dial(self) -> "Dialler":
        if self._dialler is None:
            from federation.ends import Dialler
            from node.federating.local_dial import LocalDial

            self._dialler = Dialler(LocalDial(self._broker))
        return self._dialler

    def _shovel(self, parameter: Parameter) -> ShovelConfig | None:
        """The shovel; None: its URIs cannot be read, or an earlier version let it in."""
        try:
            value = opened(msgspec.json.decode(parameter.value), self.box)
        except BadUri as error:
            self._warn(parameter, str(error))
            return None
        faults = stored_shovel_faults(parameter.name, value)
        if faults:
            self._warn(parameter, "; ".join(faults))
            return None
        assert isinstance(value, dict)
        return shovel_config(parameter.vhost, parameter.name, value)

    def _warn(self, parameter: Parameter, reason: str) -> None:
        """Say once that a parameter is not used."""
        key = f"{parameter.component}/{parameter.vhost}/{parameter.name}"
        if self._refused.get(key) != parameter:
            self._refused[key] = parameter
            log.warning(
                "%s '%s' in vhost '%s' is not used: %s",
                parameter.component,
                parameter.name,
                parameter.vhost,
                reason,
            )

    def _end(self, key: str, for_good: bool) -> None:
        running = self._running.pop(key)
        if for_good and key in self._paused:
            self._broker.turn.begin()
            self._broker.definitions.propose(pause_command(key, False))
        if not running.task.done():
            running.task.cancel()
        ending = asyncio.create_task(self._ended(running, for_good))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _ended(self, running: Running, for_good: bool) -> None:
        """Wait for the end; a link that is gone for good takes along what it made upstream."""
        await asyncio.wait([running.task])
        from federation.link import Link

        if for_good and isinstance(running.work, Link):
            await self._clean_up(running.work)

    async def _clean_up(self, link: "Link") -> None:
        from federation.ends import FAULTS
        from federation.running import reason_of

        text = "%s, because %s: delete them at the upstream, or it keeps messages for ever"
        try:
            await link.clean_up()
        except FAULTS as error:
            log.warning(text, link.left_over(), reason_of(error))
        except asyncio.CancelledError:
            log.warning(text, link.left_over(), "this node stops")
            raise

    async def _end_all(self) -> None:
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _done(self, key: str, task: "asyncio.Task[None]") -> None:
        """A shovel that has moved all that it was to move deletes itself."""
        running = self._running.get(key)
        if running is None or running.task is not task or task.cancelled():
            return
        assert isinstance(running.wanted, Parameter)
        vhost, name = running.wanted.vhost, running.wanted.name
        log.info("shovel '%s' in vhost '%s' has moved all messages and is deleted", name, vhost)
        self._broker.turn.begin()
        self._broker.definitions.propose(DeleteParameter(vhost, SHOVEL, name))

    # Where it runs

    def _members(self) -> Members:
        broker = self._broker
        peers = broker.operating.peers
        members = peers.members()
        # By the definitions: beats of coordination would tell of it up to a second later.
        nodes = broker.operating.cluster_snapshot.members()
        draining = {each.id for each in nodes if each.draining}
        eligible = {each for each in members if each not in draining and peers.is_trusted(each)}
        eligible.discard(peers.member)
        if not broker.in_maintenance:
            eligible.add(peers.member)
        return Members(
            peers.member, members, frozenset(eligible), broker.definitions.group.is_leader
        )

"""Runs the shovels and federation links that are this node's part of the cluster's.

    service = LinkService(broker)
    await service.run()        # supervised; ends its shovels when it is cancelled

Looks at the definitions when they have changed, and at who runs what every LOOK_S. Each shovel has
a task, which is restarted by `supervised` if it fails by a fault of ours.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from federation.shovel_parameters import ShovelConfig, shovel_config, shovel_faults
from federation.uris import BadUri, SecretBox
from node.federating.link_owner import LinkOwner, Members, slot_of
from node.federating.shovel_rows import shovel_row
from node.federating.stored_uris import opened
from node.federating.uri_key import secret_box
from node.supervision import supervised
from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata_commands import DeleteParameter

if TYPE_CHECKING:
    from federation.ends import Dialler
    from federation.shovel import Shovel, ShovelStatus
    from node.broker import Broker

log = logging.getLogger("warren.federation")

LOOK_S: Final = 0.25
SHOVEL: Final = "shovel"
SHOVELS: Final = "shovels"  # questions to other nodes
RESTART_SHOVEL: Final = "restart-shovel"
CLUSTER_NAME: Final = "cluster_name"

Key = tuple[str, str]  # vhost, name


class Running:
    """One shovel and its task."""

    def __init__(self, parameter: Parameter, shovel: "Shovel", task: "asyncio.Task[None]") -> None:
        self.parameter = parameter
        self.shovel = shovel
        self.task = task


class LinkService:
    """Invariant: `_running` has the shovels whose slots this node owned when it looked last."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._box: SecretBox | None = None
        self._owner = LinkOwner(broker.coordination, self._members)
        self._dialler: Dialler | None = None  # once something runs here
        self._wanted: dict[Key, Parameter] = {}
        self._version = -1
        self._refused: dict[Key, Parameter] = {}  # what makes no sense, and was logged
        self._running: dict[Key, Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        status = broker.operating.status
        status.serve(SHOVELS, self._tell_shovels)
        status.serve(RESTART_SHOVEL, self._told_restart)

    @property
    def box(self) -> SecretBox:
        """Encrypts URIs that are stored."""
        if self._box is None:
            self._box = secret_box(self._broker.config)
        return self._box

    async def run(self) -> None:
        try:
            while True:
                self._look()
                await asyncio.sleep(LOOK_S)
        finally:
            self._owner.stop()
            for key in list(self._running):
                self._end(key)
            await asyncio.gather(*self._ending, return_exceptions=True)

    # What runs here

    def statuses(self) -> "list[ShovelStatus]":
        return [each.shovel.status() for each in self._running.values()]

    def rows(self) -> list[dict[str, object]]:
        """Of the shovels that run here, as listings show them."""
        return [shovel_row(each, self._broker.node_name) for each in self.statuses()]

    def restart(self, vhost: str, name: str) -> bool:
        """Whether the shovel runs here: it begins again, without waiting."""
        self._look()
        if (vhost, name) not in self._running:
            return False
        self._end((vhost, name))
        self._look()
        return True

    async def all_rows(self) -> list[dict[str, object]]:
        """Of all shovels of the cluster; those that no node runs now are starting."""
        found = self.rows()
        for parts in (await self._broker.operating.status.ask_others(SHOVELS)).values():
            found += parts or ()
        self._read()
        found = [row for row in found if (row["vhost"], row["name"]) in self._wanted]
        known = {(row["vhost"], row["name"]) for row in found}
        for vhost, name in self._wanted:
            if (vhost, name) not in known:
                found.append({"vhost": vhost, "name": name, "type": "dynamic", "state": "starting"})
        return found

    async def restart_anywhere(self, vhost: str, name: str) -> bool:
        """Whether a node of the cluster runs it and has restarted it."""
        if self.restart(vhost, name):
            return True
        answers = await self._broker.operating.status.ask_others(RESTART_SHOVEL, [vhost, name])
        return any(bool(parts and parts[0]) for parts in answers.values())

    async def _tell_shovels(self, member: int, about: Any) -> AsyncIterator[object]:
        for row in self.rows():
            yield row

    async def _told_restart(self, member: int, about: Any) -> AsyncIterator[object]:
        vhost, name = about
        yield self.restart(str(vhost), str(name))

    # What is to run

    def _look(self) -> None:
        """Bring what runs here to what is defined and owned."""
        self._read()
        here = self._owner.decide({slot_of(_link(*key)) for key in self._wanted})
        for key, running in list(self._running.items()):
            is_same = self._wanted.get(key) == running.parameter
            if not is_same or slot_of(_link(*key)) not in here:
                self._end(key)
        for key, parameter in self._wanted.items():
            if key not in self._running and slot_of(_link(*key)) in here:
                self._begin(key, parameter)

    def _read(self) -> None:
        metadata = self._broker.metadata
        if metadata.version == self._version:
            return
        self._version = metadata.version
        self._wanted = {
            (vhost.name, parameter.name): parameter
            for vhost in metadata.vhosts.values()
            for parameter in vhost.parameters.values()
            if parameter.component == SHOVEL
        }

    def _begin(self, key: Key, parameter: Parameter) -> None:
        if self._refused.get(key) == parameter:
            return
        config = self._config(parameter)
        if config is None:
            self._refused[key] = parameter
            return
        self._refused.pop(key, None)
        # Imported here: a node without links does without the client.
        from federation.shovel import Shovel

        shovel = Shovel(config, self._dial(), self._cluster_name)
        name = f"shovel '{config.name}' in vhost '{config.vhost}'"
        task = asyncio.create_task(supervised(name, shovel.run))
        self._running[key] = Running(parameter, shovel, task)
        task.add_done_callback(lambda done: self._done(key, task))

    def _dial(self) -> "Dialler":
        if self._dialler is None:
            from federation.ends import Dialler
            from node.federating.local_dial import LocalDial

            self._dialler = Dialler(LocalDial(self._broker))
        return self._dialler

    def _config(self, parameter: Parameter) -> ShovelConfig | None:
        """The shovel; None: the parameter was imported and makes no sense."""
        try:
            value = opened(msgspec.json.decode(parameter.value), self.box)
        except BadUri as error:
            value, faults = {}, [str(error)]
        else:
            faults = shovel_faults(parameter.name, value)
        if faults:
            log.warning(
                "shovel '%s' in vhost '%s' is not started: %s",
                parameter.name,
                parameter.vhost,
                "; ".join(faults),
            )
            return None
        assert isinstance(value, dict)
        return shovel_config(parameter.vhost, parameter.name, value)

    def _end(self, key: Key) -> None:
        task = self._running.pop(key).task
        if not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _done(self, key: Key, task: "asyncio.Task[None]") -> None:
        """A shovel that has moved all that it was to move deletes itself."""
        running = self._running.get(key)
        if running is None or running.task is not task or task.cancelled():
            return
        vhost, name = key
        log.info("shovel '%s' in vhost '%s' has moved all messages and is deleted", name, vhost)
        self._broker.turn.begin()
        self._broker.propose(DeleteParameter(vhost, SHOVEL, name))

    # Where it runs

    def _members(self) -> Members:
        broker = self._broker
        peers = broker.operating.peers
        members = peers.members()
        draining = {each for each, load in broker.coordination.loads().items() if load.is_draining}
        eligible = {each for each in members if each not in draining and peers.is_trusted(each)}
        eligible.discard(peers.member)
        if not broker.in_maintenance:
            eligible.add(peers.member)
        return Members(peers.member, members, frozenset(eligible), broker.definitions.is_leader)

    def _cluster_name(self) -> str:
        broker = self._broker
        oldest = broker.operating.oldest_node
        otherwise = broker.config.cluster.name or oldest or broker.node_name
        return cluster_name(broker.metadata.parameters, otherwise)


def cluster_name(parameters: Mapping[tuple[str, str], Parameter], otherwise: str) -> str:
    found = parameters.get(("", CLUSTER_NAME))
    value = None if found is None else msgspec.json.decode(found.value)
    return value if isinstance(value, str) else otherwise


def _link(vhost: str, name: str) -> str:
    return f"{SHOVEL}/{vhost}/{name}"

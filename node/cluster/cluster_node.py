"""This node as a member of its cluster: links to the others, log groups, and what both carry.

    cluster = Cluster(config, secret, disk)  # reads what the data directory is
    await cluster.enter()                    # listens; if empty, founds or is taken in
    cluster.equip(wal, wal, turn)            # `raft` is there: groups can be added
    cluster.attach(kind, part)               # each part takes its kind of frames
    cluster.begin(definitions)               # links are dialed, time goes on
    await cluster.current.wait()             # the definitions know this node, and it knows them

Keeps `seams.Peers` for the parts and `node.cluster.peering.peer_links.PeerUser` for the links: what
a link tells goes to
the log groups and to the parts, in a turn that has begun. Owns the links, the file of membership
and the timer. A frame that makes no sense ends the link that it came over. What the definitions say
of members is followed: peers are added, changed and removed, and written to the file, so that a
node that starts finds them. A node that the cluster has forgotten, or whose place another has
taken, hears of it when it asks, and stops (`on_fatal`).
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from node.cluster.cluster_interfaces import PeerChannel
from node.cluster.definitions.definitions_interface import Definitions
from node.cluster.membership.entering import Entering, sole_member
from node.cluster.membership.forming import list_digest
from node.cluster.membership.introducing import introduce, watch
from node.cluster.membership.membership_file import (
    BadMembership,
    EnteringFailed,
    Membership,
    MembershipFile,
    PeerAddress,
    belongs_to_cluster,
    no_listener_fault,
    old_format_fault,
    was_used,
)
from node.cluster.membership.reception import ClusterReception
from node.cluster.peering.cluster_secret import draw_id, load_incarnation
from node.cluster.peering.dialer import REFUSED
from node.cluster.peering.link_settings import link_settings
from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_links import PeerLinks
from node.cluster.sync_times import Syncs, SyncTimes
from node.config.config_layers import Address
from node.connections.bind_errors import taking
from node.supervision import Repeating
from node.tls.acceptor import Contexts
from node.turn import Turn
from queues.definitions.members import Member
from queues.definitions.metadata.commands import Found
from raft.codec import BadMessage
from raft.entries import Config as Voters
from raft.host import TICK_MS, RaftHost, host_settings
from raft.links import BadEnvelope
from raft.log_group import METADATA_OWNER, GroupLog
from warren.storage.disk import Disk
from warren.wire.peer.codes import RAFT, PeerFault
from warren.wire.peer.handshake import Identity, link_cluster_id, link_key

if TYPE_CHECKING:
    from node.config.settings import Config, ListenersSection

log = logging.getLogger("warren.cluster")

NO_ADDRESS: Final = Address("", 0)  # of a node that other nodes cannot reach
TICK_S: Final = TICK_MS / 1000
IDLE_TICK_S: Final = 0.1  # where no log group needs ticks; the failure detector does
DEFINITIONS_TICK_MS: Final = 100
SAVE_PAUSE_S: Final = 1.0  # before a write that failed is tried again


class TickedDefinitions(Definitions, Protocol):
    """The group of the definitions, as it is driven."""

    def tick(self, now_ms: int) -> None:
        """About every 100 ms; monotonic time."""

    def when_saved(self, done: Callable[[], None]) -> None:
        """Call `done` once a start of this node would know all that is applied now."""


class Cluster:
    """See the module. Invariant: `_peers` are all members but this one, as they are known here."""

    def __init__(
        self, config: "Config", secret: bytes | None, disk: Disk, tls: Contexts | None = None
    ) -> None:
        """`secret` is None for a node without a listener for other nodes.

        BadNodeId, BadMembership: this node cannot be a member as it is.
        """
        directory = str(config.node.data_dir)
        if was_used(disk, directory) and not belongs_to_cluster(disk, directory):
            raise BadMembership(old_format_fault(directory))
        self.incarnation = load_incarnation(disk, directory)
        self.boot = draw_id()  # of this process
        self.seeds = config.cluster.seeds
        self.seeds_digest = list_digest([str(seed) for seed in self.seeds])
        self.raft: RaftHost
        self.definitions: TickedDefinitions | None = None
        self.current = asyncio.Event()  # all is applied that was committed when it started
        self.on_fatal: Callable[[str], None] = self._told_fatal
        self.on_refuses: Callable[[int, bool], None] | None = (
            None  # a member, whether its port does
        )
        self.on_removed: Callable[[], None] | None = None  # who expects it, and ends the process
        self._config = config
        self._file = MembershipFile(disk, directory)
        self._me = member_of(config, self.incarnation)
        self._peers: dict[int, PeerAddress] = {}
        self._parts: dict[int, PeerChannel] = {}
        self._begin_turn: Callable[[], None]
        self._turn: Turn | None = None
        self._loop = asyncio.get_running_loop()
        self._ticking: Repeating | None = None
        self._definitions_due_ms = 0  # their next tick
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_saving = False
        held = self._file.read(config.node.name, self.incarnation)
        if held is not None and held.peers and secret is None:
            raise BadMembership(no_listener_fault(directory, len(held.peers)))
        cluster_id = link_cluster_id(self.seeds_digest, 0)
        key = link_key(os.urandom(32) if secret is None else secret)
        identity = Identity(self.incarnation, self.incarnation, self.boot, cluster_id, key)
        settings = link_settings(config.cluster, config.testing)
        self.links = PeerLinks(identity, self, settings, tls)

    # Coming to be a member

    @property
    def membership(self) -> Membership | None:
        return self._file.held

    @property
    def held(self) -> Membership:
        """What this node is, once it is anything."""
        held = self._file.held
        assert held is not None
        return held

    async def enter(self) -> None:
        """Listen for other nodes if configured; then, if this node is empty, get a place.

        Without seeds that is immediate: the node is the only member of a new cluster.
        EnteringFailed: it will never have one. OSError: it cannot listen, or write its file.
        """
        address = self._config.listeners.cluster
        if address is not None:
            self.links.take_questions(ClusterReception(self).answer)
            with taking("other nodes", address.host, address.port):
                await self.links.listen(address.host, address.port)
        if self._file.held is None:
            if self.seeds:
                entered = await Entering(self.links, self._me, self.seeds).run()
            else:
                entered = sole_member(self._me)
            self._file.write(entered)
        elif self._has_other_seeds():
            raise EnteringFailed(
                "this node takes part in the founding of a cluster of "
                f"{', '.join(self.held.founders)}, and cluster.seeds is another list now"
            )
        self._become()
        for peer in self.held.peers:
            self._peers[peer.member] = peer
        self._me = msgspec.structs.replace(self._me, id=self.held.member)

    def _has_other_seeds(self) -> bool:
        """Whether it is being founded, and told to take part in another founding."""
        held = self.held
        if held.cluster_id != 0 or not self.seeds or len(held.founders) == 1:
            return False
        return self.seeds_digest != list_digest(self.held.founders)

    def _become(self) -> None:
        held = self.held
        cluster_id = link_cluster_id(list_digest(held.founders), held.cluster_id)
        self.links.become(held.member, cluster_id)

    def founding(self) -> Voters:
        """The configuration in which the first group began, as far as this node took part."""
        founders = self.held.founders if self.held.is_founder else ()
        return Voters(range(1, len(founders) + 1))

    def found(self) -> Found:
        """What the first leader of a new cluster begins with: itself, and empty places."""
        rows = []
        for place, text in enumerate(self.held.founders, 1):
            peer = self._peers.get(place)
            if peer is None:
                assert place == self.member, text
                rows.append(self._me)
            else:
                rows.append(Member(place, "", 0, peer.host, peer.port))
        return Found(draw_id(), tuple(rows))

    def equip(self, wal: GroupLog, syncs: Syncs, turn: Turn) -> None:
        """From now on `raft` is there, worked by the turn. `syncs`: those of the log."""
        self._sync_times = SyncTimes(syncs, time.perf_counter)
        self._begin_turn = turn.begin
        self._turn = turn
        self.raft = RaftHost(
            self.member, wal, self.links, host_settings(), Random(), turn.begin_groups
        )
        turn.groups = self.raft

    def begin(self, definitions: TickedDefinitions) -> None:
        """All parts are attached and all groups are there: dial, and let time go on."""
        self.definitions = definitions
        definitions.on_changed.append(self._member_changed)
        for row in definitions.members():
            if row.id >= self.held.given_below:  # Else the file knows better who there is.
                self._peers[row.id] = address_of(row)
        for peer in self._peers.values():
            self._add_peer(peer)
        self.links.given_below(self.held.given_below)
        self._tick()
        self._ticking = Repeating("log groups", TICK_S, self._tick, self._loop.call_later)
        self.raft.when_awake(self._hasten_ticks)
        self._hasten()
        self._start(watch(self.links, self, self._stands_wrong))
        self._start(self._introduce())

    @property
    def is_current(self) -> bool:
        return self.current.is_set()

    async def _introduce(self) -> None:
        assert self.definitions is not None
        try:
            await introduce(self.definitions, self._me)
        except EnteringFailed as error:
            self._fatal(str(error))
            return
        self.current.set()

    async def close(self) -> None:
        """End links, timer and tasks; the parts learn that the links are gone."""
        if self._ticking is not None:
            self._ticking.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.links.close()

    # Peers (`seams.Peers`)

    @property
    def member(self) -> int:
        return self.held.member

    def attach(self, kind: int, part: PeerChannel) -> None:
        assert kind not in self._parts
        self._parts[kind] = part

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        return self.links.offer(member, lane, parts, kind)

    def is_full(self, member: int) -> bool:
        return self.links.is_full(member)

    def is_connected(self, member: int) -> bool:
        return self.links.is_connected(member)

    def version(self, member: int) -> int:
        return self.links.version_of(member)

    def is_trusted(self, member: int) -> bool:
        return member == self.member or self.raft.detector.is_trusted(member)

    def members(self) -> list[int]:
        return sorted([self.member, *self._peers])

    # What the reception and the watch ask

    def incarnation_seen(self, member: int) -> int:
        return self.links.incarnation_of(member)

    def is_superseded(self, member: int, boot: int) -> bool:
        return self.links.is_superseded(member, boot)

    def hurry(self, member: int) -> None:
        self.links.hurry(member)

    def unreachable_peers(self) -> list[PeerAddress]:
        return [peer for peer in self._peers.values() if not self.is_connected(peer.member)]

    # What the links tell (`node.cluster.peering.peer_links.PeerUser`)

    def connected(self, member: int, incarnation: int) -> None:
        self._begin_turn()
        self.raft.connected(member)
        for part in self._parts.values():
            part.peer_connected(member)
        self._hasten()

    def lost(self, member: int, reason: str) -> None:
        self._begin_turn()
        self.raft.lost(member)
        for part in self._parts.values():
            part.peer_lost(member)

    def unreachable(self, member: int, reason: str) -> None:
        """The dialer has told the log; the watch asks the peer how this node stands."""
        if self.on_refuses is not None:
            self.on_refuses(member, reason == REFUSED)

    def answered(self, member: int) -> None:
        self.raft.heard(member)

    def received(self, member: int, lane: int, kind: int, payload: memoryview) -> None:
        try:
            if kind == RAFT:
                self.raft.receive(member, payload)
                return
            part = self._parts.get(kind)
            if part is None:
                raise PeerFault(f"frames of kind {kind}, which this node does not know")
            self._begin_turn()
            part.peer_received(member, payload)
        except (BadEnvelope, BadMessage) as error:
            self.links.drop(member, f"log groups: {error}")
        except PeerFault as fault:
            self.links.drop(member, fault.text)

    def drained(self, member: int) -> None:
        self.raft.drained(member)

    def ends_turn(self, socket: LinkSocket) -> bool:
        return self._turn is not None and self._turn.mark_peer(socket)

    def conflict(self, member: int, text: str) -> None:
        """The other one is wrong, and hears it from whom it asks; this node has its own place."""
        log.error("a connection as member %d was refused: %s", member, text)

    def _hasten(self) -> None:
        """No member leads and there is a majority: the first of it need not wait for chance."""
        group = self.raft.group(METADATA_OWNER)
        if group is None or group.raft.leader != 0:
            return
        voters = group.config.voters
        here = [voter for voter in voters if self.is_trusted(voter)]
        if 2 * len(here) > len(voters) and here[0] == self.member:
            group.campaign()

    # What the definitions tell

    def _member_changed(self, before: Member | None, after: Member | None) -> None:
        if after is not None and after.id != self.member:
            peer = address_of(after)
            self._peers[after.id] = peer
            self._add_peer(peer)
        elif after is None and before is not None:
            self._removed(before.id)
        if not self._is_saving:
            self._is_saving = True
            self._loop.call_soon(self._save)

    def _add_peer(self, peer: PeerAddress) -> None:
        self.raft.add_peer(peer.member)
        self.links.add_peer(peer.member, peer.host, peer.port, peer.incarnation)

    def _removed(self, member: int) -> None:
        if member == self.member:
            self._stands_wrong("this node was removed from the cluster")
            return
        self._peers.pop(member, None)
        self.links.remove_peer(member)
        self.raft.remove_peer(member)
        for part in self._parts.values():
            part.peer_removed(member)

    def _save(self) -> None:
        """What has changed goes to the file, all of a turn at once."""
        self._is_saving = False
        definitions = self.definitions
        assert definitions is not None
        held = self.held
        if held.cluster_id not in (0, definitions.cluster_id):
            self._fatal(
                f"the definitions are of cluster {definitions.cluster_id:016x}, and this data "
                f"directory belongs to cluster {held.cluster_id:016x}"
            )
            return
        now = msgspec.structs.replace(
            held,
            cluster_id=definitions.cluster_id or held.cluster_id,
            given_below=max([held.given_below, *(peer + 1 for peer in self._peers)]),
            peers=tuple(peer for _, peer in sorted(self._peers.items())),
        )
        if now != held:
            self._write(now)

    def _write(self, now: Membership) -> None:
        """Until it is written: a start with what was known before would find fewer members."""
        try:
            self._file.write(now)
        except OSError as error:
            log.error("what is known of the members cannot be kept, it is tried again: %s", error)
            self._is_saving = True
            self._loop.call_later(SAVE_PAUSE_S, self._save)
            return
        self._become()
        self.links.given_below(now.given_below)

    # Time and tasks

    def _tick(self) -> None:
        now_ms = int(time.monotonic() * 1000)
        self.raft.pace.note_sync(self._sync_times.longest_ms())
        self.raft.tick(now_ms)
        if now_ms >= self._definitions_due_ms and self.definitions is not None:
            self._definitions_due_ms = now_ms - now_ms % DEFINITIONS_TICK_MS + DEFINITIONS_TICK_MS
            self._begin_turn()
            self.definitions.tick(now_ms)
        if self._ticking is not None:
            self._ticking.every(TICK_S if self.raft.needs_ticks else IDLE_TICK_S)

    def _hasten_ticks(self) -> None:
        if self._ticking is not None:
            self._ticking.every(TICK_S)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # It only ends by a fault of ours, which the loop then tells.

    def _fatal(self, text: str) -> None:
        log.critical("%s", text)
        self.on_fatal(text)

    def _stands_wrong(self, text: str) -> None:
        """The cluster does not have this node any more: it stops, unless that was asked for."""
        if self.on_removed is None:
            self._fatal(text)
        else:
            self.on_removed()

    def _told_fatal(self, text: str) -> None:
        """No caller waits: it is in the log."""


def member_of(config: "Config", incarnation: int) -> Member:
    """How the definitions shall know this node; its id is 0."""
    address = config.cluster.advertised or config.listeners.cluster or NO_ADDRESS
    listeners, is_plain = config.listeners, config.listeners.plain
    return Member(
        id=0,
        name=config.node.name,
        incarnation=incarnation,
        cluster_host=address.host,
        cluster_port=address.port,
        host_id=config.node.host_id,
        zone=config.node.zone,
        amqp=_told(listeners.amqp_advertised, _own_amqp(listeners)),
        management=_told(
            listeners.management_advertised, listeners.management if is_plain else None
        ),
        amqps=_told(listeners.amqps_advertised, None if listeners.reuse_port else listeners.amqps),
        tags=tags_of(config.node.tags),
        stream=_told(listeners.stream_advertised, listeners.stream),
        stream_tls=_told(listeners.stream_tls_advertised, listeners.stream_tls),
    )


def _own_amqp(listeners: "ListenersSection") -> Address | None:
    """Where clients reach this node and no other; TLS is not asked for there."""
    if listeners.direct is not None:
        return listeners.direct
    return listeners.amqp if listeners.plain and not listeners.reuse_port else None


def tags_of(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """KEY=VALUE taken apart; of a key that is there twice the last one."""
    pairs = (text.partition("=") for text in texts)
    return tuple(sorted({key.strip(): value.strip() for key, _, value in pairs}.items()))


def _told(advertised: Address | None, listener: Address | None) -> str:
    """What other nodes learn of a listener; '' where there is none that could be used as it is."""
    address = advertised or listener
    if address is None or address.is_wildcard or address.port == 0:
        return ""
    return str(address)


def address_of(row: Member) -> PeerAddress:
    return PeerAddress(row.id, row.cluster_host, row.cluster_port, row.incarnation)

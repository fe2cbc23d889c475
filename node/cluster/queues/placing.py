"""Where a queue that is being declared goes: fills in home and members of the command.

Takes `DeclareQueue`, alone or in a batch, before it is proposed; gives it back with the name of the
home (of a classic queue) or of the first leader (of a quorum queue), and with the members. A queue
that is there already, and a command that names its members, stay as they are. Exclusive queues live
where their connection is. What operators should know (members that share a machine) is logged once
for each text. Only `BrokerDefinitions.propose` calls it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from node.cluster.queues.cluster_snapshot import ClusterSnapshot, placement_tag
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import MirrorView
from queues.definitions.metadata.commands import Batch, Command, DeclareQueue, default_types_in
from queues.definitions.metadata.refusals import with_default_type
from queues.definitions.policies import with_policy
from queues.definitions.queue_arguments import QUORUM, STREAM, queue_type
from queues.placement.queue_placement import (
    CLIENT_LOCAL,
    GROUP_SIZE_DEFAULT,
    QUEUES_COUNTED_MAX,
    Candidate,
    choose_home,
    choose_members,
)

log = logging.getLogger("warren.placement")

LOCATOR: Final = "x-queue-leader-locator"
OLD_LOCATOR: Final = "x-queue-master-locator"
INITIAL_SIZE: Final = "x-quorum-initial-group-size"
STREAM_SIZE: Final = "x-initial-cluster-size"
WARNINGS_MAX: Final = 100  # different ones; then they are logged no more


class Placing:
    """See the module."""

    def __init__(
        self,
        cluster_snapshot: ClusterSnapshot,
        random: Random,
        locator: str = CLIENT_LOCAL,
        group_size: int = GROUP_SIZE_DEFAULT,
    ) -> None:
        """`locator` and `group_size` hold where neither queue nor policy says anything."""
        self._cluster_snapshot = cluster_snapshot
        self._random = random
        self._locator = locator
        self._group_size = group_size
        self._warned: set[str] = set()
        # The first view of a classic queue, by vhost, name and home; None: it has no mirrors.
        self.first_mirrors: Callable[[str, str, int], MirrorView | None] | None = None

    def placed(self, command: Command) -> Command:
        """The command as it is to be proposed."""
        if isinstance(command, DeclareQueue):
            return self._placed(command, Load(self._cluster_snapshot))
        if isinstance(command, Batch):
            load = Load(self._cluster_snapshot)
            vhosts = default_types_in(command)
            return Batch(
                tuple(
                    self._placed(each, load, vhosts) if isinstance(each, DeclareQueue) else each
                    for each in command.commands
                )
            )
        return command

    def _placed(
        self, command: DeclareQueue, load: "Load", new_vhosts: Mapping[str, str] | None = None
    ) -> DeclareQueue:
        """`new_vhosts`: default queue types of vhosts that the same batch declares."""
        cluster_snapshot = self._cluster_snapshot
        vhost = cluster_snapshot.metadata.vhosts.get(command.vhost)
        if vhost is not None:
            default_type = vhost.entry.default_queue_type
        elif new_vhosts is not None and command.vhost in new_vhosts:
            default_type = new_vhosts[command.vhost]
        else:
            return command
        if command.members or (vhost is not None and command.name in vhost.queues):
            return command
        if default_type:  # As the machine will do it.
            command = with_default_type(command, default_type)
        declared = decode_arguments(command.arguments)
        kind = queue_type(declared)
        arguments = declared
        if vhost is not None:
            policy = vhost.policies.effective(kind, command.name).definition
            arguments = with_policy(declared, policy)
        quorum = kind in (QUORUM, STREAM)
        if command.exclusive_owner and not quorum:
            return replace(command, node=cluster_snapshot.name_of(cluster_snapshot.here))
        locator = self.locator_of(arguments)
        here, count = cluster_snapshot.here, cluster_snapshot.queue_count
        if not quorum:
            candidates = load.candidates(locator != CLIENT_LOCAL)
            home = choose_home(candidates, here, locator, count, self._random)
            load.took(home)
            name = cluster_snapshot.name_of(home)
            first = self.first_mirrors
            copies = b"x-non-destructive" in command.arguments
            if first is None or copies or not command.durable:
                return replace(command, node=name)
            mirrors = first(command.vhost, command.name, home)
            if mirrors is not None:
                name = cluster_snapshot.name_of(mirrors.members[0])
            return replace(command, node=name, mirrors=mirrors)
        size = self._size_of(kind, arguments)
        is_chosen = size < len(cluster_snapshot.members())
        candidates = load.candidates(is_chosen or locator != CLIENT_LOCAL)
        choice = choose_members(
            candidates, size, here, locator, count, self._random, placement_tag(arguments)
        )
        load.took(choice.members[0], choice.members)
        self._warn(choice.warning)
        leader = cluster_snapshot.name_of(choice.members[0])
        return replace(command, node=leader, members=choice.members)

    def locator_of(self, arguments: Mapping[str, object]) -> str:
        for key in (LOCATOR, OLD_LOCATOR):
            found = arguments.get(key)
            if isinstance(found, str):
                return found
        return self._locator

    def _size_of(self, kind: str, arguments: Mapping[str, object]) -> int:
        """Members of a new queue; of a stream that says nothing all nodes, as in RabbitMQ."""
        absent = len(self._cluster_snapshot.members()) if kind == STREAM else self._group_size
        wanted = initial_size(kind, arguments) or absent
        return max(1, min(wanted, len(self._cluster_snapshot.members())))  # The machine refuses 0.

    def _warn(self, text: str) -> None:
        if text and text not in self._warned and len(self._warned) < WARNINGS_MAX:
            self._warned.add(text)
            log.warning("a new quorum queue: %s", text)


def initial_size(kind: str, arguments: Mapping[str, object]) -> int:
    """The members that the declaration asked for; 0: it left that to the cluster."""
    size = arguments.get(STREAM_SIZE if kind == STREAM else INITIAL_SIZE)
    return int(size) if isinstance(size, int) else 0


class Load:
    """What the nodes bear, with what was placed since it was looked at. Counted only when that is
    needed, and only as long as there are few queues."""

    def __init__(self, cluster_snapshot: ClusterSnapshot) -> None:
        self._cluster_snapshot = cluster_snapshot
        self._counted: list[Candidate] = []

    def candidates(self, counted: bool) -> Sequence[Candidate]:
        if not counted or self._cluster_snapshot.queue_count > QUEUES_COUNTED_MAX:
            return self._cluster_snapshot.candidates()
        if not self._counted:
            self._counted = self._cluster_snapshot.candidates(counted=True)
        return self._counted

    def took(self, leader: int, members: tuple[int, ...] = ()) -> None:
        """A queue was placed there."""
        self._counted = [
            replace(
                each,
                leader_count=each.leader_count + (each.id == leader),
                member_count=each.member_count + (each.id in members),
            )
            for each in self._counted
        ]

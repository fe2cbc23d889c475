"""The queues of the cluster as sessions of this node use them: where each is, and whether served.

`host(uid)` gives a session what it publishes to and consumes from: the host on this node, the proxy
of a queue of another node or of the leader of a log group, or a host that refuses all, where the
log does not hold the queue whole. `hosts` are the queues of this node that are in use.
"""

from collections.abc import Callable, Container
from typing import Protocol

from node.cluster.queues.unknown_host import UnknownHost
from node.connections.direct_reply_to import ANSWERS_FROM, DirectReplies
from node.definitions.effective_rules import EffectiveRules
from node.definitions.queue_hosts import QueueHosts
from node.recovery.damage import Damages
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.queue_arguments import QUORUM, STREAM, queue_type
from queues.definitions.queue_options import EXPIRES
from queues.hosts.quorum_member import QuorumMember
from queues.queue_host import QueueHost
from queues.remote.proxy import Proxy
from warren.wire.errors import ProtocolError, ReplyCode, Scope


class RemoteQueues(Protocol):
    """Classic queues of other nodes (`node.cluster.queues.queues_channel`)."""

    def is_down(self, member: int) -> bool: ...

    def is_refusing(self, member: int) -> bool: ...

    def known(self, member: int, uid: int) -> Proxy | None: ...

    def proxy(
        self, member: int, uid: int, vhost: str, name: str, quorum: bool, single_active: bool
    ) -> Proxy: ...

    def unserved(self, uid: int, vhost: str, name: str) -> Proxy: ...

    def serve_again(self) -> None: ...

    def remove(self, uid: int) -> None: ...


class GroupedQueues(Protocol):
    """Queues with a log group (`node.cluster.queues.quorum_channel`)."""

    @property
    def members(self) -> Container[int]:
        """Uids of those with a member on this node."""

    def host(self, queue: Queue) -> QueueHost: ...

    def earlier(self, uid: int) -> QueueHost | None: ...

    def quorum(self, uid: int) -> QuorumMember | None: ...

    def is_found(self, uid: int) -> bool: ...

    def add(self, queue: Queue) -> None: ...

    def changed(self, queue: Queue) -> None: ...

    def remove(self, queue: Queue) -> None: ...

    def accept_damage(self, queue: Queue, done: Callable[[], None]) -> None: ...


class QueueRegistry:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        metadata: Metadata,
        node_name: str,
        member: int,
        hosts: QueueHosts,
        damages: Damages,
        rules: EffectiveRules,
        remote: RemoteQueues,
        grouped: GroupedQueues,
        answers: DirectReplies,
    ) -> None:
        """`member`: id of this node."""
        self.hosts = hosts
        self.damages = damages
        self._metadata = metadata
        self._node_name = node_name
        self._member = member
        self._rules = rules
        self._remote = remote
        self._grouped = grouped
        self._answers = answers
        self._paused_because = ""
        self._forgotten_count = 0

    def version(self) -> int:
        """Return another number whenever what was looked up in the definitions or of queues may
        hold no more."""
        return self._metadata.version + self._forgotten_count

    def forget_lookups(self) -> None:
        """A node is down, or back, or another process; or very many definitions have changed."""
        self._forgotten_count += 1

    # Where queues are

    def host(self, uid: int) -> QueueHost:
        """The queue as sessions see it."""
        crashed = self.damages.hosts.get(uid)
        if crashed is not None:
            return crashed
        queue = self._metadata.queue(uid)
        if self._paused_because and queue is not None and self._is_withheld(queue):
            return self._remote.unserved(uid, queue.vhost, queue.name)
        if queue is not None and queue.holders:
            return self._grouped.host(queue)
        if queue is not None and queue.mirrors is not None:  # It had mirrors.
            earlier = self._grouped.earlier(uid)
            if earlier is not None:
                return earlier
        if queue is not None and not self.is_home(queue):
            return self.proxy(queue)
        return self.hosts[uid]

    def proxy(self, queue: Queue) -> Proxy:
        """A queue of another node."""
        home = self.home_of(queue)
        known = self._remote.known(home, queue.uid)
        if known is not None:
            return known
        single = self._rules.rules_of(queue).options.single_active
        return self._remote.proxy(home, queue.uid, queue.vhost, queue.name, False, single)

    def host_for_stub(self, uid: int) -> QueueHost | None:
        """A queue of this node, for a session of another; None: it was deleted."""
        if uid >= ANSWERS_FROM:
            return self._answers.of_uid(uid)
        queue = self._metadata.queue(uid)
        if queue is None and uid < self._metadata.next_uid:
            return None
        if queue is None or not (queue.holders or self.is_home(queue)):
            return UnknownHost(uid)  # Not known here yet.
        return self.host(uid)

    def is_home(self, queue: Queue) -> bool:
        """Whether it is on this node: home of a classic queue, member of a quorum queue."""
        if queue.holders:
            return self._member in queue.holders
        return queue.node == self._node_name

    def has_group(self, uid: int) -> bool:
        """Whether the queue has a log group, on whatever nodes."""
        queue = self._metadata.queue(uid)
        return queue is not None and len(queue.holders) > 0

    def home_of(self, queue: Queue) -> int:
        """Member id of the home of a classic queue; 0: that node is a member no more."""
        member = self._metadata.roster.named(queue.node)
        return 0 if member is None else member.id

    def home_of_classic(self, uid: int) -> int | None:
        """See `node.cluster.queues.leader_table.HomeOf`."""
        queue = self._metadata.queue(uid)
        return None if queue is None or queue.holders else self.home_of(queue)

    def is_at_rest(self, uid: int) -> bool:
        """Whether the queue is unused and it has no message, as far as that is known here."""
        if uid in self.hosts.awake or uid in self._grouped.members:
            return False
        queue = self._metadata.queue(uid)
        return queue is None or self.is_home(queue)

    # Whether they are served

    @property
    def paused_because(self) -> str:
        """Why classic and mirrored queues are not served; '': they are."""
        return self._paused_because

    def pause(self, reason: str) -> None:
        """Serve no classic and no mirrored queue, or all again if there is no reason."""
        self._paused_because = reason
        self.forget_lookups()
        if not reason:
            self._remote.serve_again()

    def is_withheld(self, uid: int) -> bool:
        """Whether a node that pauses does not serve the queue."""
        queue = self._metadata.queue(uid)
        return queue is not None and self._is_withheld(queue)

    def _is_withheld(self, queue: Queue) -> bool:
        if queue.exclusive or queue.members:
            return False
        return queue_type(self._rules.arguments_of(queue)) not in (QUORUM, STREAM)

    def is_down(self, queue: Queue) -> bool:
        """Whether it is a classic queue of another node that cannot be reached, or where no host
        listens now, or is not served because this node pauses."""
        if self._paused_because and self._is_withheld(queue):
            return True
        if queue.holders or self.is_home(queue):
            return False
        home = self.home_of(queue)
        return self._remote.is_down(home) or self._remote.is_refusing(home)

    def is_lost(self, uid: int) -> bool:
        """The same, by uid."""
        queue = self._metadata.queue(uid)
        return queue is not None and self.is_down(queue)

    def check_served(self, queue: Queue) -> None:
        """Raise 404 for a queue that the log does not hold whole, or whose home is down."""
        crashed = self.damages.hosts.get(queue.uid)
        if crashed is not None:
            raise crashed.error()
        if self.is_down(queue):
            raise self._down_error(queue)

    def gone_error(self, host: QueueHost) -> ProtocolError:
        """Why a queue cannot be used that was gone before it has answered: deleted, or down."""
        queue = self._metadata.queue(host.uid)
        if queue is not None and self.is_down(queue):
            return self._down_error(queue)
        text = f"no queue '{host.name}' in vhost '{host.vhost}'"
        return ProtocolError(ReplyCode.NOT_FOUND, text, Scope.CHANNEL)

    def _down_error(self, queue: Queue) -> ProtocolError:
        """The error of RabbitMQ, unless this node pauses."""
        place = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        if self._paused_because:
            text = f"{place} is not served by this node: {self._paused_because}"
            return ProtocolError(ReplyCode.NOT_FOUND, text, Scope.CHANNEL)
        text = f"home node '{queue.node}' of durable {place} is down or inaccessible"
        return ProtocolError(ReplyCode.NOT_FOUND, text)

    # Definitions have changed

    def added(self, queue: Queue) -> None:
        """Give the queue a host now if it has something to do unasked: its log, or the time."""
        if not self.is_home(queue):
            return
        arguments = self._rules.arguments_of(queue)
        is_grouped = queue_type(arguments) in (QUORUM, STREAM) or queue.holders
        if is_grouped or self._grouped.is_found(queue.uid):
            self._grouped.add(queue)
        elif EXPIRES in arguments and queue.uid not in self.hosts.awake:
            self.hosts.add(queue)

    def changed(self, queue: Queue) -> None:
        self._grouped.changed(queue)

    def removed(self, queue: Queue) -> int | None:
        """The queue is deleted: return how many messages were ready, None if it was elsewhere."""
        self.damages.remove(queue.uid)
        self._grouped.remove(queue)
        self._remote.remove(queue.uid)
        return self.hosts.remove(queue) if self.is_home(queue) else None

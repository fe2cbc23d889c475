"""What the metrics read of the broker beside `node.management.rows.view`: samples of one object
each.

Names are handed out in whole, and each object one by one, so that a scrape of very many is made in
slices. Read on the loop; nothing here waits, counts, or keeps anything between two calls.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from node.management.rows.view import HistogramView
from queues.addresses.limits import AddressLimits


class QueueSample(Struct, frozen=True):
    """A queue that this node leads, or has. Counts are since it was made or the node started."""

    uid: int
    vhost: str
    name: str
    type: str
    is_crashed: bool = False
    ready: int = 0
    unacked: int = 0
    bytes: int = 0
    unacked_bytes: int = 0
    ram: int = 0
    ram_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    paged_out: int = 0
    paged_out_bytes: int = 0
    consumers: int = 0
    capacity: float = 0.0
    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    head_seq: int = 0  # number of its oldest message; 0: it has none
    next_seq: int = 1  # that the next one gets


class MemberSample(Struct, frozen=True):
    """This node's member of a quorum queue's log group."""

    vhost: str
    queue: str
    is_leader: bool
    term: int
    snapshot_index: int
    applied_index: int
    commit_index: int
    written_index: int


class ChannelSample(Struct, frozen=True):
    """A channel, or a session of AMQP 1.0."""

    connection: str
    channel: int
    protocol: str
    consumers: int = 0
    prefetch: int = 0
    unacked: int = 0
    unconfirmed: int = 0
    uncommitted: int = 0
    acks_uncommitted: int = 0
    published: int = 0
    confirmed: int = 0
    returned: int = 0
    dropped: int = 0
    got: int = 0
    got_no_ack: int = 0
    get_empty: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    redelivered: int = 0
    acked: int = 0


class TrafficView(Struct, frozen=True):
    """What the node as a whole has done since it started."""

    handed_bytes: int = 0  # of messages given to queues, once for each of them
    away_bytes: int = 0  # the part of it for queues that another node leads
    letters: int = 0  # events and copies of traced messages that found a queue
    letters_dropped: int = 0  # too many at a time
    redelivered: int = 0
    delivered: int = 0
    sizes: Mapping[str, HistogramView] = field(default_factory=dict)  # by protocol; bytes
    confirms: Mapping[str, HistogramView] = field(default_factory=dict)  # by queue type; seconds


class RaftView(Struct, frozen=True):
    """The log groups of the node: `counters` by the name that the metric has, since the start."""

    groups: int = 0
    hibernating: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)


class WaitView(Struct, frozen=True):
    """How long actors of one kind were held back by those of another."""

    held_back: str
    by: str
    seconds: float
    times: int


class EdgeView(Struct, frozen=True):
    """Who is, or was, held back by whom, on this node."""

    kind: str
    name: str
    by_kind: str
    by_name: str
    now_s: float | None  # held back for so long by now; None: not now
    seconds: float  # with that
    times: int
    reason: str


class AddressView(Struct, frozen=True):
    """An address with limits. Counts are of publishers of this node."""

    vhost: str
    kind: str
    name: str
    limits: AddressLimits
    is_full: bool
    size_bytes: int
    size_count: int
    queue_count: int
    blocked_publishers: int
    blocked_times: int
    refused_count: int
    dropped_count: int
    over_bytes: int  # the most above its limit
    granted_credit: int  # messages that links of AMQP 1.0 may still send to it
    granted_bytes: int  # the same in bytes, of links whose clients count them


class MetricsView(Protocol):
    """See the module."""

    def queues(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        """Uids of the queues that this node leads or has, of those vhosts (None: of all)."""

    def queue(self, uid: int) -> QueueSample | None:
        """None: it is gone."""

    def members(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        """Uids of the quorum queues that have a member here."""

    def member(self, uid: int) -> MemberSample | None: ...

    def channels(self) -> Sequence[ChannelSample]: ...

    def traffic(self) -> TrafficView: ...

    def raft(self) -> RaftView: ...

    def waits(self) -> Sequence[WaitView]: ...

    def edges(self) -> Sequence[EdgeView]:
        """Single actors; those that were held back and are no more as far as they are kept."""

    def addresses(self, every: bool = False) -> Sequence[AddressView]:
        """Those with limits that messages were published to; `every`: the others, too."""


class Unmetered:
    """Keeps `MetricsView` where there is no broker to be read: nothing is reported."""

    def queues(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        return ()

    def queue(self, uid: int) -> QueueSample | None:
        return None

    def members(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        return ()

    def member(self, uid: int) -> MemberSample | None:
        return None

    def channels(self) -> Sequence[ChannelSample]:
        return ()

    def traffic(self) -> TrafficView:
        return TrafficView()

    def raft(self) -> RaftView:
        return RaftView()

    def waits(self) -> Sequence[WaitView]:
        return ()

    def edges(self) -> Sequence[EdgeView]:
        return ()

    def addresses(self, every: bool = False) -> Sequence[AddressView]:
        return ()

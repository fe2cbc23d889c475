"""Samples for metrics tests: keeps `node.management.metrics.view.MetricsView`, all in tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from node.management.metrics.view import (
    AddressView,
    ChannelSample,
    EdgeView,
    MemberSample,
    QueueSample,
    RaftView,
    TrafficView,
    WaitView,
)


@dataclass
class FakeMeter:
    """Whatever is put into it."""

    all_queues: dict[int, QueueSample] = field(default_factory=dict)
    all_members: dict[int, MemberSample] = field(default_factory=dict)
    all_channels: list[ChannelSample] = field(default_factory=list)
    the_traffic: TrafficView = field(default_factory=TrafficView)
    the_raft: RaftView = field(default_factory=RaftView)
    the_waits: list[WaitView] = field(default_factory=list)
    the_edges: list[EdgeView] = field(default_factory=list)
    the_addresses: list[AddressView] = field(default_factory=list)

    def queues(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        rows = self.all_queues.items()
        return [uid for uid, each in rows if vhosts is None or each.vhost in vhosts]

    def queue(self, uid: int) -> QueueSample | None:
        return self.all_queues.get(uid)

    def members(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        rows = self.all_members.items()
        return [uid for uid, each in rows if vhosts is None or each.vhost in vhosts]

    def member(self, uid: int) -> MemberSample | None:
        return self.all_members.get(uid)

    def channels(self) -> Sequence[ChannelSample]:
        return self.all_channels

    def traffic(self) -> TrafficView:
        return self.the_traffic

    def raft(self) -> RaftView:
        return self.the_raft

    def waits(self) -> Sequence[WaitView]:
        return self.the_waits

    def edges(self) -> Sequence[EdgeView]:
        return self.the_edges

    def addresses(self, every: bool = False) -> Sequence[AddressView]:
        return self.the_addresses

"""The next view of a mirrored queue, from the present one and what is known of its nodes.

One change at a time: each view is a command of the definitions, made from the view that the
proposer saw, and refused if another one came first.
"""

from collections.abc import Collection

from msgspec import Struct

from queues.definitions.mirror_policy import Wanted
from raft.ring_view import RingView, successor


class LeaderReport(Struct, frozen=True):
    """What the leader of the present view says: a member to be declared synchronised or partial
    (0: none), and whether it needs a new term, for it has restarted."""

    synchronised: int = 0
    partial: int = 0
    needs_term: bool = False


def next_view(
    view: RingView,
    gone: Collection[int],
    wanted: Wanted,
    promotes_always: bool,
    report: LeaderReport | None,
) -> RingView | None:
    """The view to propose; None: the present one stays, or the queue is down until a member that
    may lead is back. `gone`: members whose nodes are down. `report` is None if the leader has not
    answered in this view."""
    epoch = view.epoch + 1
    missing = [member for member in view.members if member in gone]
    if view.leader in missing:
        leader = successor(view, missing, promotes_always)
        return view.led_by(leader, missing, epoch) if leader else None
    if missing:
        for member in missing:
            view = view.without(member, epoch)
        return view
    if report is not None:
        if report.needs_term:
            return view.led_by(view.leader, (), epoch)
        if report.synchronised and report.synchronised not in view.synchronised:
            return view.with_synchronised(report.synchronised, epoch)
        if report.partial and report.partial not in view.partial:
            return view.with_partial(report.partial, epoch)
    return _toward(view, gone, wanted)


def _toward(view: RingView, gone: Collection[int], wanted: Wanted) -> RingView | None:
    """One step to the members that the policy wants. New ones come before others leave."""
    epoch = view.epoch + 1
    for member in (wanted.leader, *wanted.mirrors):
        if member not in view.members and member not in gone:
            return view.with_mirror(member, epoch)
    if wanted.leader != view.leader and wanted.leader in view.synchronised:
        return view.led_by(wanted.leader, (), epoch)
    for member in view.members:
        if member != view.leader and member != wanted.leader and member not in wanted.mirrors:
            return view.without(member, epoch)
    return None

"""Nodes and quorum queues for tests of placement, made by hand or drawn by hypothesis."""

from hypothesis import strategies as st

from queues.definitions.members import Member
from queues.placement.queue_placement import Candidate
from queues.placement.regrouping import GroupView


def node(
    number: int,
    host: str = "",
    zone: str = "",
    *,
    draining: bool = False,
    running: bool = True,
    members: int = 0,
    leaders: int = 0,
    tags: tuple[tuple[str, str], ...] = (),
) -> Candidate:
    member = Member(
        number, f"rabbit@{number}", number, "127.0.0.1", 25000 + number, host, zone,
        draining=draining, tags=tags,
    )  # fmt: skip
    return Candidate(member, running, members, leaders)


def group(
    uid: int, members: tuple[int, ...], leader: int = 0, down: tuple[int, ...] = ()
) -> GroupView:
    online = frozenset(members) - set(down)
    return GroupView(uid, "/", f"q{uid}", members, online, leader)


@st.composite
def clusters(draw: st.DrawFn, size_max: int = 7) -> list[Candidate]:
    """Up to so many nodes on few machines and zones, some of them down or drained."""
    count = draw(st.integers(1, size_max))
    return [
        node(
            number,
            draw(st.sampled_from(("", "a", "b", "c"))),
            draw(st.sampled_from(("", "x", "y"))),
            draining=draw(st.integers(0, 4)) == 0,
            running=draw(st.integers(0, 4)) > 0,
            members=draw(st.integers(0, 5)),
            leaders=draw(st.integers(0, 5)),
        )
        for number in range(1, count + 1)
    ]


@st.composite
def groups_on(draw: st.DrawFn, nodes: list[Candidate], count_max: int = 30) -> list[GroupView]:
    """Queues with members on these nodes and, now and then, on one that is there no more."""
    running = {each.id for each in nodes if each.is_running}
    known = [each.id for each in nodes] + [100]
    made = []
    for uid in range(16, 16 + draw(st.integers(0, count_max))):
        members = tuple(draw(st.lists(st.sampled_from(known), min_size=1, max_size=5, unique=True)))
        online = frozenset(each for each in members if each in running and draw(st.integers(0, 3)))
        leader = draw(st.sampled_from([0, *sorted(online)]))
        made.append(GroupView(uid, "/", f"q{uid}", members, online, leader))
    return made

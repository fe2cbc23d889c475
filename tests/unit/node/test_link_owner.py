"""Which node runs which slot of links, while members come, drain and die."""

from node.cluster.coordination.coordination_interface import Holding, Load, OnHeld
from node.federating.link_owner import JOB, SLOTS, LinkOwner, Members, chosen, slot_of


class Jobs:
    """Coordination in which a test says who holds what."""

    def __init__(self) -> None:
        self.is_running = True
        self.holders: dict[str, int] = {}
        self.claims: dict[str, OnHeld] = {}

    def claim(self, job: str, told: OnHeld) -> None:
        assert job not in self.claims
        self.claims[job] = told

    def release(self, job: str) -> None:
        del self.claims[job]

    def holder(self, job: str) -> Holding | None:
        member = self.holders.get(job)
        return None if member is None else Holding(member, 7)

    def loads(self) -> dict[int, Load]:
        return {}


class World:
    """Three members, of which this is number 1."""

    def __init__(self, members: tuple[int, ...] = (1, 2, 3)) -> None:
        self.jobs = Jobs()
        self.view = Members(1, members, frozenset(members), False)
        self.owner = LinkOwner(self.jobs, lambda: self.view)

    def alive(self, *members: int, leads: bool = False) -> None:
        self.view = Members(1, self.view.members, frozenset(members), leads)

    def hold(self, slot: int, member: int) -> None:
        self.jobs.holders[JOB.format(slot)] = member


MINE = next(slot for slot in range(SLOTS) if chosen(slot, (1, 2, 3)) == 1)
OTHER = next(
    slot for slot in range(SLOTS) if chosen(slot, (1, 2, 3)) == 2 and chosen(slot, (1, 3)) == 1
)


def test_a_slot_is_claimed_by_the_chosen_node_and_runs_once_it_is_held() -> None:
    world = World()
    assert world.owner.decide({MINE, OTHER}) == frozenset()
    assert set(world.jobs.claims) == {JOB.format(MINE)}
    world.hold(MINE, 1)
    assert world.owner.decide({MINE, OTHER}) == {MINE}
    world.jobs.claims[JOB.format(MINE)](9)
    assert world.owner.fencing(MINE) == 9
    assert world.owner.decide(set()) == frozenset()
    assert not world.jobs.claims


def test_the_slots_of_a_dead_or_draining_holder_move_at_once() -> None:
    world = World()
    world.hold(OTHER, 2)
    assert world.owner.decide({OTHER}) == frozenset()
    world.alive(1, 3)
    assert world.owner.decide({OTHER}) == {OTHER}
    assert set(world.jobs.claims) == {JOB.format(OTHER)}
    world.alive(1, 2, 3)
    assert world.owner.decide({OTHER}) == frozenset()


def test_a_node_that_drains_gives_up_what_it_holds() -> None:
    world = World()
    world.hold(MINE, 1)
    assert world.owner.decide({MINE}) == {MINE}
    world.alive(2, 3)
    assert world.owner.decide({MINE}) == frozenset()
    assert not world.jobs.claims


def test_a_holder_keeps_its_slot_when_another_node_returns() -> None:
    world = World()
    world.alive(1, 3)
    world.hold(OTHER, 1)
    assert world.owner.decide({OTHER}) == {OTHER}
    world.alive(1, 2, 3)
    assert world.owner.decide({OTHER}) == {OTHER}


def test_without_a_quorum_links_stay_where_they_are() -> None:
    world = World()
    world.hold(MINE, 1)
    world.owner.decide({MINE})
    world.jobs.is_running = False
    world.alive(1, leads=True)
    assert world.owner.decide({MINE, OTHER}) == {MINE}


def test_without_coordination_the_leader_of_the_definitions_runs_all() -> None:
    world = World()
    world.jobs.is_running = False
    assert world.owner.decide({MINE, OTHER}) == frozenset()
    world.alive(1, 2, 3, leads=True)
    assert world.owner.decide({MINE, OTHER}) == {MINE, OTHER}


def test_a_node_alone_runs_all_links() -> None:
    assert World((1,)).owner.decide({MINE, OTHER}) == {MINE, OTHER}


def test_links_spread_over_slots_and_slots_over_members() -> None:
    slots = {slot_of(f"shovel/v/{number}") for number in range(1000)}
    assert slots == set(range(SLOTS))
    counts = [
        sum(chosen(slot, (1, 2, 3)) == member for slot in range(SLOTS)) for member in (1, 2, 3)
    ]
    assert min(counts) > SLOTS // 6


def test_a_node_without_links_does_not_look_at_the_cluster() -> None:
    looks: list[int] = []

    def look() -> Members:
        looks.append(1)
        return Members(1, (1,), frozenset((1,)), True)

    owner = LinkOwner(Jobs(), look)
    assert owner.decide(()) == frozenset()
    assert looks == []
    assert owner.decide({MINE}) == {MINE}
    assert owner.decide(()) == frozenset(), "what it had claimed is released"
    assert looks == [1, 1]
    assert owner.decide(()) == frozenset()
    assert looks == [1, 1]

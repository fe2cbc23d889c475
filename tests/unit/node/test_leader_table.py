"""Who leads what: told to all others at once, forgotten with the link, never by a lower term."""

import pytest

from node.cluster.cluster_interfaces import CONTROL_LANE, LEADERS
from node.cluster.queues.leader_table import ROW, ROWS_MAX, Leader, Leaders
from queues.remote.remote_interfaces import Ending
from tests.unit.node.peer_net import PeerNet
from warren.wire.peer.codes import PeerFault

CLASSIC = 40  # uid of a classic queue, at home on node 2


class Ends:
    """The end of a node's turn (`queues.remote.remote_interfaces.EndOfTurn`)."""

    def __init__(self) -> None:
        self.marked: list[Ending] = []

    def mark_away(self, ending: Ending) -> None:
        self.marked.append(ending)

    def run(self) -> None:
        marked, self.marked = self.marked, []
        for each in marked:
            each.end_turn()


class World:
    """Three nodes."""

    def __init__(self) -> None:
        self.net = PeerNet()
        self.ends = {member: Ends() for member in (1, 2, 3)}
        self.leaders: dict[int, Leaders] = {}
        for member in self.ends:
            self.begin(member)

    def begin(self, member: int) -> None:
        """A process of that node."""
        peers = self.net.add(member)
        leaders = Leaders(peers, self.ends[member], {CLASSIC: 2}.get)
        peers.attach(LEADERS, leaders)
        self.leaders[member] = leaders

    def turn(self) -> None:
        for ends in self.ends.values():
            ends.run()
        self.net.pass_all()

    def seen(self, uid: int) -> list[Leader | None]:
        return [self.leaders[member].leader_of(uid) for member in (1, 2, 3)]


def test_nobody_leads_a_group_that_nobody_has_heard_of() -> None:
    world = World()
    world.net.join_all()
    world.turn()
    assert world.seen(7) == [None, None, None]


def test_a_new_leader_is_known_to_all_after_one_turn() -> None:
    world = World()
    world.net.join_all()
    world.turn()
    world.leaders[1].lead(7, 3)
    assert world.seen(7) == [(1, 3), None, None]
    world.turn()
    assert world.seen(7) == [(1, 3)] * 3
    world.leaders[1].unlead(7)
    world.turn()
    assert world.seen(7) == [None] * 3


def test_a_link_that_comes_up_brings_what_was_said_before() -> None:
    world = World()
    for uid in range(ROWS_MAX + 10):
        world.leaders[1].lead(100 + uid, 1)
    world.turn()
    world.net.join(1, 2)
    sizes = [len(payload) for _, payload in world.net.under_way[1, 2]]
    assert sizes == [1 + ROWS_MAX * ROW.size, 1 + 10 * ROW.size]
    world.turn()
    assert world.leaders[2].count_of(1) == ROWS_MAX + 10
    assert world.leaders[2].leader_of(100 + ROWS_MAX) == (1, 1)
    assert world.leaders[3].leader_of(100) is None


def test_whom_nobody_can_reach_leads_nothing_until_the_link_is_back() -> None:
    world = World()
    world.net.join_all()
    world.leaders[1].lead(7, 3)
    world.turn()
    world.net.cut(1, 2)
    assert world.seen(7) == [(1, 3), None, (1, 3)]
    world.net.join(1, 2)
    world.turn()
    assert world.seen(7) == [(1, 3)] * 3


def test_a_lower_term_does_not_count_once_a_higher_one_was_heard_of() -> None:
    world = World()
    world.net.join_all()
    world.leaders[1].lead(7, 3)
    world.turn()
    world.leaders[2].lead(7, 4)
    world.turn()
    assert world.seen(7) == [(2, 4)] * 3
    world.net.cut(2, 3)
    assert world.leaders[3].leader_of(7) is None
    world.leaders[1].lead(7, 3)
    world.turn()
    assert world.leaders[3].leader_of(7) is None


def test_a_process_that_begins_anew_has_led_nothing() -> None:
    world = World()
    world.net.join_all()
    world.leaders[1].lead(7, 3)
    world.turn()
    world.net.kill(1)
    world.begin(1)
    world.net.join_all()
    world.turn()
    assert world.seen(7) == [None] * 3


def test_watchers_hear_of_each_change_and_of_nothing_else() -> None:
    world = World()
    world.net.join_all()
    told: list[Leader | None] = []
    world.leaders[3].watch(7, told.append)
    world.leaders[1].lead(7, 3)
    world.leaders[1].lead(8, 3)
    world.turn()
    world.leaders[1].lead(7, 3)
    world.turn()
    world.leaders[2].lead(7, 5)
    world.turn()
    world.net.cut(2, 3)
    assert told == [(1, 3), (2, 5), None]
    world.leaders[3].unwatch(7, told.append)
    world.net.join(2, 3)
    world.turn()
    assert told == [(1, 3), (2, 5), None]


def test_a_classic_queue_is_led_by_its_home_while_that_can_be_reached() -> None:
    world = World()
    told: list[Leader | None] = []
    world.leaders[1].watch(CLASSIC, told.append)
    assert world.seen(CLASSIC) == [None, (2, 0), None]
    world.net.join(1, 2)
    assert world.seen(CLASSIC) == [(2, 0), (2, 0), None]
    world.net.cut(1, 2)
    assert told == [(2, 0), None]


def test_a_deleted_queue_is_forgotten() -> None:
    world = World()
    world.net.join_all()
    world.leaders[1].lead(7, 3)
    world.turn()
    world.leaders[3].forget(7)
    world.leaders[1].forget(7)
    world.turn()
    assert world.seen(7) == [None] * 3
    assert world.leaders[1].led_here() == {}


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x03", b"\x01" + bytes(15), b"\x02\x01"])
def test_what_makes_no_sense_ends_the_link(payload: bytes) -> None:
    world = World()
    world.net.join_all()
    with pytest.raises(PeerFault):
        world.leaders[1].peer_received(2, memoryview(payload))
    world.net.nodes[2].send(1, LEADERS, CONTROL_LANE, [payload])
    world.net.pass_all()
    assert not world.net.nodes[1].is_connected(2)


def test_frames_have_these_bytes() -> None:
    world = World()
    world.leaders[1].lead(0x0102, 3)
    world.net.join(1, 2)
    world.leaders[1].unlead(0x0102)
    world.ends[1].run()
    assert [payload.hex() for _, payload in world.net.under_way[1, 2]] == [
        "0102010000000000000300000000000000",
        "0202010000000000000000000000000000",
    ]


def test_a_node_says_that_it_leads_what_was_led_before_and_says_it_once() -> None:
    world = World()
    led: dict[int, list[tuple[int, int]]] = {member: [] for member in world.leaders}
    for member, leaders in world.leaders.items():
        leaders.on_lead = lambda uid, term, member=member: led[member].append((uid, term))
    world.net.join_all()
    world.leaders[1].lead(7, 1)  # The first leader that any node hears of.
    world.turn()
    assert led == {1: [], 2: [], 3: []}
    world.leaders[2].lead(7, 2)
    world.leaders[2].lead(7, 2)
    world.turn()
    world.leaders[2].unlead(7)
    world.turn()
    world.leaders[3].lead(7, 5)
    world.turn()
    assert led == {1: [], 2: [(7, 2)], 3: [(7, 5)]}


def test_a_group_that_has_begun_anew_is_led_by_nobody_of_before() -> None:
    world = World()
    world.net.join_all()
    world.leaders[1].lead(7, 3)
    world.turn()
    heard: list[Leader | None] = []
    world.leaders[2].watch(7, heard.append)
    world.leaders[2].expect(7, 70_000)
    assert (heard, world.leaders[2].leader_of(7), world.leaders[2].term_of(7)) == (
        [None],
        None,
        70_000,
    )
    world.leaders[1].lead(7, 4)
    world.turn()
    assert world.seen(7) == [(1, 4), None, (1, 4)]
    world.leaders[3].lead(7, 70_001)
    world.turn()
    assert world.seen(7) == [(3, 70_001)] * 3
    world.leaders[2].expect(7, 70_000)
    assert world.seen(7) == [(3, 70_001)] * 3
    assert world.leaders[2].term_of(8) == 0


def test_what_the_control_connection_had_no_room_for_is_told_again() -> None:
    """As it is by then, and without a moment without a leader."""
    world = World()
    world.net.join_all()
    world.leaders[1].lead(6, 1)
    world.turn()
    told: list[Leader | None] = []
    world.leaders[2].watch(6, told.append)
    world.net.room = 0
    world.leaders[1].lead(7, 3)
    world.leaders[1].lead(8, 3)
    world.ends[1].run()
    world.leaders[1].unlead(8)
    world.leaders[1].tick()
    world.ends[1].run()
    world.net.room = 1
    world.turn()
    assert world.seen(7) == [(1, 3), None, None]
    world.leaders[1].tick()
    world.turn()
    assert world.seen(7) == [(1, 3)] * 3
    assert world.seen(8) == [None] * 3
    world.leaders[1].tick()
    assert not any(world.net.under_way.values())
    assert told == []


def test_a_link_that_takes_one_frame_at_a_time_brings_all_in_the_end() -> None:
    world = World()
    world.net.room = 1
    for uid in range(2 * ROWS_MAX):
        world.leaders[1].lead(100 + uid, 1)
    world.net.join(1, 2)
    world.turn()
    assert world.leaders[2].count_of(1) == ROWS_MAX
    world.leaders[1].tick()
    world.turn()
    assert world.leaders[2].count_of(1) == 2 * ROWS_MAX

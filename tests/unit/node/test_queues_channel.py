"""Queues in use across nodes, while links break, fill up, and processes end."""

import random

import pytest

from node.cluster.cluster_interfaces import QUEUES, QUEUES_LANE
from node.cluster.queues.queues_channel import DOWN_AFTER_MS
from queues.machine.commands import ACCEPT, Attach, EndSession, Get, Inspect, Settle, consumer_key
from tests.unit.node.away_world import LATER, AwayWorld
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import body_of, chunk_of
from warren.wire.peer.handshake import MOVING_VERSION
from warren.wire.peer.stream import UNACKED_BYTES_MAX

UID = 20  # of a queue at home on node 2
TWO = {1: [10], 2: [20]}


def attach(sink: FakeSink, credit: int = 10) -> Attach:
    return Attach(consumer_key(sink.session, 1), credit, True, False, 0)


def test_a_queue_of_another_node_is_used_like_one_of_this() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a", b"b"]), 1)
    world.settle()
    assert sink.take() == [("confirms", UID, 2)]
    proxy.command(sink, attach(sink))
    world.settle()
    assert sink.take() == [("attached", UID, 1), ("delivers", UID, 1, 1, 1, 2, False)]
    view = proxy.view(sink, 1, 1)
    assert view is not None
    assert body_of(view.chunk, view.index) == b"a"
    proxy.command(sink, Settle(consumer_key(sink.session, 1), ACCEPT, [(1, 2)]))
    world.settle()
    assert world.nodes[2].hosts[UID].checked_out_count == 0


def test_nothing_is_handed_to_a_node_before_its_queues_are_there() -> None:
    world = AwayWorld(TWO, is_open=False)
    world.nodes[1].part.open()
    sink = FakeSink()
    world.proxy(1, UID).publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    assert (world.ready(UID), sink.take()) == (0, [])
    world.nodes[2].part.open()
    world.settle()
    assert (world.ready(UID), sink.take()) == (1, [("confirms", UID, 1)])


def test_a_node_with_an_older_peer_link_is_not_asked_to_hand_sessions_over() -> None:
    world = AwayWorld(TWO)
    proxies = world.nodes[1].part.all_peer_queues[2].proxies
    assert proxies.hands_over
    world.net.version = MOVING_VERSION - 1
    world.net.join(1, 2)
    assert not proxies.hands_over


def test_a_link_that_breaks_is_nothing_but_latency() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.nodes[1].turn()
    world.net.cut(1, 2)
    proxy.publish(sink, chunk_of([b"b"]), 2)
    proxy.command(sink, attach(sink))
    world.wait(DOWN_AFTER_MS - 1000)
    assert sink.take() == []
    world.net.join(1, 2)
    world.settle()
    world.wait(DOWN_AFTER_MS)
    told = sink.take()
    assert ("attached", UID, 1) in told
    assert sink.confirmed[UID] == 2
    assert not [each for each in told if each[0] in ("gone", "refused")]
    assert world.nodes[2].hosts[UID].checked_out_count == 2


def test_a_node_that_stays_away_is_down_for_those_who_use_its_queues() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    proxy.command(sink, attach(sink))
    world.settle()
    sink.take()
    proxy.publish(sink, chunk_of([b"b", b"c"]), 2)
    world.net.cut(1, 2)
    world.wait()
    assert sink.take() == [("refused", UID, 2, 2), ("confirms", UID, 3), ("gone", UID)]
    assert world.nodes[1].part.is_down(2)
    assert world.nodes[1].changes == 1


def test_what_a_node_held_that_stays_away_is_ready_again() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    proxy.command(sink, attach(sink))
    world.settle()
    assert world.ready(UID) == 0
    world.net.cut(1, 2)
    world.wait()
    host = world.nodes[2].hosts[UID]
    assert (host.ready_count, host.consumer_count) == (1, 0)


def test_queues_of_a_node_that_is_down_refuse_publishes_and_are_gone_to_all_others() -> None:
    world = AwayWorld(TWO)
    world.net.cut(1, 2)
    world.wait()
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a", b"b"]), 1)
    assert sink.take() == []  # Never while it is handed down.
    world.settle()
    assert sink.take() == [("refused", UID, 1, 2), ("confirms", UID, 2), ("gone", UID)]
    for command in (attach(sink), Get(sink.session), Inspect(sink.session)):
        proxy.command(sink, command)
        world.settle()
        assert sink.take() == [("gone", UID)]
    proxy.command(sink, EndSession(sink.session))
    world.settle()
    assert sink.take() == []


def test_a_node_that_comes_back_is_used_again_by_the_same_sessions() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    world.net.cut(1, 2)
    world.wait()
    proxy.publish(sink, chunk_of([b"lost"]), 2)
    world.settle()
    sink.take()
    world.net.join(1, 2)
    world.settle()
    assert not world.nodes[1].part.is_down(2)
    assert world.nodes[1].changes == 2
    proxy.publish(sink, chunk_of([b"b"]), 1)
    world.settle()
    assert sink.take() == [("confirms", UID, 1)]
    assert world.ready(UID) == 2


def test_a_publish_beside_the_return_of_its_node_is_numbered_anew() -> None:
    world = AwayWorld(TWO)
    world.net.cut(1, 2)
    world.wait()
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)  # Refused, at the end of the turn,
    world.net.join(1, 2)
    world.net.pass_all()  # but the node is back before.
    assert sink.take() == [("refused", UID, 1, 1), ("confirms", UID, 1), ("gone", UID)]
    proxy.publish(sink, chunk_of([b"b"]), 1)
    world.settle()
    assert sink.take() == [("confirms", UID, 1)]
    assert world.ready(UID) == 1


def test_a_confirm_of_before_is_not_taken_for_one_of_now() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a", b"b", b"c"]), 1)
    while world.turn():
        pass  # It is there, and not durable.
    world.net.cut(1, 2)
    for _ in range(DOWN_AFTER_MS // 100):
        world.now_ms += 100
        for node in world.nodes.values():
            node.part.tick()
    world.net.join(1, 2)
    while world.turn():
        pass
    sink.take()
    proxy.publish(sink, chunk_of([b"d"]), 1)
    lost = world.nodes[2].fake
    world.nodes[1].turn()
    lost.sync()  # What came before is durable now.
    while world.turn():
        pass
    assert sink.take() == []
    lost.sync()
    world.settle()
    assert sink.take() == [("confirms", UID, 1)]


def test_a_process_that_begins_anew_has_lost_what_was_under_way_and_is_not_down() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    proxy.command(sink, attach(sink))
    world.net.kill(2)
    world.start(2)
    world.net.join(1, 2)
    world.settle()
    assert sink.take() == [("refused", UID, 1, 1), ("confirms", UID, 1), ("gone", UID)]
    assert not world.nodes[1].part.is_down(2)
    proxy.publish(sink, chunk_of([b"b"]), 1)
    world.settle()
    assert sink.take() == [("confirms", UID, 1)]


def test_a_node_that_is_started_and_has_not_its_queues_yet_is_down_after_a_while() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    world.net.kill(2)
    world.start(2, is_open=False)
    world.net.join(1, 2)
    world.wait()
    assert world.nodes[1].part.is_down(2)
    assert ("gone", UID) in sink.take()
    world.nodes[2].part.open()
    world.settle()
    assert not world.nodes[1].part.is_down(2)
    assert world.net.faults == []
    proxy.publish(sink, chunk_of([b"b"]), 1)
    world.settle()
    assert sink.take() == [("confirms", UID, 1)]


def test_when_one_end_has_given_up_the_other_hears_of_it_with_the_link() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    proxy.command(sink, attach(sink))
    world.settle()
    sink.take()
    world.net.cut(1, 2)
    world.now_ms += DOWN_AFTER_MS
    world.nodes[2].part.tick()  # The home alone.
    world.settle()
    assert sink.take() == []
    world.net.join(1, 2)
    world.settle()
    assert sink.take() == [("gone", UID)]
    host = world.nodes[2].hosts[UID]
    assert (host.ready_count, host.consumer_count) == (1, 0)


def test_a_node_that_was_removed_is_down_for_good() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.net.cut(1, 2)
    world.nodes[1].part.peer_removed(2)
    world.settle()
    assert sink.take() == [("refused", UID, 1, 1), ("confirms", UID, 1), ("gone", UID)]
    assert world.nodes[1].part.is_down(2)


def test_a_queue_whose_node_is_no_member_is_down() -> None:
    world = AwayWorld(TWO)
    sink = FakeSink()
    proxy = world.nodes[1].part.proxy(0, 99, "/", "q99", False, False)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    assert sink.take() == [("refused", 99, 1, 1), ("confirms", 99, 1), ("gone", 99)]


def test_a_queue_that_its_home_does_not_know_yet_refuses() -> None:
    world = AwayWorld(TWO)
    sink = FakeSink()
    proxy = world.nodes[1].part.proxy(2, LATER, "/", "new", False, False)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    assert sink.take() == [("refused", LATER, 1, 1), ("confirms", LATER, 1), ("gone", LATER)]


def test_a_deleted_queue_is_gone_and_takes_nothing_with_it() -> None:
    world = AwayWorld({1: [10], 2: [20, 21]})
    sink = FakeSink()
    proxy, other = world.proxy(1, 20), world.proxy(1, 21)
    other.publish(sink, chunk_of([b"a"]), 1)
    proxy.command(sink, attach(sink))
    world.settle()
    sink.take()
    world.nodes[2].hosts.pop(20).delete()
    world.settle()
    assert sink.take() == [("gone", 20)]
    world.nodes[1].part.remove(20)
    world.settle()
    assert sink.take() == []


def test_what_a_link_has_no_room_for_waits_until_it_has() -> None:
    world = AwayWorld(TWO)
    world.net.room = 2
    sink, proxy = FakeSink(), world.proxy(1, UID)
    for seq in range(1, 11):
        proxy.publish(sink, chunk_of([b"x"]), seq)
        world.nodes[1].turn()
    assert len(world.net.under_way[1, 2]) == 2
    while world.ready(UID) < 10:
        assert world.net.pass_all() > 0
        world.wait(100)
    assert sink.confirmed[UID] == 10
    assert world.net.faults == []


def test_a_stream_that_is_full_holds_up_those_who_publish_there_and_nobody_else() -> None:
    world = AwayWorld({1: [10], 2: [20], 3: [30]})
    there, elsewhere = FakeSink(1, 4), FakeSink(2, 4)
    large = chunk_of([b"x" * (1 << 20)])
    world.net.cut(1, 2)
    count = UNACKED_BYTES_MAX // large.size() + 2
    sinks = [FakeSink(10 + place) for place in range(count)]
    proxy = world.proxy(1, UID)
    for sink in sinks:
        proxy.publish(sink, large, 1)
        world.nodes[1].turn()
    assert proxy.credit.is_blocked()
    world.proxy(1, 30).publish(elsewhere, chunk_of([b"y"]), 1)
    world.settle()
    assert not world.proxy(1, 30).credit.is_blocked()
    assert elsewhere.take() == [("confirms", 30, 1)]
    world.net.join(1, 2)
    world.settle()
    assert not proxy.credit.is_blocked()
    assert world.ready(UID) == count
    proxy.publish(there, chunk_of([b"z"]), 1)
    world.settle()
    assert there.take() == [("confirms", UID, 1)]


def test_how_a_queue_stands_is_told_once_in_a_while() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a", b"b"]), 1)
    world.settle()
    assert proxy.ready_count == 0
    world.nodes[2].part.tell_counts()
    world.settle()
    assert proxy.ready_count == 2


def test_a_frame_that_makes_no_sense_ends_the_link() -> None:
    world = AwayWorld(TWO)
    world.net.nodes[2].send(1, QUEUES, QUEUES_LANE, [b"\x09what"])
    world.settle()
    assert not world.net.nodes[1].is_connected(2)
    assert len(world.net.faults) == 1


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_a_confirmed_message_is_there_and_sessions_can_go_on(seed: int) -> None:
    draw = random.Random(seed)
    world = AwayWorld(TWO)
    proxy, sink = world.proxy(1, UID), FakeSink()
    published = confirmed = safe = 0  # of the session as it is; of those before, what is safe
    refused: set[int] = set()

    def take_news() -> None:
        nonlocal published, confirmed, safe, refused
        for told in sink.take():
            if told[0] == "confirms":
                confirmed = int(str(told[2]))
            elif told[0] == "refused":
                first, count = int(str(told[2])), int(str(told[3]))
                refused |= set(range(first, first + count))
            elif told[0] == "gone":
                safe += confirmed - len(refused)
                published, confirmed, refused = 0, 0, set()

    for _ in range(200):
        kind = draw.random()
        take_news()
        if kind < 0.35:
            proxy.publish(sink, chunk_of([b"x"]), published + 1)
            published += 1
        elif kind < 0.7:
            world.turn()
        elif kind < 0.8:
            world.nodes[2].fake.sync()
        elif kind < 0.9:
            world.net.cut(1, 2)
        elif kind < 0.96:
            world.net.join(1, 2)
        else:
            world.now_ms += DOWN_AFTER_MS
            world.nodes[draw.choice((1, 2))].part.tick()
    world.net.join(1, 2)
    world.settle()
    take_news()
    proxy.publish(sink, chunk_of([b"last"]), published + 1)
    published += 1
    world.settle()
    take_news()
    assert confirmed == published
    assert world.ready(UID) >= safe + confirmed - len(refused)
    assert all("second hello" in fault for fault in world.net.faults)  # One had just given up.


def test_a_session_that_comes_again_in_the_turn_of_its_end_is_a_new_one() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.settle()
    world.net.cut(1, 2)
    world.now_ms += DOWN_AFTER_MS
    world.nodes[1].part.tick()  # The home hears of it with the link, and at once of
    world.nodes[1].turn()
    world.net.join(1, 2)
    world.net.pass_on(2, 1)
    sink.take()
    proxy.publish(sink, chunk_of([b"b"]), 1)  # the same session again.
    proxy.command(sink, attach(sink))
    world.nodes[1].turn()
    assert world.net.pass_on(1, 2) > 1
    world.settle()
    world.nodes[2].hosts[UID].publish(FakeSink(2), chunk_of([b"c"]), 1)
    world.nodes[2].part.mark_away(world.nodes[2].part.all_peer_queues[1].stubs)
    world.settle()
    told = sink.take()
    assert sink.confirmed[UID] == 1
    assert [each[4:6] for each in told if each[0] == "delivers"] == [(1, 2), (3, 1)]


def test_nonsense_behind_the_end_of_sessions_ends_the_link_with_the_next_frame() -> None:
    world = AwayWorld(TWO)
    world.net.cut(1, 2)
    world.wait()
    world.nodes[1].part.all_peer_queues[2].stream.send([b"\x07what"])
    world.net.join(1, 2)
    world.settle()
    world.proxy(1, UID).publish(FakeSink(), chunk_of([b"a"]), 1)
    world.settle()
    assert world.net.faults
    assert not world.net.nodes[1].is_connected(2)


def test_a_consumer_hears_with_its_answer_how_the_queue_stands() -> None:
    world = AwayWorld(TWO)
    sink, proxy = FakeSink(), world.proxy(1, UID)
    world.nodes[2].hosts[UID].publish(FakeSink(2), chunk_of([b"a", b"b", b"c"]), 1)
    proxy.command(sink, attach(sink, credit=0))
    world.settle()
    assert sink.take() == [("attached", UID, 1)]
    assert (proxy.ready_count, proxy.consumer_count) == (3, 1)


def test_how_a_queue_stands_is_told_anew_to_a_process_that_began_anew() -> None:
    world = AwayWorld(TWO)
    world.nodes[2].hosts[UID].publish(FakeSink(2), chunk_of([b"a"]), 1)
    for _ in range(2):
        sink, proxy = FakeSink(), world.proxy(1, UID)
        proxy.command(sink, attach(sink, credit=0))
        world.settle()
        assert proxy.ready_count == 1
        world.net.kill(1)
        world.start(1)
        world.net.join(1, 2)
        world.settle()


def test_a_home_whose_port_refuses_connections_is_known_to_until_it_is_back() -> None:
    """Its queues are not down for that: who uses them waits as long as ever."""
    world = AwayWorld(TWO)
    sink, proxy, part = FakeSink(), world.proxy(1, UID), world.nodes[1].part
    world.net.cut(1, 2)
    part.peer_refuses(2, True)
    proxy.publish(sink, chunk_of([b"a"]), 1)
    world.wait(DOWN_AFTER_MS - 1000)
    assert (part.is_refusing(2), part.is_down(2), sink.take()) == (True, False, [])
    part.peer_refuses(2, False)  # There is no connection for another reason.
    assert not part.is_refusing(2)
    part.peer_refuses(2, True)
    world.net.join(1, 2)
    world.settle()
    assert (part.is_refusing(2), sink.take()) == (False, [("confirms", UID, 1)])

"""A queue in use from another node: what its sessions see is what local ones see."""

import pytest

from queues.hosts.classic import ClassicHost
from queues.machine.commands import (
    ACCEPT,
    RELEASE,
    RETURN_UNSEEN,
    Command,
    Configure,
    Detach,
    EndSession,
    Get,
    Inspect,
    Purge,
    Restarted,
    Tick,
    consumer_key,
)
from queues.machine.options import Options
from queues.remote import remote_interfaces as seam
from queues.remote.items import CONFIRMS, HEAD, RUN, TAKEN, BadItem, put_numbers
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.remote.two_nodes import UID, TwoNodes

OFFSETS_BYTES = 8  # of a run of one message


def test_a_publish_is_confirmed_when_the_home_has_synced_it() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a", b"b"])
    assert nodes.turn() == []
    assert nodes.sync() == [("confirms", UID, 2)]
    assert nodes.hosts[UID].ready_count == 2


def test_deliveries_come_with_their_bodies_behind_them() -> None:
    nodes = TwoNodes()
    nodes.publish([b"one", b"two"])
    nodes.attach(1, 10)
    told = nodes.turn()
    assert told == [("attached", UID, 1), ("delivers", UID, 1, 1, 1, 2, False)]
    assert nodes.body(1) == b"one"
    assert nodes.body(2) == b"two"
    nodes.settle(1, ACCEPT, [(1, 2)])
    nodes.turn()
    assert nodes.hosts[UID].checked_out_count == 0


def test_a_session_that_looks_before_the_body_is_there_is_told_when_it_is() -> None:
    nodes = TwoNodes()
    nodes.publish([b"one"])
    nodes.attach(1, 10)
    nodes.pass_up()
    deliveries, bodies = split_bodies(nodes)
    for message in deliveries:
        nodes.proxies.received(message)
    assert nodes.body(1) is None
    for message in bodies:
        nodes.proxies.received(message)
    assert ("loaded", UID) in nodes.sink.take()
    assert nodes.body(1) == b"one"


def split_bodies(nodes: TwoNodes) -> tuple[list[bytes], list[bytes]]:
    """What is under way to the sessions, the bodies apart."""
    whole = b"".join(nodes.down)
    nodes.down = []
    place = whole.index(b"one") - OFFSETS_BYTES - RUN.size - HEAD.size
    return [whole[:place]], [whole[place:]]


def test_no_more_bodies_come_than_the_window_until_the_session_looks_at_them() -> None:
    nodes = TwoNodes()
    bodies = [bytes([65 + place]) * (seam.WINDOW_BYTES // 2) for place in range(6)]
    nodes.publish(bodies)
    nodes.attach(1, 10)
    nodes.turn()
    seen = []
    waits = 0
    for seq in range(1, 7):
        if nodes.body(seq) is None:
            assert ("loaded", UID) in nodes.turn()
            waits += 1
        seen.append(nodes.body(seq))
    assert seen == bodies and waits == 2


def test_a_message_larger_than_the_window_comes_alone() -> None:
    nodes = TwoNodes()
    nodes.publish([b"x" * (2 * seam.WINDOW_BYTES), b"y"])
    nodes.attach(1, 10)
    nodes.turn()
    assert nodes.body(1) == b"x" * (2 * seam.WINDOW_BYTES)
    assert nodes.body(2) is None
    nodes.turn()
    assert nodes.body(2) == b"y"


def test_messages_settled_unseen_leave_their_room_to_others() -> None:
    nodes = TwoNodes()
    nodes.publish([b"x" * seam.WINDOW_BYTES, b"y" * seam.WINDOW_BYTES, b"z"])
    nodes.attach(1, 2)
    nodes.turn()
    nodes.settle(1, RETURN_UNSEEN, [(1, 2)])
    nodes.command(Detach(consumer_key(nodes.sink.session, 1)))
    nodes.attach(2, 3)
    told = nodes.turn()
    assert ("delivers", UID, 2, 1, 1, 3, False) in told
    for seq, wanted in ((1, b"x"), (2, b"y"), (3, b"z")):
        if nodes.body(seq) is None:
            nodes.turn()
        body = nodes.body(seq)
        assert body is not None
        assert body[:1] == wanted


def test_bodies_of_messages_that_are_gone_are_not_asked_for() -> None:
    nodes = TwoNodes()
    for body in (b"x" * seam.WINDOW_BYTES, b"y", b"z"):
        nodes.publish([body])
    nodes.attach(1, 3)
    nodes.turn()
    nodes.settle(1, ACCEPT, [(2, 1)])
    nodes.turn()
    assert nodes.body(3) is None
    nodes.turn()
    assert nodes.body(3) == b"z"


def test_bodies_that_are_on_disk_are_waited_for() -> None:
    nodes = TwoNodes(budget_bytes=0)
    nodes.publish([b"one" * 100])
    nodes.turn()
    nodes.sync()
    nodes.attach(1, 1)
    told = nodes.turn()
    assert told[-1][0] == "delivers"
    assert nodes.body(1) is None
    nodes.home.answer_loads()
    assert ("loaded", UID) in nodes.turn()
    assert nodes.body(1) == b"one" * 100


def test_get_is_answered_with_the_body_at_hand_even_while_deliveries_wait() -> None:
    nodes = TwoNodes()
    nodes.publish([b"one", b"two", b"three"])
    nodes.attach(1, 1)
    nodes.turn()
    nodes.command(Get(nodes.sink.session))
    assert nodes.turn() == [("got", UID, 2, False, 1)]
    assert nodes.body(2) == b"two"
    assert nodes.body(1) == b"one", "what was delivered before is still there"
    nodes.settle(0, RELEASE, [(2, 1)])
    nodes.turn()
    assert nodes.hosts[UID].ready_count == 2


def test_get_of_an_empty_queue_purge_and_inspect_are_answered() -> None:
    nodes = TwoNodes()
    nodes.command(Get(nodes.sink.session))
    assert nodes.turn() == [("got", UID, 0, False, 0)]
    nodes.publish([b"a", b"b"])
    nodes.command(Inspect(nodes.sink.session))
    nodes.command(Purge(nodes.sink.session))
    assert nodes.turn() == [("inspected", UID, 2, 0), ("purged", UID, 2)]


def test_a_session_that_ends_gives_back_what_it_held() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a"])
    nodes.attach(1, 1)
    nodes.turn()
    nodes.command(EndSession(nodes.sink.session))
    nodes.turn()
    host = nodes.hosts[UID]
    assert (host.ready_count, host.consumer_count) == (1, 0)
    assert nodes.stubs.count == 0


def test_a_node_that_is_lost_ends_the_sessions_that_it_had() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a"])
    nodes.attach(1, 1)
    nodes.turn()
    nodes.stubs.peer_lost()
    nodes.home.turn()
    host = nodes.hosts[UID]
    assert (host.ready_count, host.consumer_count) == (1, 0)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_what_a_node_holds_that_cannot_be_reached_has_not_failed(is_cut_off: bool) -> None:
    nodes = TwoNodes()
    nodes.hosts[UID].command(nodes.sink, Configure(Options(delivery_limit=5)))
    nodes.publish([b"a"])
    nodes.attach(1, 1)
    nodes.turn()
    nodes.stubs.peer_lost(is_cut_off)
    nodes.home.turn()
    host = nodes.hosts[UID]
    assert isinstance(host, ClassicHost)
    tries = host.core.machine.attempts.get(1)
    assert (tries >> 32, tries & 0xFFFFFFFF) == (1, 0 if is_cut_off else 1)


def test_a_home_that_is_lost_refuses_what_it_has_not_confirmed_and_is_gone() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a"])
    nodes.turn()
    nodes.sync()
    nodes.sink.take()
    nodes.publish([b"b", b"c"])
    nodes.proxies.home_lost()
    assert nodes.sink.take() == [
        ("refused", UID, 2, 2),
        ("confirms", UID, 3),
        ("gone", UID),
    ]


def test_a_queue_that_the_home_does_not_know_is_gone() -> None:
    nodes = TwoNodes()
    del nodes.hosts[UID]
    nodes.publish([b"a"])
    assert nodes.turn() == [("gone", UID)]


def test_a_deleted_queue_is_gone_for_all_its_sessions_once() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a"])
    nodes.attach(1, 1)
    nodes.turn()
    nodes.hosts[UID].delete()  # type: ignore[attr-defined]
    assert nodes.turn() == [("gone", UID)]
    nodes.proxies.remove(UID)
    assert nodes.turn() == []


def test_publishers_are_held_up_until_the_home_has_taken_what_they_sent() -> None:
    nodes = TwoNodes()
    sink = FakeSink(2, 400)
    nodes.publish([b"m"] * 400, sink)
    assert sink.credit.is_blocked()
    nodes.turn()
    assert not sink.credit.is_blocked()


def test_a_home_whose_log_is_behind_grants_nothing_until_it_has_caught_up() -> None:
    nodes = TwoNodes(log_credit=100)
    nodes.publish([b"m"] * 400)
    nodes.turn()
    assert not nodes.sink.credit.is_blocked(), "so far the log has room"
    nodes.publish([b"m"] * 400)
    nodes.turn()
    assert nodes.sink.credit.is_blocked()
    nodes.sync()
    assert not nodes.sink.credit.is_blocked()


def test_counts_for_listings_are_told_when_they_have_changed() -> None:
    nodes = TwoNodes()
    nodes.publish([b"a", b"b"])
    nodes.turn()
    nodes.stubs.tell_counts()
    nodes.turn()
    assert nodes.proxy.ready_count == 2
    nodes.stubs.tell_counts()
    assert not nodes.ends.marked


@pytest.mark.parametrize("command", [Tick(), Restarted(9), Configure(Options())])
def test_commands_that_no_session_gives_are_refused(command: Command) -> None:
    nodes = TwoNodes()
    nodes.command(command)
    with pytest.raises(BadItem, match="no session"):
        nodes.turn()


def test_items_for_the_other_side_are_refused() -> None:
    nodes = TwoNodes()
    with pytest.raises(BadItem):
        nodes.stubs.received(put_numbers(CONFIRMS, UID, nodes.sink.session, 1))
    nodes.publish([b"a"])
    with pytest.raises(BadItem):
        nodes.proxies.received(put_numbers(TAKEN, UID, nodes.sink.session, 1))


def test_more_than_a_part_goes_out_at_once() -> None:
    nodes = TwoNodes()
    nodes.publish([b"x" * seam.PART_BYTES])
    assert len(nodes.up) == 1

"""Messages to one other node come in order and once, whatever the connection does."""

import random

import pytest

from warren.wire.peer.stream import ACK, ACK_BYTES, ACK_MESSAGES, BadFrame, Restarted, Stream


class Pair:
    """Two ends and the connection between them."""

    def __init__(self) -> None:
        self.ends = [Stream(11), Stream(22)]
        self.under_way: list[list[bytes]] = [[], []]  # to each end
        self.got: list[list[bytes]] = [[], []]
        self.restarts = [0, 0]

    def connect(self) -> None:
        self.under_way = [[], []]
        for end in self.ends:
            end.disconnected()
            end.connected()

    def take(self, side: int) -> None:
        """What this end has to send is under way."""
        frames = self.ends[side].take_frames()
        self.under_way[1 - side].extend(b"".join(parts) for parts in frames)

    def receive(self, side: int, count: int = 1_000_000) -> None:
        some = self.under_way[side][:count]
        del self.under_way[side][:count]
        for frame in some:
            news = self.ends[side].received(memoryview(frame) if side else frame)
            if isinstance(news, Restarted):
                self.restarts[side] += 1
            elif news is not None:
                self.got[side].append(bytes(news))

    def settle(self) -> None:
        for _ in range(4):
            for side in (0, 1):
                self.ends[side].hurry_ack()
                self.take(side)
            for side in (0, 1):
                self.receive(side)


def test_messages_wait_for_the_first_connection() -> None:
    pair = Pair()
    pair.ends[0].send([b"a", b"b"])
    pair.settle()
    assert pair.got == [[], []]
    pair.connect()
    pair.settle()
    assert pair.got == [[], [b"ab"]]
    assert pair.ends[0].is_idle


def test_nothing_but_hello_is_sent_before_the_other_side_has_said_hello() -> None:
    pair = Pair()
    pair.ends[0].send([b"a"])
    pair.connect()
    pair.take(0)
    assert len(pair.under_way[1]) == 1


def test_what_was_not_acknowledged_is_sent_again_and_taken_once() -> None:
    pair = Pair()
    pair.connect()
    pair.settle()
    for body in (b"1", b"2", b"3"):
        pair.ends[0].send([body])
    pair.take(0)
    pair.receive(1, 2)  # The third is lost, and so are the acknowledgements.
    pair.connect()
    pair.settle()
    assert pair.got[1] == [b"1", b"2", b"3"]
    assert pair.ends[0].is_idle


def test_a_new_process_is_told_and_gets_nothing_of_the_old_ones() -> None:
    pair = Pair()
    pair.connect()
    pair.settle()
    pair.ends[0].send([b"for the old one"])
    pair.ends[1] = Stream(33)
    pair.connect()
    pair.settle()
    assert pair.restarts == [1, 0]
    assert pair.got[1] == []
    pair.ends[0].send([b"for the new one"])
    pair.ends[1].send([b"back"])
    pair.settle()
    assert pair.got == [[b"back"], [b"for the new one"]]


def test_a_stream_is_full_until_enough_is_acknowledged() -> None:
    pair = Pair()
    pair.ends[0].send([bytes(64 << 20)])
    assert pair.ends[0].is_full
    pair.connect()
    pair.settle()
    assert not pair.ends[0].is_full
    assert pair.ends[0].unacked_bytes == 0


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x02\x01\x00\x00\x00\x00\x00\x00\x00early",  # data before hello
        b"\x03\x01\x00\x00\x00\x00\x00\x00\x00",
        b"\x01short",
        b"\x01" + bytes(24),  # hello without a process number
        b"\x09" + bytes(24),
    ],
)
def test_what_does_not_begin_with_hello_is_refused(frame: bytes) -> None:
    end = Stream(11)
    end.connected()
    with pytest.raises(BadFrame):
        end.received(frame)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x02\x02" + bytes(7) + b"a gap",
        b"\x03\x09" + bytes(7),  # acknowledges what was never sent
        b"\x03\x01" + bytes(8),
        b"\x04" + bytes(8),
        b"\x02\x01",
    ],
)
def test_what_breaks_the_order_is_refused(frame: bytes) -> None:
    pair = Pair()
    pair.connect()
    pair.settle()
    with pytest.raises(BadFrame):
        pair.ends[0].received(frame)


@pytest.mark.parametrize("seed", range(30))
def test_any_interruption_loses_and_doubles_nothing(seed: int) -> None:
    draw = random.Random(seed)
    pair = Pair()
    sent: list[list[bytes]] = [[], []]
    for step in range(400):
        side = draw.randrange(2)
        kind = draw.random()
        if kind < 0.4:
            body = b"%d-%d" % (side, step)
            pair.ends[side].send([body[:1], body[1:]])
            sent[1 - side].append(body)
        elif kind < 0.6:
            pair.take(side)
        elif kind < 0.95:
            pair.receive(side, draw.randrange(4))
        else:
            pair.connect()
    pair.connect()
    pair.settle()
    pair.settle()
    assert pair.got == sent
    assert all(end.is_idle for end in pair.ends)


def test_frames_are_taken_one_by_one_and_what_is_left_waits() -> None:
    pair = Pair()
    pair.connect()
    pair.settle()
    one, other = pair.ends
    for body in (b"a", b"b", b"c"):
        one.send([body])
    first = one.take_frame()
    assert first is not None
    assert one.has_unsent
    pair.connect()  # The first one is lost.
    pair.settle()
    assert pair.got[1] == [b"a", b"b", b"c"]
    assert not one.has_unsent
    assert other.take_frame() is None


def test_a_stream_stands_when_both_sides_have_said_hello() -> None:
    pair = Pair()
    assert not pair.ends[0].stands
    pair.connect()
    pair.take(0)
    pair.receive(1)
    assert [end.stands for end in pair.ends] == [False, True]
    pair.settle()
    assert pair.ends[0].stands
    pair.ends[0].disconnected()
    assert not pair.ends[0].stands


def test_what_was_acknowledged_on_an_older_connection_is_not_sent_again() -> None:
    pair = Pair()
    pair.connect()
    pair.settle()
    for body in (b"a", b"b"):
        pair.ends[0].send([body])
    pair.take(0)
    pair.receive(1)
    pair.connect()  # Its acknowledgement is lost.
    pair.settle()
    assert pair.got[1] == [b"a", b"b"]
    assert pair.ends[0].is_idle
    assert pair.ends[0].take_frame() is None


def test_what_came_for_an_older_process_of_ours_is_lost_with_it() -> None:
    pair = Pair()
    pair.connect()
    pair.take(0)
    pair.receive(1)  # It has our hello, and
    pair.ends[1].send([b"for the old one"])
    pair.take(1)
    pair.ends[0] = Stream(33)  # we restart before its hello has come:
    pair.ends[0].connected()
    pair.take(0)
    pair.receive(0)
    assert pair.got[0] == [b"for the old one"]
    with pytest.raises(BadFrame):
        pair.receive(1)  # a second hello, which ends the connection.
    pair.ends[0].send([b"from the new one"])
    pair.connect()
    pair.settle()
    assert pair.restarts == [1, 1]
    pair.ends[0].send([b"a"])
    pair.ends[1].send([b"b"])
    pair.settle()
    assert (pair.got[0][1:], pair.got[1]) == ([b"b"], [b"a"])


def met() -> Pair:
    """Both ends have said hello."""
    pair = Pair()
    pair.connect()
    pair.settle()
    return pair


def acks(frames: list[bytes]) -> int:
    return sum(1 for frame in frames if frame[0] == ACK)


def test_a_message_is_not_acknowledged_by_itself() -> None:
    pair = met()
    pair.ends[0].send([b"a"])
    pair.take(0)
    pair.receive(1)
    pair.take(1)
    assert pair.under_way[0] == []
    assert pair.ends[1].owes_ack
    pair.ends[1].hurry_ack()
    pair.take(1)
    assert acks(pair.under_way[0]) == 1
    pair.receive(0)
    assert pair.ends[0].is_idle
    assert not pair.ends[1].owes_ack


def test_an_acknowledgement_goes_with_the_next_message() -> None:
    pair = met()
    pair.ends[0].send([b"a"])
    pair.take(0)
    pair.receive(1)
    pair.ends[1].send([b"b"])
    pair.take(1)
    assert acks(pair.under_way[0]) == 1
    pair.receive(0)
    assert pair.ends[0].is_idle
    assert pair.ends[0].owes_ack, "the message itself"


@pytest.mark.parametrize(
    ("size", "count"), [(1, ACK_MESSAGES), (ACK_BYTES // 8, 8)], ids=["messages", "bytes"]
)
def test_what_waits_for_an_acknowledgement_is_bounded(size: int, count: int) -> None:
    pair = met()
    for _ in range(count):
        assert not pair.under_way[0]
        pair.ends[0].send([bytes(size)])
        pair.take(0)
        pair.receive(1)
        pair.take(1)
    assert acks(pair.under_way[0]) == 1


def test_a_new_process_owes_no_acknowledgement_to_the_old_one() -> None:
    pair = met()
    pair.ends[0].send([b"a"])
    pair.take(0)
    pair.receive(1)
    pair.ends[0] = Stream(33)
    pair.connect()
    pair.settle()
    assert pair.restarts[1] == 1
    assert not pair.ends[1].owes_ack

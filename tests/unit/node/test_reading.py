"""How much of a socket is read in one turn, and when it is read at all."""

from typing import Any

from node.connections.socket_reading import READ_BYTES_MAX, Reading
from node.turn import READ_BYTES_MAX as TURN_BYTES_MAX
from node.turn import Turn


class Wire:
    """A socket and its codec that record their calls."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self, now_ms: int = 0) -> None:
        self.told.append(("resume", now_ms))


def reading() -> tuple[Reading, Turn, Wire, Wire]:
    turn = Turn(lambda _: None, lambda _: None)
    source, codec = Wire(), Wire()
    return Reading(turn, source, codec, lambda: 7), turn, source, codec


def test_a_read_is_taken_in_at_once_and_counted() -> None:
    mine, turn, source, _ = reading()
    assert mine.receive(b"abc") == b"abc"
    assert (turn.read_bytes, source.told, mine.has_backlog()) == (3, [], False)


def test_what_is_too_much_for_the_turn_waits_in_order_for_the_next() -> None:
    mine, turn, _, _ = reading()
    turn.read_bytes = TURN_BYTES_MAX
    assert (mine.receive(b"ab"), mine.receive(b"cd")) == (b"", b"")
    assert mine.begin_turn() == b""
    turn.read_bytes = 0
    assert mine.receive(b"ef") == b""  # It waits behind what came before.
    assert mine.begin_turn() == b"abcdef"
    assert (turn.read_bytes, mine.has_backlog()) == (6, False)


def test_a_socket_that_has_brought_much_rests_until_the_turn_is_over() -> None:
    mine, _, source, codec = reading()
    mine.receive(bytes(READ_BYTES_MAX))
    mine.receive(b"more")
    assert source.told == ["pause"]
    mine.begin_turn()
    mine.judge(False)
    assert (source.told, codec.told) == (["pause", ("resume", 0)], [("resume", 7)])


def test_a_pause_is_told_once_to_socket_and_codec() -> None:
    mine, _, source, codec = reading()
    for stop in (True, True, False, False):
        mine.judge(stop)
    assert source.told == ["pause", ("resume", 0)]
    assert codec.told == ["pause", ("resume", 7)]

"""Commands of a node on their way into the log of the definitions, and their answers."""

import pytest

from node.cluster.definitions import definitions_outbox
from node.cluster.definitions.definitions_frames import (
    Applied,
    Forwarded,
    decode,
    encode_applied,
    encode_forwarded,
)
from node.cluster.definitions.definitions_interface import TIMED_OUT
from node.cluster.definitions.definitions_outbox import ANSWER_MS, LAG_MS, WINDOW, Outbox
from node.events.authors import Author
from queues.definitions.broker_objects import Destination, Uid
from queues.definitions.members import Process
from queues.definitions.metadata import commands
from queues.definitions.metadata.cluster import Batches
from queues.definitions.metadata.commands import Command, Numbered
from queues.definitions.metadata.outcomes import NOTHING_DELETED, Batched, Deleted, Outcome, Refused
from warren.wire.errors import ReplyCode
from warren.wire.peer.codes import PeerFault

PROCESS = 0xF00


class Client:
    """Who proposes, and keeps what it receives."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.told: list[tuple[str, Outcome]] = []

    def ask(self, name: str, now_ms: int = 0) -> None:
        self.ask_for(delete(name), name, now_ms)

    def ask_for(self, command: Command, name: str, now_ms: int = 0) -> None:
        self.outbox.add(command, lambda outcome: self.told.append((name, outcome)), now_ms)

    def answers(self, everywhere_index: int = 0, now_ms: int = 0) -> list[str]:
        """Names of those who get a reply now."""
        self.told = []
        for done, outcome, _ in self.outbox.take_answers(everywhere_index, now_ms):
            done(outcome)
        return [name for name, _ in self.told]

    def apply(self, index: int, number: int, now_ms: int = 0) -> None:
        count = next(
            len(each.waiting) for each in self.outbox.open if each.forwarded.number == number
        )
        outcome = Batched((NOTHING_DELETED,) * count, ())
        self.outbox.applied(index, number, outcome, {}, now_ms)


def delete(name: str) -> Command:
    return commands.DeleteQueue("/", name)


def client() -> Client:
    return Client(Outbox(PROCESS))


def inside(forwarded: Forwarded) -> Numbered:
    command = commands.decode(forwarded.content)
    assert isinstance(command, Numbered)
    assert (command.process, command.number) == (forwarded.process, forwarded.number)
    assert len(command.commands) == forwarded.command_count
    return command


# Batches


def test_commands_of_a_turn_are_one_batch_in_their_order() -> None:
    asks = client()
    for name in "abc":
        asks.ask(name)
    (sent,) = asks.outbox.form()
    assert inside(sent.forwarded).commands == (delete("a"), delete("b"), delete("c"))
    assert asks.outbox.form() == [] and list(asks.outbox.open) == [sent]


def test_batches_count_up_and_say_what_is_answered() -> None:
    asks = client()
    for number in range(1, 4):
        asks.ask("q")
        (sent,) = asks.outbox.form()
        assert (sent.forwarded.number, inside(sent.forwarded).answered) == (number, 0)
    asks.apply(10, 1)
    asks.apply(11, 2)
    asks.ask("q")
    assert inside(asks.outbox.form()[0].forwarded).answered == 2
    asks.apply(12, 3)
    asks.apply(13, 4)
    asks.ask("q")
    assert inside(asks.outbox.form()[0].forwarded).answered == 4


def test_a_window_of_batches_is_under_way() -> None:
    asks = client()
    for number in range(WINDOW + 3):
        asks.ask(f"q{number}")
        assert len(asks.outbox.form()) == (number < WINDOW)
    asks.apply(9, 1)
    (sent,) = asks.outbox.form()
    assert len(sent.waiting) == 3, "what waited goes together"


def test_a_batch_is_bounded() -> None:
    asks = client()
    for number in range(600):
        asks.ask(f"q{number}")
    assert [len(each.waiting) for each in asks.outbox.form()] == [256, 256, 88]
    asks = client()
    for _ in range(3):
        asks.ask("q" * 40_000)
    assert [len(each.waiting) for each in asks.outbox.form()] == [2, 1]


def test_what_is_too_much_is_refused_and_what_clears_away_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(definitions_outbox, "WAITING_MAX", 2)
    asks = client()
    for name in "abc":
        asks.ask(name)
    asks.ask_for(commands.DeleteByOwner("c"), "kept")
    assert asks.answers() == ["c"]
    outcome = asks.told[0][1]
    assert isinstance(outcome, Refused) and outcome.code is ReplyCode.RESOURCE_ERROR
    assert len(inside(asks.outbox.form()[0].forwarded).commands) == 3


# Answers


def test_nobody_is_answered_before_the_batch_is_applied_everywhere() -> None:
    asks = client()
    asks.ask("a")
    asks.outbox.form()
    assert asks.answers(1 << 60) == [] and asks.outbox.next_index == 0
    asks.apply(7, 1)
    assert asks.outbox.next_index == 7
    assert asks.answers(6) == []
    assert asks.answers(7) == ["a"] and asks.told[0][1] == NOTHING_DELETED
    assert asks.outbox.next_index == 0 and asks.outbox.waiting_count == 0


def test_each_is_told_its_own_outcome() -> None:
    asks = client()
    asks.ask("a")
    asks.outbox.add(delete("unasked"), None, 0)
    asks.ask("b")
    asks.outbox.form()
    first, second = Refused(ReplyCode.NOT_FOUND, "a"), Deleted((), ())
    asks.outbox.applied(5, 1, Batched((first, second, second), ()), {}, 0)
    assert asks.answers(5) == ["a", "b"]
    assert [outcome for _, outcome in asks.told] == [first, second]


def test_a_batch_that_was_not_in_its_turn_is_still_under_way() -> None:
    asks = client()
    asks.ask("a")
    (sent,) = asks.outbox.form()
    asks.outbox.applied(5, 1, Batched((), ()), {}, 0)
    asks.outbox.applied(7, 1, Refused(ReplyCode.PRECONDITION_FAILED, "ended"), {}, 0)
    assert list(asks.outbox.open) == [sent] and asks.answers(1 << 60) == []


def test_who_lags_for_long_is_not_waited_for() -> None:
    asks = client()
    asks.ask("a")
    asks.outbox.form()
    asks.apply(5, 1, now_ms=100)
    assert asks.answers(4, 100 + LAG_MS - 1) == []
    assert asks.outbox.unwaited_index == 0
    assert asks.answers(4, 100 + LAG_MS) == ["a"]
    assert asks.outbox.unwaited_index == 5


def test_outcomes_that_a_snapshot_has_passed_over_are_in_the_machine() -> None:
    asks = client()
    for name in "abc":
        asks.ask(name)
        asks.outbox.form()
    batches = Batches(Process("n1", 1, PROCESS))
    for number in (1, 2):
        command = Numbered(PROCESS, number, 0, (delete("q"),))
        batches.applied(command, (Refused(ReplyCode.NOT_FOUND, str(number)),))
    asks.outbox.passed_over(40, batches, 0)
    assert asks.answers(39) == [] and asks.answers(40) == ["a", "b"]
    texts = [each.text for _, each in asks.told if isinstance(each, Refused)]
    assert texts == ["1", "2"] and len(asks.outbox.open) == 1


# Time


def test_who_waits_too_long_is_told_so_and_a_numbered_batch_goes_on() -> None:
    asks = client()
    asks.ask_for(commands.DeclareQueue("/", "a"), "a")
    asks.outbox.form()
    for _ in range(WINDOW - 1):
        asks.ask("w")
        asks.outbox.form()
    asks.ask("late", now_ms=5)
    asks.outbox.add(commands.DeleteByOwner("c"), None, 0)
    asks.outbox.expire(ANSWER_MS - 1)
    assert asks.answers() == []
    asks.outbox.expire(ANSWER_MS)
    assert asks.answers() == ["a"] + ["w"] * (WINDOW - 1)
    outcome = asks.told[0][1]
    assert isinstance(outcome, Refused) and outcome.code is ReplyCode.INTERNAL_ERROR
    assert outcome.text == f"failed to declare queue 'a' in vhost '/' {TIMED_OUT}"
    asks.outbox.expire(ANSWER_MS + 5)
    assert asks.answers() == ["late"]
    asks.apply(5, 1)
    assert asks.answers(5) == [], "told once"
    (sent,) = asks.outbox.form()
    assert inside(sent.forwarded).commands == (commands.DeleteByOwner("c"),)


def test_what_a_client_was_refused_is_not_carried_out_by_a_leader_that_gets_it_later() -> None:
    asks = client()
    own = commands.DeleteQueue("/", "expired", Uid(6))
    asks.ask_for(commands.DeleteQueue("/", "q", Uid(5), "connection"), "client")
    asks.outbox.add(own, None, 0)
    asks.ask("later", now_ms=5)
    (sent,) = asks.outbox.form()
    asks.outbox.expire(ANSWER_MS)
    assert asks.answers() == ["client"]
    (under_way,) = asks.outbox.open
    assert inside(under_way.forwarded).commands == (commands.Batch(()), own, delete("later"))
    assert inside(under_way.forwarded).answered == inside(sent.forwarded).answered
    asks.apply(5, 1)
    assert asks.answers(5) == ["later"]


@pytest.mark.parametrize(
    ("command", "start"),
    [
        (commands.Bind("/", "x", Destination.QUEUE, "q", b""), "failed to add binding in"),
        (commands.DeleteExchange("v", "x"), "failed to delete exchange 'x' in vhost 'v' "),
        (commands.DeclareVhost("v"), "failed to declare vhost 'v' because"),
        (commands.PutUser("u", "h", "s"), "failed to change definitions because"),
    ],
)
def test_a_timeout_says_what_has_failed(command: Command, start: str) -> None:
    assert definitions_outbox.timed_out(command).text.startswith(start)


@pytest.mark.parametrize(
    ("command", "is_kept"),
    [
        (commands.DeleteQueue("/", "q"), False),
        (commands.DeleteQueue("/", "q", Uid(5)), True),
        (commands.DeleteQueue("/", "q", Uid(5), "connection"), False),
        (commands.DeleteByOwner("c"), True),
        (commands.NodeUp("n", 1, 1), True),
        (commands.DeclareQueue("/", "q"), False),
    ],
)
def test_what_clears_away_waits_for_as_long_as_it_takes(command: Command, is_kept: bool) -> None:
    assert definitions_outbox.is_kept(command) is is_kept


def test_a_process_that_was_given_up_begins_with_nothing_under_way() -> None:
    asks = client()
    asks.ask("a")
    asks.outbox.form()
    asks.apply(5, 1)
    asks.ask("b")
    asks.outbox.form()
    asks.ask("c")
    asks.outbox.begin_anew(PROCESS + 1)
    assert asks.answers() == ["b", "c"] and not asks.outbox.open
    assert asks.answers(5) == ["a"], "what was applied is answered"
    asks.ask("d")
    (sent,) = asks.outbox.form()
    assert (sent.forwarded.process, sent.forwarded.number) == (PROCESS + 1, 1)


# Frames


def test_frames_are_read_as_they_were_written() -> None:
    forwarded = decode(memoryview(b"".join(encode_forwarded(Forwarded(1 << 63, 7, 3, b"abc")))))
    assert isinstance(forwarded, Forwarded)
    found = (forwarded.process, forwarded.number, forwarded.command_count, forwarded.content)
    assert found == (1 << 63, 7, 3, b"abc")
    applied = decode(memoryview(b"".join(encode_applied(Applied(1 << 40, True)))))
    assert isinstance(applied, Applied) and (applied.index, applied.is_serving) == (1 << 40, True)


@pytest.mark.parametrize(
    "wrong", [b"", b"\x03", b"\x00abc", b"\x01" * 20, b"\x02" * 9, b"\x02" * 11]
)
def test_frames_of_something_else_are_faults(wrong: bytes) -> None:
    with pytest.raises(PeerFault):
        decode(memoryview(wrong))


# Who gets the outcome


def test_what_is_applied_is_told_once_with_its_author_though_its_proposer_has_given_up() -> None:
    asks = client()
    told: list[str] = []
    asks.outbox.on_applied = lambda outcome, author: told.append(author.user)
    asks.outbox.add(delete("a"), None, 0, Author("ann"))
    asks.ask("b")
    asks.outbox.form()
    assert told == []
    asks.outbox.expire(ANSWER_MS)
    asks.apply(10, 1)
    asks.outbox.applied(11, 1, Batched((), ()), {}, 0)  # It came twice.
    assert told == ["ann", "rmq-internal"]


def test_what_never_came_into_the_log_is_told_to_nobody() -> None:
    asks = client()
    told: list[Outcome] = []
    asks.outbox.on_applied = lambda outcome, author: told.append(outcome)
    asks.ask("a")
    asks.outbox.expire(ANSWER_MS)
    assert asks.outbox.form() == [] and told == []

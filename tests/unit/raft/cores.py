"""One core and its host in a few words, for the tests of `raft.core`."""

from collections.abc import Sequence
from typing import Any

from raft.core import Raft
from raft.entries import COMMAND, Config, Entry, HardState, SnapshotPoint
from raft.messages import AppendRequest, AppendResponse, Message, VoteRequest, VoteResponse
from raft.ready import Ready
from raft.recovery import Restored, founded
from raft.settings import Settings

THREE = Config((1, 2, 3))


class FixedLots:
    """Draws the lowest lot every time."""

    def randrange(self, start: int, /) -> int:
        assert start > 0
        return 0


def settings(**changed: Any) -> Settings:
    return Settings(**changed)


def make(config: Config = THREE, member: int = 1, **changed: Any) -> Raft:
    """A member at the beginning of a group."""
    return Raft(member, founded(config), settings(**changed), FixedLots())


def restored(
    terms: Sequence[int],
    term: int,
    vote: int = 0,
    config: Config = THREE,
    point: SnapshotPoint | None = None,
    **changed: Any,
) -> Raft:
    """A member whose log has entries of these terms, each appended in its own."""
    snapshot = point or SnapshotPoint(0, 0, 0, config)
    runs: list[tuple[int, int, int]] = []
    for index, entry_term in enumerate(terms, snapshot.index + 1):
        if not runs or runs[-1][1] != entry_term:
            runs.append((index, entry_term, entry_term))
    found = Restored(HardState(term, vote), snapshot, snapshot.index + len(terms), runs, [])
    return Raft(1, found, settings(**changed), FixedLots())


def turn(raft: Raft) -> Ready:
    """What there is to do, and the disk has done it."""
    ready = raft.ready()
    if ready.entries:
        raft.durable(ready.entries[-1].index, ready.entries[-1].term)
    return ready


def turns(raft: Raft) -> None:
    """Until nothing is left to do."""
    for _ in range(100):
        if not raft.has_ready:
            return
        turn(raft)
    raise AssertionError("there is always something to do")


def elect(raft: Raft, *voters: int) -> None:
    """It becomes the leader with these votes, and its first entry is durable, not committed."""
    raft.campaign()
    turn(raft)
    for voter in voters:
        raft.step(voter, VoteResponse(raft.term + 1, True, True))
    turn(raft)
    for voter in voters:
        raft.step(voter, VoteResponse(raft.term, False, True))
    turn(raft)
    assert raft.leader == raft.member


def leader(config: Config = THREE, **changed: Any) -> Raft:
    """Of term 1; its first entry is committed and known to be so; members 2 and 3 stream."""
    raft = make(config, **changed)
    others = [member for member in config.members() if member != 1]
    elect(raft, *[voter for voter in config.voters if voter != 1])
    for member in others:
        raft.step(member, AppendResponse(1, True, 1, 0))
    turns(raft)
    raft.tick()
    turns(raft)
    for member in others:
        raft.step(member, AppendResponse(1, True, 1, 1))
    turns(raft)
    assert raft.commit_index == raft.applied_index == 1
    return raft


def follower(terms: Sequence[int] = (), term: int = 1, **changed: Any) -> Raft:
    """It follows 2 in this term, having these entries; nothing is committed."""
    raft = restored(terms, term, **changed)
    last_term = terms[-1] if terms else 0
    raft.step(2, AppendRequest(term, len(terms), last_term, 0, ()))
    turn(raft)
    assert raft.leader == 2
    return raft


def entry(index: int, term: int, text: str = "", kind: int = COMMAND) -> Entry:
    return Entry(index, term, kind, (text.encode(),), (), term)


def entries(first: int, *terms: int) -> list[Entry]:
    return [entry(index, term) for index, term in enumerate(terms, first)]


def sent(ready: Ready, member: int = 0) -> list[Message]:
    """Messages of a turn, those that wait for the sync at the end; to one member or to all."""
    both = [*ready.messages, *ready.messages_after_sync]
    return [message for receiver, message in both if member in (0, receiver)]


def appends(ready: Ready, member: int) -> list[AppendRequest]:
    return [message for message in sent(ready, member) if isinstance(message, AppendRequest)]


def answers(ready: Ready) -> list[AppendResponse]:
    found = [message for _, message in ready.messages_after_sync]
    return [message for message in found if isinstance(message, AppendResponse)]


def votes(ready: Ready) -> list[VoteResponse]:
    return [message for message in sent(ready) if isinstance(message, VoteResponse)]


def requests(ready: Ready) -> list[VoteRequest]:
    return [message for message in sent(ready) if isinstance(message, VoteRequest)]


def indexes(found: Sequence[Entry]) -> list[int]:
    return [int(one.index) for one in found]

"""What a node answers to those who have no link to it, and how a member makes sure of its place."""

import asyncio
from dataclasses import dataclass, field

import pytest

from node.cluster.definitions.definitions_interface import TIMED_OUT
from node.cluster.membership import introducing
from node.cluster.membership.forming import list_digest
from node.cluster.membership.introducing import introduce, watch
from node.cluster.membership.membership_file import EnteringFailed, Membership, PeerAddress
from node.cluster.membership.questions import (
    MEMBER,
    REMOVED,
    REPLACED,
    STANDING_TEXTS,
    SUPERSEDED,
    UNSAID,
    Answer,
    Never,
    NotNow,
    TakeMeIn,
    Taken,
    Who,
    Word,
    decode_answer,
    encode,
)
from node.cluster.membership.reception import ClusterReception
from node.cluster.peering.asking import AskFailed
from queues.definitions.members import Member
from queues.definitions.metadata.commands import AddMember, Batch, PutMember
from tests.unit.node.fake_definitions import FakeDefinitions

SEEDS = ("a:1", "b:1", "c:1")
CLUSTER = 0xC0FFEE
ROWS = (
    Member(1, "n1", 11, "a", 1),
    Member(2, "n2", 22, "b", 1, zone="east"),
    Member(3, "", 0, "c", 1),
)
HELD = Membership("n1", 11, 1, CLUSTER, SEEDS, True, 5)


@dataclass
class FakeHost:
    """Keeps `node.cluster.membership.reception.Host`."""

    incarnation: int = 11
    membership: Membership | None = HELD
    definitions: FakeDefinitions | None = None
    is_current: bool = True
    seeds_digest: bytes = list_digest(SEEDS)
    seen: dict[int, int] = field(default_factory=dict)
    superseded: set[tuple[int, int]] = field(default_factory=set)
    hurried: list[int] = field(default_factory=list)

    def incarnation_seen(self, member: int) -> int:
        return self.seen.get(member, 0)

    def is_superseded(self, member: int, boot: int) -> bool:
        return (member, boot) in self.superseded

    def hurry(self, member: int) -> None:
        self.hurried.append(member)


def host(*rows: Member) -> FakeHost:
    return FakeHost(definitions=FakeDefinitions(CLUSTER, *(rows or ROWS)))


def ask(of: FakeHost, question: Who | TakeMeIn) -> Answer:
    answers: list[bytes] = []
    ClusterReception(of).answer(memoryview(encode(question)), answers.append)
    (answer,) = answers
    return decode_answer(answer)


def standing(of: FakeHost, question: Who) -> int:
    answer = ask(of, question)
    assert isinstance(answer, Word)
    return answer.standing


def test_what_is_no_question_is_refused() -> None:
    answers: list[bytes] = []
    ClusterReception(host()).answer(memoryview(b"\x93nonsense"), answers.append)
    assert isinstance(decode_answer(answers[0]), Never)


def test_an_empty_node_says_its_list_and_no_cluster() -> None:
    assert ask(FakeHost(membership=None), Who()) == Word(11, 0, list_digest(SEEDS))


def test_a_member_says_its_cluster_and_the_list_that_founded_it() -> None:
    of = host()
    of.seeds_digest = b"what its configuration says now does not matter"
    assert ask(of, Who()) == Word(11, CLUSTER, list_digest(SEEDS), 1, UNSAID)


def test_a_member_is_told_that_it_is_one() -> None:
    of = host()
    assert standing(of, Who(CLUSTER, 2, 22, 5)) == MEMBER
    assert of.hurried == [2]  # It is there, then.


def test_who_was_removed_is_told_so_though_its_id_was_the_highest() -> None:
    assert standing(host(), Who(CLUSTER, 4, 44, 5)) == REMOVED
    assert standing(host(), Who(CLUSTER, 5, 44, 5)) == UNSAID  # given where this node is behind


def test_another_data_directory_in_its_place_is_told() -> None:
    assert standing(host(), Who(CLUSTER, 2, 23, 5)) == REPLACED
    assert standing(host(), Who(CLUSTER, 3, 33, 5)) == UNSAID  # no node has claimed it yet


def test_a_process_that_another_has_followed_is_told() -> None:
    of = host()
    of.superseded.add((2, 5))
    assert standing(of, Who(CLUSTER, 2, 22, 5)) == SUPERSEDED
    assert standing(of, Who(CLUSTER, 2, 22, 6)) == MEMBER


def test_nothing_is_told_by_who_may_be_behind_or_is_of_another_cluster() -> None:
    behind = host()
    behind.is_current = False
    assert standing(behind, Who(CLUSTER, 4, 44, 5)) == UNSAID
    assert standing(host(), Who(CLUSTER + 1, 4, 44, 5)) == UNSAID
    assert standing(host(), Who(0, 0, 44, 5)) == UNSAID


def test_a_new_node_gets_an_id_and_the_way_to_all_others() -> None:
    of = host()
    me = Member(0, "n4", 44, "d", 1, host_id="h", zone="z", amqp="d:2", management="d:3")
    answer = ask(of, TakeMeIn(me, b""))
    assert isinstance(answer, Taken)
    assert (answer.member, answer.cluster_id, answer.founders) == (4, CLUSTER, SEEDS)
    assert not answer.is_founder
    assert answer.peers == (
        PeerAddress(1, "a", 1, 11),
        PeerAddress(2, "b", 1, 22),
        PeerAddress(3, "c", 1, 0),
    )
    assert of.definitions is not None
    assert of.definitions.proposed == [AddMember("n4", 44, "d", 1, "h", "z", "d:2", "d:3")]
    assert ask(of, TakeMeIn(me, b"")) == answer  # The answer was lost, and it asks again.


def test_a_founding_place_that_nobody_has_is_given_to_its_address() -> None:
    answer = ask(host(), TakeMeIn(Member(0, "n3", 33, "c", 1), b""))
    assert isinstance(answer, Taken)
    assert (answer.member, answer.is_founder) == (3, True)


def test_a_founding_place_in_which_somebody_may_have_voted_is_not_given_to_another() -> None:
    of = host()
    of.seen[3] = 32
    answer = ask(of, TakeMeIn(Member(0, "n3", 33, "c", 1), b""))
    assert isinstance(answer, NotNow)
    assert "have the cluster forget member 3" in answer.reason
    of.seen[3] = 33
    assert isinstance(ask(of, TakeMeIn(Member(0, "n3", 33, "c", 1), b"")), Taken)


def test_nobody_is_taken_in_before_there_is_a_cluster() -> None:
    me = Member(0, "n4", 44, "d", 1)
    for of in (FakeHost(), FakeHost(definitions=FakeDefinitions(0)), FakeHost(membership=None)):
        assert isinstance(ask(of, TakeMeIn(me, b"")), NotNow)


def test_a_refusal_of_the_definitions_is_for_good_and_a_timeout_is_not() -> None:
    of = host()
    assert of.definitions is not None
    me = Member(0, "n4", 44, "d", 1)
    of.definitions.refusals = [f"not added {TIMED_OUT}", "this data directory was removed"]
    assert ask(of, TakeMeIn(me, b"")) == NotNow(f"not added {TIMED_OUT}")
    assert ask(of, TakeMeIn(me, b"")) == Never("this data directory was removed")


# Members that make sure of their place


def introduced(definitions: FakeDefinitions, me: Member) -> None:
    asyncio.run(introduce(definitions, me))


def test_a_member_that_is_known_as_it_is_has_one_command_committed() -> None:
    definitions = FakeDefinitions(CLUSTER, *ROWS)
    introduced(definitions, ROWS[1])
    assert definitions.proposed == [Batch(())]


def test_a_founder_claims_its_place() -> None:
    definitions = FakeDefinitions(CLUSTER, *ROWS)
    me = Member(3, "n3", 33, "c", 1, host_id="h")
    introduced(definitions, me)
    assert definitions.rows[3] == me


def test_a_member_that_has_moved_says_so_and_is_not_in_maintenance_any_more() -> None:
    row = Member(2, "n2", 22, "b", 1, draining=True)
    definitions = FakeDefinitions(CLUSTER, ROWS[0], row)
    introduced(definitions, Member(2, "n2", 22, "elsewhere", 2))
    moved = Member(2, "n2", 22, "elsewhere", 2)
    assert definitions.proposed == [Batch(()), PutMember(moved)]


def test_a_member_that_was_removed_or_replaced_does_not_go_on() -> None:
    with pytest.raises(EnteringFailed, match="was removed"):
        introduced(FakeDefinitions(CLUSTER, *ROWS), Member(4, "n4", 44, "d", 1))
    with pytest.raises(EnteringFailed, match="another data directory"):
        introduced(FakeDefinitions(CLUSTER, *ROWS), Member(2, "n2", 23, "b", 1))


def test_without_a_majority_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(introducing, "PAUSE_S", 0.001)
    definitions = FakeDefinitions(CLUSTER, *ROWS)
    definitions.refusals = [f"failed {TIMED_OUT}"] * 3
    introduced(definitions, ROWS[1])
    assert definitions.proposed == [Batch(())] * 4
    assert len([text for text in caplog.messages if "no majority" in text]) == 1


@dataclass
class Waiting:
    """Keeps `node.cluster.membership.introducing.Standing` and `Asks`."""

    answers: list[bytes | str]
    held: Membership = HELD
    boot: int = 9
    asked: list[tuple[str, int]] = field(default_factory=list)

    def unreachable_peers(self) -> list[PeerAddress]:
        return [PeerAddress(2, "b", 1), PeerAddress(3, "c", 1)]

    async def ask(self, host: str, port: int, question: bytes) -> bytes:
        self.asked.append((host, port))
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise AskFailed(answer)
        return answer


def test_a_member_that_nobody_links_to_hears_that_it_was_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(introducing, "PAUSE_S", 0.001)
    words = [encode(Word(22, CLUSTER, b"", 2, code)) for code in (UNSAID, MEMBER, REMOVED)]
    waiting = Waiting(["cannot connect", b"\x93nonsense", *words])
    told: list[str] = []
    asyncio.run(watch(waiting, waiting, told.append))
    assert told == [STANDING_TEXTS[REMOVED]]
    assert waiting.asked == [("b", 1), ("c", 1), ("c", 1), ("b", 1), ("c", 1)]


def test_the_first_leader_waits_until_its_cluster_is_founded() -> None:
    definitions = FakeDefinitions(0)

    async def found() -> None:
        introduced = asyncio.create_task(introduce(definitions, ROWS[0]))
        await asyncio.sleep(0)
        assert not introduced.done()
        definitions.rows = {row.id: row for row in ROWS}
        definitions.cluster_id = CLUSTER
        await introduced

    asyncio.run(found())
    assert definitions.proposed == [Batch(())]

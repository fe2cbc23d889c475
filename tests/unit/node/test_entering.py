"""Empty nodes find each other or a cluster, over a net that a test can break."""

import asyncio
from collections.abc import Coroutine

import pytest

from node.cluster.membership import entering
from node.cluster.membership.entering import Entering
from node.cluster.membership.forming import list_digest
from node.cluster.membership.membership_file import EnteringFailed, Membership, PeerAddress
from node.cluster.membership.questions import (
    Answer,
    Never,
    NotNow,
    TakeMeIn,
    Taken,
    Who,
    Word,
    decode_question,
    encode,
)
from node.cluster.peering.asking import AskFailed
from node.config.config_layers import Address
from queues.definitions.members import Member

SEEDS = ("a:1", "b:1", "c:1")
CLUSTER = 0xC0FFEE


class Net:
    """Keeps `Asks`: what is asked of an address goes to the node that is there."""

    def __init__(self) -> None:
        self.words: dict[str, Answer] = {}  # of seeds that are up
        self.answers: dict[str, list[Answer]] = {}  # to TakeMeIn, one after the other
        self.asked: list[TakeMeIn] = []
        self.rounds = 0
        # After so many questions one is up, or down.
        self.on_asked: dict[int, tuple[str, Answer | None]] = {}

    async def ask(self, host: str, port: int, question: bytes) -> bytes:
        await asyncio.sleep(0)
        address = f"{host}:{port}"
        self.rounds += 1
        if self.rounds in self.on_asked:
            text, answer = self.on_asked[self.rounds]
            self.words.pop(text, None)
            if answer is not None:
                self.words[text] = answer
        if address not in self.words:
            raise AskFailed("cannot connect: refused")
        asked = decode_question(question)
        if isinstance(asked, Who):
            return encode(self.words[address])
        self.asked.append(asked)
        return encode(self.answers[address].pop(0))


def word(address: str, cluster_id: int = 0, seeds: tuple[str, ...] = SEEDS) -> Word:
    return Word(1000 + ord(address[0]), cluster_id, list_digest(seeds))


def node(net: Net, address: str, seeds: tuple[str, ...] = SEEDS) -> Entering:
    host, _, port = address.partition(":")
    me = Member(0, f"n@{host}", 7, host, int(port))
    pairs = [text.partition(":") for text in seeds]
    return Entering(net, me, [Address(host, int(port)) for host, _, port in pairs])


def run(work: Coroutine[object, object, Membership]) -> Membership:
    async def bounded() -> Membership:
        async with asyncio.timeout(10):
            return await work

    return asyncio.run(bounded())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entering, "PAUSE_MS_MIN", 1)
    monkeypatch.setattr(entering, "PAUSE_MS_MAX", 1)


def failure(entered: Coroutine[object, object, Membership]) -> str:
    with pytest.raises(EnteringFailed) as caught:
        run(entered)
    return str(caught.value)


def test_a_list_of_one_is_founded_at_once() -> None:
    held = run(node(Net(), "a:1", ("a:1",)).run())
    assert held == Membership("n@a", 7, 1, 0, ("a:1",), True, 2, ())


def test_a_majority_founds_with_the_places_of_the_list() -> None:
    net = Net()
    net.on_asked = {6: ("c:1", word("c:1"))}
    held = run(node(net, "b:1").run())
    assert (held.member, held.cluster_id, held.founders) == (2, 0, SEEDS)
    assert held.is_founder
    assert held.given_below == 4
    assert held.peers == (PeerAddress(1, "a", 1), PeerAddress(3, "c", 1))
    assert net.rounds >= 6  # It went on asking.


def test_a_seed_that_is_gone_again_does_not_count() -> None:
    five = ("a:1", "b:1", "c:1", "d:1", "e:1")
    net = Net()
    net.words = {"c:1": word("c:1", seeds=five)}
    net.on_asked = {
        9: ("c:1", None),
        20: ("d:1", word("d:1", seeds=five)),
        40: ("e:1", word("e:1", seeds=five)),
    }
    run(node(net, "b:1", five).run())
    assert net.rounds >= 40  # Three of five at one time, and not one after the other.


def test_a_seed_with_another_list_ends_it() -> None:
    net = Net()
    net.words = {"a:1": word("a:1", seeds=("a:1", "b:1"))}
    assert "--seed must be the same on every node" in failure(node(net, "b:1").run())


def test_a_seed_that_knows_a_cluster_is_asked_to_take_the_node_in() -> None:
    net = Net()
    net.words = {"a:1": word("a:1"), "c:1": word("c:1", CLUSTER)}
    peers = (PeerAddress(1, "a", 1, 5), PeerAddress(4, "d", 1, 6), PeerAddress(9, "d", 1, 7))
    net.answers = {"c:1": [NotNow("no majority"), Taken(4, CLUSTER, SEEDS, False, peers)]}
    held = run(node(net, "d:1").run())
    assert (held.member, held.cluster_id, held.founders) == (4, CLUSTER, SEEDS)
    assert not held.is_founder
    assert held.given_below == 10
    assert held.peers == (peers[0], peers[2])
    assert [asked.member.name for asked in net.asked] == ["n@d", "n@d"]
    assert net.asked[0].list_digest == list_digest(SEEDS)


def test_another_seed_is_asked_when_one_fails() -> None:
    net = Net()
    net.words = {"a:1": word("a:1", CLUSTER), "c:1": word("c:1", CLUSTER)}
    net.answers = {
        "a:1": [NotNow("not now")],
        "c:1": [Taken(2, CLUSTER, SEEDS, True, ())],
    }
    held = run(node(net, "b:1").run())
    assert (held.member, held.is_founder) == (2, True)


def test_a_refusal_for_good_ends_it() -> None:
    net = Net()
    net.words = {"a:1": word("a:1", CLUSTER)}
    net.answers = {"a:1": [Never("member 3 was removed")]}
    assert failure(node(net, "b:1").run()) == "member 3 was removed"


def test_seeds_of_different_clusters_end_it() -> None:
    net = Net()
    net.words = {"a:1": word("a:1", CLUSTER), "c:1": word("c:1", CLUSTER + 1)}
    assert "different clusters" in failure(node(net, "b:1").run())


def test_why_a_node_waits_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "warren.cluster")
    net = Net()
    net.on_asked = {30: ("a:1", word("a:1"))}
    run(node(net, "b:1").run())
    waits = [text for text in caplog.messages if text.startswith("waits for its cluster")]
    assert waits == ["waits for its cluster: 1 of 3 seeds are here, 2 are needed"]
    assert sum(text.startswith("seed c:1: cannot connect") for text in caplog.messages) == 1

"""Who is there: proofs, refusals, and what is made of wrong ones."""

import hmac
import struct

import pytest

from tests.unit.wire.peer.two_ends import (
    CLUSTER_ID,
    KEY,
    OTHER_KEY,
    PAIR,
    accepter,
    dialer,
    feed,
    identity,
    nonce,
    open_pair,
    output,
    shake,
)
from warren.wire.peer.codes import (
    ASK_ROLE,
    BULK_ROLE,
    CLUSTER,
    FORGOTTEN,
    PROOF,
    SAME_NODE,
    TARGET,
    VERSION,
    refusal_text,
)
from warren.wire.peer.connection import Event, Failed, PeerConnection, Proven
from warren.wire.peer.handshake import (
    HEAD_BYTES,
    HELLO_BYTES,
    PROOF_BYTES,
    Identity,
    link_cluster_id,
)


def failures(events: list[tuple[str, Event]]) -> dict[str, tuple[int, str]]:
    return {side: (event.code, event.text) for side, event in events if isinstance(event, Failed)}


def test_both_ends_prove_themselves_and_know_who_the_other_is() -> None:
    first = dialer(identity(1), 2, role=BULK_ROLE)
    second = accepter(identity(2))
    events = shake(first, second)
    claims = {side: event.claim for side, event in events if isinstance(event, Proven)}
    assert len(events) == 2
    assert first.is_open()
    assert second.is_open()
    theirs = claims["accepter"]
    assert (theirs.node_id, theirs.target, theirs.incarnation, theirs.boot) == (1, 2, 1001, 2001)
    assert (theirs.role, theirs.pair, theirs.cluster_id) == (BULK_ROLE, PAIR, CLUSTER_ID)
    answer = claims["dialer"]
    assert (answer.node_id, answer.target, answer.incarnation) == (2, 1, 1002)


def test_the_bytes_of_the_handshake_are_these() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    hello = output(first)
    assert hello == struct.pack(
        "<8sBBBBHHQQQQQ16s32s",
        b"WARRENPL", 1, 0, 0, 0, 1, 2, 1, 2, 1001, 2001, PAIR, CLUSTER_ID, nonce(1),
    )  # fmt: skip
    feed(second, hello)
    answer = output(second)
    assert answer == struct.pack(
        "<8sBBBBHHQQQQQ16s32s",
        b"WARRENPL", 1, 0, 0, 0, 2, 2, 2, 1, 1002, 2002, PAIR, CLUSTER_ID, nonce(100),
    )  # fmt: skip
    feed(first, answer)
    proof = output(first)
    head = struct.pack("<8sBBBBHH", b"WARRENPL", 2, 0, 0, 0, 2, 2)
    key = hmac.digest(b"sixteen bytes or more", b"warren peer link: key", "sha256")
    label = b"warren peer link: dialer"
    assert proof == head + hmac.digest(key, label + hello + answer + head, "sha256")
    feed(second, proof)
    label = b"warren peer link: accepter"
    said = label + hello + answer + proof + head
    assert output(second) == head + hmac.digest(key, said, "sha256")
    assert (len(hello), len(proof)) == (HELLO_BYTES, PROOF_BYTES)


def test_any_split_of_the_handshake_gives_the_same() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    while not (first.is_open() and second.is_open()):
        for octet in output(first):
            feed(second, bytes([octet]))
        for octet in output(second):
            feed(first, bytes([octet]))


def test_another_secret_is_refused_at_the_accepter_and_the_dialer_is_told() -> None:
    told = failures(shake(dialer(identity(1, OTHER_KEY), 2), accepter(identity(2))))
    assert told["accepter"] == (PROOF, refusal_text(PROOF))
    code, text = told["dialer"]
    assert code == PROOF
    assert text.startswith("refused without a proof")


def test_an_accepter_that_cannot_prove_itself_is_not_believed() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    feed(second, output(first))
    feed(first, output(second))
    feed(second, output(first))
    verdict = output(second)
    wrong = verdict[:HEAD_BYTES] + bytes(32)
    (event,) = feed(first, wrong)
    assert isinstance(event, Failed)
    assert event.code == PROOF
    assert not first.is_open()


def test_what_follows_a_wrong_proof_is_never_parsed() -> None:
    second = accepter(identity(2))
    feed(second, output(dialer(identity(1), 2)))
    output(second)
    head = struct.pack("<8sBBBBHH", b"WARRENPL", 2, 0, 0, 0, 1, 1)
    huge = struct.pack("<IBBBB", 0xFFFFFFFF, 3, 0, 9, 9)  # would be a fault of its own
    (event,) = second.receive(head + bytes(32) + huge, 0)
    assert isinstance(event, Failed)
    assert event.text == refusal_text(PROOF)
    assert second.receive(huge, 0) == []
    assert len(output(second)) == PROOF_BYTES


def test_nothing_behind_a_right_proof_is_parsed_before_the_host_has_decided() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    feed(second, output(first))
    feed(first, output(second))
    huge = struct.pack("<IBBBB", 0xFFFFFFFF, 3, 0, 0, 0)
    (event,) = second.receive(output(first) + huge, 0)
    assert isinstance(event, Proven)
    second.refuse(FORGOTTEN)
    assert second.receive(huge, 0) == []
    (told,) = feed(first, output(second))
    assert isinstance(told, Failed)
    assert (told.code, told.text) == (FORGOTTEN, f"refused: {refusal_text(FORGOTTEN)}")


def test_a_recorded_dialer_is_refused_when_it_is_played_again() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    hello = output(first)
    feed(second, hello)
    feed(first, output(second))
    proof = output(first)
    feed(second, proof)
    assert second.is_open()
    again = accepter(identity(2), seed=101)
    feed(again, hello)
    (event,) = feed(again, proof)
    assert isinstance(event, Failed)
    assert event.code == PROOF


def test_a_recorded_accepter_is_refused_when_it_is_played_again() -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    feed(second, output(first))
    hello = output(second)
    feed(first, hello)
    feed(second, output(first))
    verdict = output(second)
    again = dialer(identity(1), 2, seed=3)
    feed(again, hello)
    (event,) = feed(again, verdict)
    assert isinstance(event, Failed)
    assert event.code == PROOF


def test_what_a_dialer_says_is_no_proof_when_it_is_sent_back_to_it() -> None:
    first = dialer(identity(1), 1)  # even a node that expects itself there
    hello = bytearray(output(first))
    hello[12:16] = struct.pack("<HH", 2, 2)  # as if it had chosen
    feed(first, bytes(hello))
    (event,) = feed(first, output(first))
    assert isinstance(event, Failed)
    assert event.code == PROOF


def test_a_node_that_reaches_itself_says_so() -> None:
    told = failures(shake(dialer(identity(1), 1), accepter(identity(1))))
    assert told["accepter"] == (SAME_NODE, refusal_text(SAME_NODE))
    assert told["dialer"][0] == SAME_NODE


def test_another_cluster_is_refused_on_both_sides() -> None:
    other = identity(2, cluster_id=b"other-cluster-id")
    told = failures(shake(dialer(identity(1), 2), accepter(other)))
    assert told["accepter"] == (CLUSTER, refusal_text(CLUSTER))
    assert told["dialer"] == (CLUSTER, f"refused: {refusal_text(CLUSTER)}")


def test_another_node_than_the_one_that_was_dialed_is_refused() -> None:
    told = failures(shake(dialer(identity(1), 2), accepter(identity(3))))
    assert told["accepter"][0] == TARGET
    assert told["dialer"][0] == TARGET


def test_a_refusal_that_was_forged_is_told_as_one_without_proof() -> None:
    first = dialer(identity(1), 2)
    output(first)
    head = struct.pack("<8sBBBBHH", b"WARRENPL", 2, VERSION, 0, 0, 3, 4)
    (event,) = feed(first, head + bytes(32))
    assert isinstance(event, Failed)
    assert event.code == VERSION
    assert "without a proof" in event.text


@pytest.mark.parametrize("versions", [(3, 9), (0, 0)])
def test_no_common_version_is_refused_before_any_proof(versions: tuple[int, int]) -> None:
    hello = bytearray(output(dialer(identity(1), 2)))
    hello[12:16] = struct.pack("<HH", *versions)
    second = accepter(identity(2))
    (event,) = feed(second, bytes(hello))
    assert isinstance(event, Failed)
    assert event.code == VERSION
    assert f"it speaks {versions[0]} to {versions[1]}" in event.text
    refusal = output(second)
    assert refusal[9] == VERSION
    assert refusal[HEAD_BYTES:] == bytes(32)


def test_the_highest_common_version_is_chosen() -> None:
    first = dialer(identity(1), 2)
    hello = bytearray(output(first))
    hello[12:16] = struct.pack("<HH", 1, 7)
    second = accepter(identity(2))
    assert feed(second, bytes(hello)) == []
    assert struct.unpack_from("<HH", output(second), 12) == (2, 2)
    assert second.version() == 2


def test_a_peer_of_version_1_is_spoken_to_in_version_1() -> None:
    hello = bytearray(output(dialer(identity(1), 2)))
    hello[12:16] = struct.pack("<HH", 1, 1)
    second = accepter(identity(2))
    assert feed(second, bytes(hello)) == []
    assert second.version() == 1
    first = dialer(identity(1), 2)
    output(first)
    answer = output(second)
    assert feed(first, answer) == []
    assert first.version() == 1


def test_a_version_that_was_talked_down_on_the_way_makes_the_proof_wrong() -> None:
    first = dialer(identity(1), 2)
    hello = bytearray(output(first))
    hello[12:16] = struct.pack("<HH", 1, 3)  # as if a newer dialer had been made older, or back
    second = accepter(identity(2))
    feed(second, bytes(hello))
    feed(first, output(second))
    (event,) = feed(second, output(first))
    assert isinstance(event, Failed)
    assert event.code == PROOF


@pytest.mark.parametrize(
    ("at", "octet", "words"),
    [
        (0, 0x47, "not the peer link"),
        (7, 0x00, "not the peer link"),
        (8, 2, "message 2 of the handshake, where 1"),
        (8, 9, "message 9 of the handshake, where 1"),
        (9, 1, "a hello is malformed"),
        (10, 3, "malformed"),
        (11, 1, "malformed"),
        (13, 5, "malformed"),  # versions the wrong way round
        (23, 0x80, "a hello is malformed"),  # an id of 64 bits
    ],
)
def test_a_malformed_hello_is_refused_without_an_answer(at: int, octet: int, words: str) -> None:
    hello = bytearray(output(dialer(identity(1), 2)))
    hello[at] = octet
    second = accepter(identity(2))
    (event,) = feed(second, bytes(hello))
    assert isinstance(event, Failed)
    assert words in event.text
    assert output(second) == b""


@pytest.mark.parametrize("offset", [16, 24, 32, 40, 48])
def test_a_hello_with_a_number_of_zero_is_malformed(offset: int) -> None:
    hello = bytearray(output(dialer(identity(1), 2)))
    hello[offset : offset + 8] = bytes(8)
    (event,) = feed(accepter(identity(2)), bytes(hello))
    assert isinstance(event, Failed)
    assert "malformed" in event.text


def test_a_stranger_that_speaks_something_else_is_known_by_its_first_byte() -> None:
    for greeting in (b"G", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01"):
        (event,) = feed(accepter(identity(2)), greeting)
        assert isinstance(event, Failed)
        assert "not the peer link" in event.text


@pytest.mark.parametrize("change", [(10, 1), (48, 78)])
def test_an_answer_to_another_hello_is_refused(change: tuple[int, int]) -> None:
    first = dialer(identity(1), 2)
    second = accepter(identity(2))
    feed(second, output(first))
    answer = bytearray(output(second))
    answer[change[0]] = change[1]
    (event,) = feed(first, bytes(answer))
    assert isinstance(event, Failed)
    assert "not to this hello" in event.text


def test_every_changed_bit_of_the_handshake_ends_it() -> None:
    def tries(which: int, bit: int) -> bool:
        first = dialer(identity(1), 2)
        second = accepter(identity(2))
        sides: list[PeerConnection] = [second, first]
        sources: list[PeerConnection] = [first, second]
        for step in range(4):
            message = bytearray(output(sources[step % 2]))
            if step == which and message:
                message[bit // 8 % len(message)] ^= 1 << bit % 8
            feed(sides[step % 2], bytes(message))
        return first.is_open() and second.is_open()

    assert tries(9, 0)
    for which, size in enumerate((HELLO_BYTES, HELLO_BYTES, PROOF_BYTES, PROOF_BYTES)):
        for bit in range(0, 8 * size, 3):
            assert not tries(which, bit), (which, bit)


def test_the_key_of_a_secret_does_not_show_in_what_is_sent() -> None:
    first, second = open_pair()
    assert KEY not in output(first) + output(second)


# Of clusters that are being founded, and of questions

FOUNDING = b"founding list of three nodes"


def link_identity(node_id: int, cluster_id: int, founding: bytes = FOUNDING) -> Identity:
    return identity(node_id, cluster_id=link_cluster_id(founding, cluster_id))


@pytest.mark.parametrize(("mine", "theirs"), [(0, 0), (0, 5), (5, 0), (5, 5)])
def test_a_node_that_does_not_know_its_cluster_yet_is_let_in(mine: int, theirs: int) -> None:
    first = dialer(link_identity(1, mine), 2)
    second = accepter(link_identity(2, theirs))
    shake(first, second)
    assert first.is_open()
    assert second.is_open()


def test_two_clusters_of_one_founding_list_stay_apart() -> None:
    told = failures(shake(dialer(link_identity(1, 5), 2), accepter(link_identity(2, 6))))
    assert told["accepter"][0] == CLUSTER


def test_nodes_with_different_founding_lists_stay_apart_before_they_know_a_cluster() -> None:
    other = link_identity(2, 0, b"another list")
    told = failures(shake(dialer(link_identity(1, 0), 2), accepter(other)))
    assert told["accepter"][0] == CLUSTER


def test_whoever_asks_needs_to_know_neither_node_nor_cluster() -> None:
    mine = identity(1)
    first = dialer(mine, 1 << 40, role=ASK_ROLE)
    second = accepter(identity(2, cluster_id=b"other-cluster-id"))
    events = shake(first, second)
    claims = {side: event.claim for side, event in events if isinstance(event, Proven)}
    assert first.is_open()
    assert second.is_open()
    assert (claims["accepter"].role, claims["accepter"].node_id) == (ASK_ROLE, 1001)
    assert (claims["dialer"].role, claims["dialer"].node_id) == (ASK_ROLE, 1002)


def test_whoever_asks_has_to_know_the_secret() -> None:
    first = dialer(identity(1, OTHER_KEY), 2, role=ASK_ROLE)
    told = failures(shake(first, accepter(identity(2))))
    assert told["accepter"] == (PROOF, refusal_text(PROOF))


def test_a_node_that_asks_itself_says_so() -> None:
    told = failures(shake(dialer(identity(1), 9, role=ASK_ROLE), accepter(identity(1))))
    assert told["accepter"][0] == SAME_NODE
    assert told["dialer"][0] == SAME_NODE

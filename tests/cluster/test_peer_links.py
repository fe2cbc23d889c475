"""Links between nodes over real sockets on this machine."""

import ssl
import time
from dataclasses import dataclass
from functools import partial

import pytest
from msgspec import structs

from node.cluster.peering.link_settings import LinkSettings
from tests.cluster.peer_nodes import LOOPBACK, QUICK, Member, identity, run
from warren.wire.peer.codes import INCARNATION, TWICE, refusal_text

CONTROL = 0
BULK = 1


def test_two_nodes_link_up_and_each_batch_comes_once_in_order() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            await one.meets(two)
            assert ("connected", 2, 1002) in one.user.events
            assert ("connected", 1, 1001) in two.user.events
            for number in range(500):
                one.links.send(2, BULK, [b"%d" % number, b"!" * (number % 7)])
                one.links.send(2, CONTROL, [b"c%d" % number])
                two.links.send(1, BULK, [b"%d" % number])
            await two.user.until(lambda: len(two.user.batches) == 1000)
            await one.user.until(lambda: len(one.user.batches) == 500)
            told = [content for _, lane, content in two.user.batches if lane == BULK]
            assert told == [b"%d" % number + b"!" * (number % 7) for number in range(500)]
            told = [content for _, lane, content in two.user.batches if lane == CONTROL]
            assert told == [b"c%d" % number for number in range(500)]
            assert [each[2] for each in one.user.batches] == [b"%d" % n for n in range(500)]

    run(story())


def test_only_the_node_with_the_lower_id_dials() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            two.knows(one)
            one.links.add_peer(3, LOOPBACK, two.port)  # no node is there
            one.knows(two)
            await two.user.until(lambda: two.links.is_connected(1))
            await one.user.until(lambda: one.links.is_connected(2))
            assert one.links.status(2) is not None
            assert (one.user.count("connected"), two.user.count("connected")) == (1, 1)

    run(story())


def test_a_peer_is_dialed_where_the_way_to_it_leads() -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            ways = structs.replace(QUICK, routes={(LOOPBACK, 1): (LOOPBACK, two.port)})
            async with Member(identity(1), ways) as one:
                two.knows(one)
                one.links.add_peer(2, LOOPBACK, 1)
                await one.user.until(lambda: one.links.is_connected(2))

    run(story())


def test_beats_are_answered_on_both_sides_and_the_round_is_known() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            await one.meets(two)
            await one.user.until(lambda: one.user.answers >= 5)
            await two.user.until(lambda: two.user.answers >= 5)
            status = one.links.status(2)
            assert status is not None
            assert 0 < status.rtt_ns < 5_000_000_000
            assert status.is_connected

    run(story())


def test_a_message_of_many_frames_arrives_whole_and_others_pass_it() -> None:
    async def story() -> None:
        settings = structs.replace(
            QUICK, beat_interval_ms=10_000, silence_ms=60_000
        )  # none helps along
        async with Member(identity(1), settings) as one, Member(identity(2), settings) as two:
            await one.meets(two)
            large = bytes(range(256)) * 80_000
            one.links.send(2, BULK, [large[:1000], large[1000:]])
            one.links.send(2, 2, [b"of another lane"])
            one.links.send(2, CONTROL, [b"control"])
            await two.user.until(lambda: len(two.user.batches) == 3)
            assert two.user.batches[-1] == (1, BULK, large)

    run(story())


def test_a_full_peer_is_told_and_takes_more_once_it_has_drained() -> None:
    async def story() -> None:
        settings = LinkSettings(beat_interval_ms=20, peer_bytes_max=1 << 20)
        async with Member(identity(1), settings) as one, Member(identity(2)) as two:
            await one.meets(two)
            sent = 0
            while not one.links.is_full(2):
                one.links.send(2, BULK, [bytes(100_000)])
                sent += 1
                assert sent < 1000
            one.links.send(2, BULK, [b"too much"])
            assert one.links.dropped == 1
            await one.user.until(lambda: one.user.drains >= 1)
            assert not one.links.is_full(2)
            one.links.send(2, BULK, [b"last"])
            await two.user.until(lambda: two.user.batches[-1:] == [(1, BULK, b"last")])
            assert len(two.user.batches) == sent + 1

    run(story())


def test_what_is_sent_without_a_link_is_lost_and_counted() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            one.links.send(2, BULK, [b"to an unknown node"])
            one.links.add_peer(2, LOOPBACK, two.port)  # which does not know node 1
            one.links.send(2, BULK, [b"not linked"])
            assert one.links.is_full(2)
            assert one.links.dropped == 2
            status = one.links.status(2)
            assert status is not None
            assert status.dropped == 1
            assert one.links.status(9) is None

    run(story())


def test_a_node_that_stops_is_lost_at_once_and_comes_back_by_itself() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one:
            two = Member(identity(2))
            async with two:
                await one.meets(two)
            await one.user.until(lambda: one.user.count("lost") == 1, seconds=1.0)
            assert not one.links.is_connected(2)
            again = Member(identity(2, boot=3000))
            again.port = two.port
            async with again:
                again.knows(one)
                await one.user.until(lambda: one.links.is_connected(2))
                await again.user.until(lambda: again.links.is_connected(1))
                one.links.send(2, BULK, [b"hello again"])
                await again.user.until(lambda: len(again.user.batches) == 1)

    run(story())


def test_a_removed_node_is_lost_and_not_let_in_again_until_it_is_added() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            await one.meets(two)
            two.links.remove_peer(1)
            assert two.user.reasons() == ["the node was removed"]
            await one.user.until(lambda: one.user.count("lost") == 1)
            await one.user.until_unreachable(2, "the node was removed from the cluster")
            two.knows(one)
            await one.user.until(lambda: one.links.is_connected(2))

    run(story())


def test_a_node_with_another_data_directory_is_refused_and_told_as_a_conflict() -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            one = Member(identity(1))
            async with one:
                await one.meets(two)
            async with Member(identity(1, incarnation=5555)) as wiped:
                wiped.knows(two)
                await two.user.until(lambda: len(two.user.conflicts) > 0)
                assert two.user.conflicts == [(1, refusal_text(INCARNATION))]
                await wiped.user.until_unreachable(2, refusal_text(INCARNATION))
                assert not two.links.is_connected(1)
                two.links.remove_peer(1)
                two.links.add_peer(1, LOOPBACK, wiped.port, incarnation=5555)
                await two.user.until(lambda: two.links.is_connected(1))

    run(story())


def test_two_processes_with_one_identity_are_told_apart() -> None:
    async def story() -> None:
        async with Member(identity(2)) as two, Member(identity(1, boot=11)) as first:
            await first.meets(two)
            async with Member(identity(1, boot=12)) as copy:
                copy.knows(two)
                await two.user.until(lambda: len(two.user.conflicts) > 0)
                assert two.user.conflicts == [(1, refusal_text(TWICE))]
                await first.user.until_unreachable(2, refusal_text(TWICE))
                assert copy.links.is_connected(2)

    run(story())


def test_a_new_link_ends_the_old_one_first() -> None:
    async def story() -> None:
        async with Member(identity(2)) as two, Member(identity(1, boot=11)) as first:
            await first.meets(two)
            async with Member(identity(1, boot=12)) as second:
                second.knows(two)
                await two.user.until(lambda: two.user.count("connected") == 2)
                assert [event[0] for event in two.user.events] == [
                    "connected",
                    "lost",
                    "connected",
                ]
                assert two.user.reasons() == ["replaced by a new connection"]

    run(story())


def test_dropping_a_peer_in_the_midst_of_a_read_ends_what_it_tells() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            await one.meets(two)
            two.user.on_received = lambda member, lane, content: two.links.drop(member, "nonsense")
            for number in range(10):
                one.links.send(2, BULK, [b"%d" % number])
            await two.user.until(lambda: two.user.count("lost") == 1)
            two.user.on_received = None
            assert two.user.batches == [(1, BULK, b"0")]
            assert two.user.reasons() == ["nonsense"]
            await two.user.until(lambda: two.user.count("connected") == 2)

    run(story())


def test_three_nodes_are_linked_each_with_each() -> None:
    async def story() -> None:
        async with (
            Member(identity(1)) as one,
            Member(identity(2)) as two,
            Member(identity(3)) as three,
        ):
            members = (one, two, three)
            for member in members:
                member.knows(*(other for other in members if other is not member))
            for member in members:
                await member.user.until_count("connected", 2)
            three.links.send(1, CONTROL, [b"to one"])
            await one.user.until(lambda: one.user.batches == [(3, CONTROL, b"to one")])

    run(story())


def test_links_are_ended_when_a_peer_gets_another_address() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            await one.meets(two)
            async with Member(identity(2, boot=77)) as moved:
                moved.knows(one)
                one.links.add_peer(2, LOOPBACK, moved.port)
                await moved.user.until(lambda: moved.links.is_connected(1))
                await one.user.until_count("connected", 2)
                one.links.add_peer(2, LOOPBACK, moved.port)  # as it is: nothing happens
                assert one.links.is_connected(2)

    run(story())


@dataclass(frozen=True)
class Pair:
    """Of an accepter and of a dialer."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def contexts() -> Pair:
    """They trust one certificate."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(accepting)
    dialing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(dialing)
    return Pair(accepting, dialing)


def test_links_over_tls_carry_the_same() -> None:
    async def story() -> None:
        pair = contexts()
        one = Member(identity(1), QUICK, pair)
        two = Member(identity(2), QUICK, pair)
        async with one, two:
            await one.meets(two)
            large = bytes(range(256)) * 8000
            one.links.send(2, BULK, [large])
            two.links.send(1, BULK, [large])
            await two.user.until(lambda: two.user.batches == [(1, BULK, large)])
            await one.user.until(lambda: one.user.batches == [(2, BULK, large)])

    run(story())


def test_a_node_without_tls_does_not_get_through_to_one_with_it() -> None:
    async def story() -> None:
        one = Member(identity(1))
        two = Member(identity(2), QUICK, contexts())
        async with one, two:
            one.knows(two)
            two.knows(one)
            await one.user.until_unreachable(2, "")
            assert not one.links.is_connected(2)

    run(story())


def test_what_is_sent_as_soon_as_a_link_is_told_arrives_behind_that_at_the_other_end() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            for member, other in ((one, 2), (two, 1)):
                member.user.on_connected = partial(greet, member, other)
            for round_number in range(1, 11):
                if round_number == 1:
                    await one.meets(two)
                else:
                    one.links.drop(2, "once more")
                    await one.user.until_count("connected", round_number)
                await one.user.until_batches(2 * round_number)
                await two.user.until_batches(2 * round_number)
            assert one.user.reasons() == ["once more"] * 9
            assert [lane for _, lane, _ in two.user.batches].count(CONTROL) == 10

    run(story())


def greet(member: Member, other: int) -> None:
    member.links.send(other, CONTROL, [b"hello"])
    member.links.send(other, BULK, [b"hello"])


def test_a_node_that_stood_still_does_not_hold_the_silence_against_others() -> None:
    async def story() -> None:
        settings = structs.replace(QUICK, silence_ms=200)
        async with Member(identity(1), settings) as one, Member(identity(2), settings) as two:
            await one.meets(two)
            for _ in range(3):
                time.sleep(0.5)  # The whole loop stands still, longer than silence may last.
                await one.user.until_answers(one.user.answers + 4)
            assert (one.user.count("lost"), two.user.count("lost")) == (0, 0)

    run(story())

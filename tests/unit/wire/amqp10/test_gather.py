"""Reads in which several links take turns: every link gets its run, and only what is ordinary."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import BOUNDED, frame, message, messages, transfer
from tests.unit.wire.amqp10.test_transfers import infos, payloads
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Transfer
from warren.wire.amqp10.gather import LINKS_MAX, Gathered, TransferGatherer
from warren.wire.amqp10.transfers import STOP_ODD, STOP_SHORT, Transfers, TransferScanner

FRAME_MAX = 4096


def gather(data: bytes, start: int = 0) -> tuple[list[Gathered], TransferGatherer]:
    gatherer = TransferGatherer(FRAME_MAX)
    return gatherer.scan(data, start), gatherer


def ids(run: Transfers) -> list[int]:
    return [run.id_at(place) for place in range(run.count)]


def info_of(payload: bytes) -> int:
    sections = Sections()
    assert sections.walk(payload, 0, len(payload))
    return sections.info


def turns(count: int, links: int, first: int = 0) -> bytes:
    return b"".join(
        transfer(message(b"%d" % place), (first + place) & 0xFFFFFFFF, place % links)
        for place in range(count)
    )


def test_links_that_take_turns_get_a_run_each() -> None:
    data = turns(300, 3, 0xFFFFFFF0)
    found, gatherer = gather(b"rest" + data, 4)
    (session,) = found
    assert (session.channel, session.delivery_id, session.count) == (0, 0xFFFFFFF0, 300)
    for handle, run in enumerate(session.runs):
        assert (run.handle, run.count, run.settled) == (handle, 100, False)
        assert ids(run) == [(0xFFFFFFF0 + place) & 0xFFFFFFFF for place in range(handle, 300, 3)]
        assert payloads(run) == [message(b"%d" % place) for place in range(handle, 300, 3)]
        assert ids(run.head(7)) == ids(run)[:7]
    assert (gatherer.end, gatherer.stop) == (4 + len(data), STOP_SHORT)
    assert gatherer.need == gatherer.end + 8


def test_ids_that_count_up_need_no_table() -> None:
    found, _ = gather(turns(5, 1, 0xFFFFFFFE))
    (run,) = found[0].runs
    assert (run.ids, ids(run)) == (b"", [0xFFFFFFFE, 0xFFFFFFFF, 0, 1, 2])


def test_the_scanner_says_when_links_take_turns() -> None:
    scanner = TransferScanner(FRAME_MAX)
    assert scanner.scan(turns(9, 2), 0, 0) is not None
    assert scanner.mixed
    other_session = transfer(message(), 7, channel=1)
    assert scanner.scan(transfer(message(), 0) + other_session, 0, 0) is not None
    assert scanner.mixed
    for alone in (turns(9, 1), turns(16, 1) + other_session, turns(9, 1) + frame(b"")):
        assert scanner.scan(alone, 0, 0) is not None
        assert not scanner.mixed


@pytest.mark.parametrize(
    "odd",
    [
        transfer(message(), 3, 0),
        transfer(message(), 1, 0),
        transfer(message(), 2, 0, settled=True),
        transfer(message(), 2, 0, more=True),
        transfer(message()[:-1], 2, 0),
        frame(Transfer(handle=0, delivery_id=2, delivery_tag=b"", message_format=1).encoded()),
        transfer(message(), 3, 2),
        frame(b""),
    ],
)
def test_what_does_not_fit_ends_the_gathering(odd: bytes) -> None:
    before = turns(2, 2)
    found, gatherer = gather(before + odd)
    assert [run.count for run in found[0].runs] == [1, 1]
    assert (gatherer.end, gatherer.stop) == (len(before), STOP_ODD)


def test_so_many_links_are_taken_apart_and_no_more() -> None:
    found, _ = gather(turns(LINKS_MAX + 1, LINKS_MAX + 1))
    assert (found[0].count, len(found[0].runs)) == (LINKS_MAX, LINKS_MAX)


def test_nothing_is_gathered_from_nothing() -> None:
    found, gatherer = gather(b"")
    assert (found, gatherer.end, gatherer.stop, gatherer.need) == ([], 0, STOP_SHORT, 8)


sent = st.tuples(st.integers(0, 2), st.integers(0, 3), messages())  # channel, handle, message


@settings(BOUNDED)
@given(st.lists(sent, min_size=1, max_size=12), st.integers(0, 0xFFFFFFFF))
def test_nothing_is_lost_and_each_link_keeps_its_order(
    traffic: list[tuple[int, int, bytes]], first: int
) -> None:
    data = b""
    expected: dict[tuple[int, int], list[tuple[int, bytes, int]]] = {}
    counts = [0, 0, 0]
    for channel, handle, payload in traffic:
        delivery_id = (first + channel + counts[channel]) & 0xFFFFFFFF
        counts[channel] += 1
        data += transfer(payload, delivery_id, handle, channel)
        told = (delivery_id, payload, info_of(payload))
        expected.setdefault((channel, handle), []).append(told)
    found, gatherer = gather(data)
    assert gatherer.end == len(data)
    assert {session.channel: session.count for session in found} == {
        channel: count for channel, count in enumerate(counts) if count
    }
    runs = {(run.channel, run.handle): run for session in found for run in session.runs}
    assert {
        key: list(zip(ids(run), payloads(run), infos(run), strict=True))
        for key, run in runs.items()
    } == expected

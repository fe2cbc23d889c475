"""The feed of events: who joins, who comes back, who does not keep up."""

import asyncio

import pytest

from node.events.event_feed import (
    FOLLOWERS_MAX,
    RING_MAX,
    WAITING_MAX,
    Entry,
    EventFeed,
    FeedFull,
    Follower,
    Lost,
    Watcher,
)
from node.events.events import Event, Events
from tests.unit.node.fake_timers import FakeTimers


class FakeElsewhere:
    """Other nodes. Keeps `Elsewhere`."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None

    def watch(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def unwatch(self) -> None:
        self.watcher = None


class Harness:
    """A feed, and what its time brings."""

    def __init__(self) -> None:
        self.events = Events("n1", lambda: 5)
        self.elsewhere = FakeElsewhere()
        self.timers = FakeTimers()
        self.feed = EventFeed(self.events, self.elsewhere, 0xABC, self.timers.call_later)

    def join(self, last_id: str = "", name: str = "") -> Follower:
        return self.feed.join(lambda each: name in ("", each), last_id)


def taken(follower: Follower) -> list[str | Lost]:
    entries = asyncio.run(follower.take(0.001))
    assert entries is not None
    return [each.event.name if isinstance(each, Entry) else each for each in entries]


def id_at(harness: Harness, number: int) -> str:
    return harness.feed.id_of(number)


def test_who_follows_hears_of_this_node_and_of_others_in_one_row() -> None:
    harness = Harness()
    follower = harness.join()
    harness.events.tell("here")
    assert harness.elsewhere.watcher is not None
    harness.elsewhere.watcher.heard(Event(77, "there", 1, "n2", {}))
    entries = asyncio.run(follower.take(0.001))
    assert entries is not None
    assert [(e.number, e.event.name, e.event.node) for e in entries if isinstance(e, Entry)] == [
        (1, "here", "n1"),
        (2, "there", "n2"),
    ]


def test_without_events_a_follower_waits_no_longer_than_it_is_told() -> None:
    assert taken(Harness().join()) == []


def test_what_a_follower_does_not_want_does_not_wait_for_it() -> None:
    harness = Harness()
    follower = harness.join(name="b")
    for name in ("a", "b", "c"):
        harness.events.tell(name)
    assert taken(follower) == ["b"]


def test_who_comes_back_gets_what_it_has_missed() -> None:
    harness = Harness()
    harness.join()
    for name in ("a", "b", "c"):
        harness.events.tell(name)
    assert taken(harness.join(id_at(harness, 1))) == ["b", "c"]
    assert taken(harness.join(id_at(harness, 3))) == []


@pytest.mark.parametrize(
    "last_id", ["nonsense", "-", "ffff-1", f"{0xABC:016x}-x", f"{0xABC:016x}-9999999999999999999"]
)
def test_an_id_that_is_none_of_this_process_means_that_something_is_lost(last_id: str) -> None:
    harness = Harness()
    harness.join()
    harness.events.tell("a")
    assert taken(harness.join(last_id)) == [Lost(0)]


def test_what_the_ring_has_let_go_is_counted() -> None:
    harness = Harness()
    harness.join()
    for number in range(RING_MAX + 5):
        harness.events.tell(str(number))
    back = taken(harness.join(id_at(harness, 2)))
    assert back[0] == Lost(3)
    assert back[1] == "5"


def test_who_does_not_keep_up_is_told_how_many_it_has_lost_and_cut() -> None:
    harness = Harness()
    follower = harness.join()
    for number in range(WAITING_MAX + 7):
        harness.events.tell(str(number))
    assert follower.is_cut
    last = taken(follower)
    assert len(last) == WAITING_MAX + 1
    assert last[-1] == Lost(7)
    assert asyncio.run(follower.take(0.001)) is None


def test_a_stream_begins_when_others_have_answered_or_after_so_long() -> None:
    harness = Harness()
    harness.join()
    asyncio.run(harness.feed.begun(0.001))
    assert harness.elsewhere.watcher is not None
    harness.elsewhere.watcher.ready()
    asyncio.run(harness.feed.begun(60.0))


def test_no_more_follow_than_there_is_room_for() -> None:
    harness = Harness()
    followers = [harness.join() for _ in range(FOLLOWERS_MAX)]
    with pytest.raises(FeedFull):
        harness.join()
    harness.feed.leave(followers[0])
    harness.join()


def test_others_are_asked_only_while_somebody_follows_and_a_while_after() -> None:
    harness = Harness()
    assert harness.elsewhere.watcher is None
    assert not harness.events.is_watched
    follower = harness.join()
    harness.feed.leave(follower)
    assert harness.elsewhere.watcher is not None
    harness.join()
    assert harness.timers.due[0].cancelled
    assert harness.feed.follower_count == 1


def test_after_a_while_without_followers_ids_of_before_mean_that_something_is_lost() -> None:
    harness = Harness()
    follower = harness.join()
    harness.events.tell("a")
    harness.feed.leave(follower)
    harness.timers.due[0].call()
    assert harness.elsewhere.watcher is None
    assert not harness.events.is_watched
    harness.events.tell("unheard")
    assert taken(harness.join(id_at(harness, 1))) == [Lost(0)]
    harness.events.tell("b")
    assert taken(harness.join(id_at(harness, 1))) == [Lost(0), "b"]


def test_what_another_node_has_lost_is_told_to_all() -> None:
    harness = Harness()
    follower = harness.join()
    assert harness.elsewhere.watcher is not None
    harness.elsewhere.watcher.lost(Lost(4, "n2"))
    assert taken(follower) == [Lost(4, "n2")]


def test_when_the_node_stops_all_streams_end_with_what_waits() -> None:
    harness = Harness()
    follower = harness.join()
    harness.events.tell("a")
    harness.feed.close()
    assert taken(follower) == ["a"]
    assert asyncio.run(follower.take(5.0)) is None

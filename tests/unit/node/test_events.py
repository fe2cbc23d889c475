"""The bus inside a node: order, leaving, and what is kept for those who come later."""

from node.events.events import RING_MAX, Event, Events


def make_events() -> Events:
    return Events("warren@here", lambda: 17)


def test_a_listener_hears_what_is_told_after_it_subscribed() -> None:
    events = make_events()
    heard: list[Event] = []
    events.tell("queue.created", name="before")
    events.subscribe(heard.append)
    events.tell("queue.created", name="one", vhost="/")
    assert heard == [
        Event(2, "queue.created", 17, "warren@here", {"name": "one", "vhost": "/"}),
    ]


def test_who_has_left_hears_no_more_and_the_others_do() -> None:
    events = make_events()
    first: list[Event] = []
    second: list[Event] = []
    leave = events.subscribe(first.append)
    events.subscribe(second.append)
    leave()
    leave()
    events.tell("vhost.created", name="v")
    assert not first
    assert len(second) == 1


def test_a_listener_may_leave_while_it_is_told() -> None:
    events = make_events()
    heard: list[Event] = []
    later: list[Event] = []

    def once(event: Event) -> None:
        heard.append(event)
        leave()

    leave = events.subscribe(once)
    events.subscribe(later.append)
    events.tell("a")
    events.tell("b")
    assert [event.name for event in heard] == ["a"]
    assert [event.name for event in later] == ["a", "b"]


def test_it_is_watched_while_somebody_listens() -> None:
    events = make_events()
    assert not events.is_watched
    leave = events.subscribe(lambda event: None)
    assert events.is_watched
    leave()
    assert not events.is_watched


def test_who_comes_later_gets_what_is_behind_the_event_that_it_knows() -> None:
    events = make_events()
    assert events.since(0) == ([], 0)
    for name in ("a", "b", "c"):
        events.tell(name)
    kept, lost = events.since(1)
    assert ([event.name for event in kept], lost) == (["b", "c"], 0)
    assert events.since(3) == ([], 0)
    assert events.since(99) == ([], 0)


def test_what_the_ring_has_let_go_is_counted_as_lost() -> None:
    events = make_events()
    for number in range(RING_MAX + 10):
        events.tell("tick", number=number)
    kept, lost = events.since(4)
    assert lost == 6
    assert len(kept) == RING_MAX
    assert [event.seq for event in kept] == list(range(11, RING_MAX + 11))
    assert events.since(10)[1] == 0

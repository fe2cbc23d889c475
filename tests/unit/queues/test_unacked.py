"""Unacked against a dict of tags: acknowledging one, many, all, and the unknown."""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.sessions.unacked import HEAD_SLACK, VOID, TagRun, Unacked

BOUNDED = settings(max_examples=250, deadline=None, database=None)

Message = tuple[int, int, int]  # uid, number, message_seq
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "add", "one", "each", "upto", "all", "void", "back", "in", "off"]
        ),
        st.integers(0, 30),
        st.integers(1, 6),
    ),
    max_size=50,
)


def spread(runs: list[TagRun]) -> dict[int, Message]:
    """Each tag of the runs with its message."""
    found: dict[int, Message] = {}
    for run in runs:
        for place in range(run.count):
            assert run.tag + place not in found
            message = (run.uid, run.number, run.first + place)
            found[run.tag + place] = (VOID, 0, 0) if run.uid == VOID else message
    return found


class Both:
    """The same deliveries in an `Unacked` and in a dict."""

    def __init__(self) -> None:
        self.unacked = Unacked()
        self.expected: dict[int, Message] = {}
        self.next_tag = 1
        self.next_seqs: dict[int, int] = {}

    def add(self, choice: int, count: int) -> None:
        """Some deliveries follow the last ones, some leave a gap, some are of other consumers."""
        uid = choice % 2 + 1
        number = choice % 3
        first = self.next_seqs.get(uid, 1) + (choice % 5 == 0)
        self.next_seqs[uid] = first + count
        self.next_tag += choice % 7 == 0
        self.unacked.add(self.next_tag, count, uid, number, first)
        for place in range(count):
            self.expected[self.next_tag + place] = (uid, number, first + place)
        self.next_tag += count

    def take(self, tags: list[int]) -> dict[int, Message]:
        return {tag: self.expected.pop(tag) for tag in tags}

    def one(self, tag: int) -> None:
        taken = self.unacked.take_one(tag)
        assert (taken is not None) == (tag in self.expected)
        if taken is not None:
            assert spread([taken]) == self.take([tag])

    def each(self, first: int, count: int) -> None:
        tags = list(range(first, first + count))
        unknown = next((tag for tag in tags if tag not in self.expected), 0)
        known = tags[: tags.index(unknown)] if unknown or 0 in tags else tags
        taken: list[TagRun] = []
        assert self.unacked.take_each(first, first + count - 1, taken) == unknown
        assert spread(taken) == self.take(known)

    def upto(self, tag: int) -> None:
        taken: list[TagRun] = []
        assert self.unacked.take_upto(tag, taken) == (tag in self.expected)
        known = [each for each in self.expected if each <= tag] if taken else []
        assert spread(taken) == self.take(known)
        assert not taken or tag not in self.expected

    def all(self) -> None:
        assert spread(self.unacked.take_all()) == self.take(list(self.expected))

    def void(self, uid: int, number: int) -> None:
        self.unacked.void(uid, number)
        for tag, message in self.expected.items():
            if message[:2] == (uid, number):
                self.expected[tag] = (VOID, 0, 0)

    def within(self, first: int, count: int) -> None:
        taken: list[TagRun] = []
        self.unacked.take_within(first, first + count - 1, taken)
        known = [tag for tag in range(first, first + count) if tag in self.expected]
        assert [run.tag for run in taken] == sorted(run.tag for run in taken)
        assert spread(taken) == self.take(known)

    def forget(self, uid: int) -> None:
        self.unacked.forget(uid)
        self.take([tag for tag, message in self.expected.items() if message[0] == uid])

    def back(self, first: int, count: int) -> None:
        """Take some, and put them back."""
        taken: list[TagRun] = []
        self.unacked.take_each(first, first + count - 1, taken)
        self.unacked.restore(taken)

    def step(self, action: Action) -> None:
        kind, choice, count = action
        if kind == "add":
            self.add(choice, count)
        elif kind == "one":
            self.one(choice)
        elif kind == "each":
            self.each(max(choice, 1), count)
        elif kind == "upto":
            self.upto(choice)
        elif kind == "void":
            self.void(choice % 2 + 1, choice % 3)
        elif kind == "in":
            self.within(choice, 3 * count)
        elif kind == "off":
            self.forget(choice % 2 + 1)
        elif kind == "back":
            self.back(max(choice, 1), count)
        elif choice == 0:
            self.all()
        held = [message for message in self.expected.values() if message[0] != VOID]
        assert self.unacked.count == len(held)


@BOUNDED
@given(ACTIONS)
def test_it_knows_the_tags_that_a_dict_would_know(actions: list[Action]) -> None:
    both = Both()
    for action in actions:
        both.step(action)
    both.all()


def test_a_thousand_deliveries_in_order_are_one_run() -> None:
    unacked = Unacked()
    for tag in range(1, 1001):
        unacked.add(tag, 1, 7, 1, 50 + tag)
    taken: list[TagRun] = []
    assert unacked.take_upto(1000, taken)
    assert [(run.tag, run.count, run.first) for run in taken] == [(1, 1000, 51)]


def test_deliveries_of_other_queues_consumers_or_places_are_runs_of_their_own() -> None:
    for uid, number, first in ((8, 1, 11), (7, 2, 11), (7, 1, 12)):
        unacked = Unacked()
        unacked.add(1, 1, 7, 1, 10)
        unacked.add(2, 1, uid, number, first)
        runs = unacked.take_all()
        assert [(run.tag, run.uid, run.number, run.first) for run in runs] == [
            (1, 7, 1, 10),
            (2, uid, number, first),
        ]


def test_acknowledging_one_by_one_keeps_no_dead_runs() -> None:
    both = Both()
    for choice in range(4 * HEAD_SLACK):
        both.add(choice, 1)
    for tag in list(both.expected)[: 3 * HEAD_SLACK]:
        both.one(tag)
    both.upto(list(both.expected)[HEAD_SLACK // 2])
    both.all()


def test_a_multiple_ack_of_an_unknown_tag_takes_nothing() -> None:
    unacked = Unacked()
    unacked.add(1, 2, 7, 1, 10)
    unacked.add(4, 1, 7, 1, 12)
    taken: list[TagRun] = []
    assert not unacked.take_upto(3, taken)
    assert not unacked.take_upto(5, taken)
    assert taken == []
    assert unacked.count == 3


def test_void_runs_that_meet_are_one_so_that_a_lazy_client_costs_nothing() -> None:
    unacked = Unacked()
    for tag in range(1, 100):
        unacked.add(tag, 1, 7, 1 + tag % 2, 10 + tag)
    unacked.void(7, 1)
    unacked.void(7, 2)
    assert unacked.count == 0
    assert [(run.tag, run.count) for run in unacked.take_all()] == [(1, 99)]

"""Who is known apart and who is looked up must not differ: against plain dicts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.hosts.session_users import Users
from queues.machine.commands import SessionId, consumer_key
from queues.machine.published_numbers import Numbers
from tests.unit.queues.fake_sink import FakeSink

BOUNDED = settings(max_examples=300, deadline=None, database=None)
# Sinks 0..2 and 3..5 are of the same three sessions: one may come to stand for another.
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "command", "adopt", "journal", "end"]), st.integers(0, 5)
    ),
    max_size=30,
)
PUTS = st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 9)), max_size=30)


@BOUNDED
@given(ACTS)
def test_each_session_has_the_sink_that_came_last_and_its_own_receipt(
    acts: list[tuple[str, int]],
) -> None:
    users = Users()
    sinks = [FakeSink(1 + number % 3) for number in range(6)]
    sessions = [sink.session for sink in sinks[:3]]
    known: dict[SessionId, FakeSink] = {}
    receipts: dict[SessionId, int] = {}
    for at, (act, number) in enumerate(acts):
        sink = sinks[number]
        session = sink.session
        if act == "end":
            users.end(session)
            known.pop(session, None)
            receipts.pop(session, None)
        elif act == "journal":
            if session in known:
                users.note_receipt(session, at + 1)
                receipts[session] = at + 1
        else:
            if act == "publish":
                assert users.publishes(sink) == session
            elif act == "command":
                users.commands(sink)
            else:
                users.adopt(sink)
            known[session] = sink
        for each in sessions:
            assert users.get(each) is known.get(each)
            assert users.receipt_of(each) == receipts.get(each, 0)
            if each in known:
                assert users.publisher(each) is known[each]
                assert users.served(consumer_key(each, 4)) is known[each]
        assert users.all() == list(known.values())


@BOUNDED
@given(PUTS)
def test_numbers_are_those_of_a_dict_in_its_order(puts: list[tuple[bool, int, int]]) -> None:
    numbers = Numbers()
    naive: dict[SessionId, int] = {}
    for ends, counter, seq in puts:
        session = SessionId(7 << 64 | counter)
        if ends:
            numbers.end(session)
            naive.pop(session, None)
        else:
            numbers.put(session, seq)
            naive[session] = seq
        for each in range(1, 5):
            known = SessionId(7 << 64 | each)
            assert numbers.of(known) == naive.get(known, 0)
        if seq % 3 == 0:
            assert list(numbers.all().items()) == list(naive.items())
    assert list(Numbers(numbers.all().items()).all().items()) == list(naive.items())

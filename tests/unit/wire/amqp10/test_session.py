"""What a session answers, when, and in which order."""

import pytest

from tests.unit.wire.amqp10.peers import (
    MESSAGE,
    RECEIVER,
    SENDER,
    AllThere,
    Pair,
    Raw,
    attach_frame,
    data_section,
    flow_frame,
    frame,
    only,
    payloads,
    run_of,
    transfer_frame,
    write_all,
)
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    Released,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from warren.wire.amqp10.codec.performatives import Received as ReceivedState
from warren.wire.amqp10.codec.serial import MASK, UINT_MAX
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    AttachRequested,
    Challenged,
    Closed,
    Ended,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    LoginRefused,
    LoginRequested,
    MechanismsOffered,
    Responded,
    SessionBegun,
    SessionEnded,
    Settled,
    Withdrawn,
    Writable,
)
from warren.wire.amqp10.handshake import AMQP_HEADER, SASL_HEADER
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import (
    ACCEPTED,
    MODIFIED,
    RECEIVED,
    REJECTED,
    RELEASED,
    UNDECIDED,
)

NOT_FOUND = ProtocolError(Condition.NOT_FOUND, "no queue 'q'", Scope.LINK)


def running(limits: Limits | None = None, window: int = 1000, **fields: object) -> Raw:
    raw = Raw(limits)
    raw.open(**fields)
    raw.begin(0, window)
    raw.bytes_out()
    return raw


def session_of(raw: Raw) -> Session:
    return raw.core.sessions[0]


def consumer(raw: Raw, credit: int = 0, handle: int = 0) -> Link:
    link = raw.attach(handle, RECEIVER)
    if credit:
        raw.flow(handle=handle, delivery_count=0, link_credit=credit)
    return link


# Open and begin


def test_open_tells_what_this_side_takes() -> None:
    raw = Raw()
    answer = raw.open()[0]
    assert isinstance(answer, Open)
    assert (answer.max_frame_size, answer.channel_max, answer.idle_time_out) == (131072, 63, 30000)


def test_begin_is_answered_with_the_window_and_the_handles() -> None:
    raw = Raw()
    raw.open()
    raw.begin(7)
    channel, begin, _ = raw.frames()[0]
    assert isinstance(begin, Begin)
    assert (channel, begin.remote_channel) == (7, 7)
    assert (begin.incoming_window, begin.outgoing_window) == (400, UINT_MAX)
    assert begin.handle_max == 255


def test_64_sessions_are_taken() -> None:
    raw = Raw()
    raw.open()
    assert len({raw.begin(channel) for channel in range(64)}) == 64


def test_what_comes_behind_a_login_or_an_open_waits_for_the_answer() -> None:
    raw = Raw()
    begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    data = SASL_HEADER + frame(1, 0, SaslInit(mechanism="ANONYMOUS")) + AMQP_HEADER
    data += frame(0, 0, Open(container_id="eager")) + frame(0, 0, begin)
    assert len(raw.feed(data)) == 1
    raw.core.accept_login()
    assert len(raw.feed(b"")) == 1
    raw.core.accept_open(Open(container_id="server"))
    assert [type(event) for event in raw.feed(b"")] == [SessionBegun]


def test_a_mechanism_may_have_several_steps() -> None:
    pair = Pair()
    seen: list[Event] = []
    pair.server.receive(pair.client.data_to_send(), 0)
    seen += pair.client.receive(pair.server.data_to_send(), 0)
    pair.client.login("DEMO")
    seen += pair.server.receive(pair.client.data_to_send(), 0)
    pair.server.challenge(b"who?")
    seen += pair.client.receive(pair.server.data_to_send(), 0)
    pair.client.respond(b"me")
    seen += pair.server.receive(pair.client.data_to_send(), 0)
    pair.server.refuse_login(2)
    seen += pair.client.receive(pair.server.data_to_send(), 0)
    kinds = [MechanismsOffered, LoginRequested, Challenged, Responded, LoginRefused]
    assert [type(event) for event in seen] == kinds


def test_a_host_may_refuse_an_open() -> None:
    raw = Raw()
    raw.feed(SASL_HEADER + frame(1, 0, SaslInit(mechanism="PLAIN")))
    raw.core.accept_login()
    raw.feed(AMQP_HEADER + frame(0, 0, Open(container_id="c", hostname="vhost:none")))
    raw.bytes_out()
    raw.core.close(ProtocolError(Condition.NOT_FOUND, "no such vhost"))
    opened, closed = raw.answers()
    assert isinstance(opened, Open)
    assert isinstance(closed, Close)
    assert [type(each) for each in raw.send(Close())] == [Ended]


def test_a_close_is_answered_and_nothing_behind_it_is_read() -> None:
    raw = running()
    events = raw.feed(frame(0, 0, Close()) + frame(0, 0, attach_frame(0, SENDER)))
    assert [type(event) for event in events] == [Closed, Ended]
    assert [type(each) for each in raw.answers()] == [Close]
    assert raw.send(attach_frame(1, SENDER)) == []


# Attach and detach


def test_an_accepted_publisher_is_granted_credit_behind_the_attach() -> None:
    raw = running()
    link = raw.ask(3, SENDER, "pub")
    assert raw.bytes_out() == b""
    target = Target(address="/queues/q")
    assert session_of(raw).accept(link, Source(), target)
    attach, flow = raw.answers()
    assert isinstance(attach, Attach)
    assert (attach.name, attach.handle, attach.role) == ("pub", 3, True)
    assert attach.max_message_size == 16 * 1024 * 1024
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (3, 0, 170)


def test_settle_mode_second_is_answered_with_first() -> None:
    raw = running()
    asked = attach_frame(0, SENDER)
    asked.rcv_settle_mode = 1
    asked.snd_settle_mode = 1
    asked.unsettled = {b"tag": None}
    link = only(raw.send(asked), AttachRequested)[0].link
    session_of(raw).accept(link, Source(), Target())
    attach = raw.answers()[0]
    assert isinstance(attach, Attach)
    assert (attach.rcv_settle_mode, attach.snd_settle_mode) == (0, 1)
    assert attach.unsettled is None


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_refused_link_is_attached_without_terminus_and_detached(role: bool) -> None:
    raw = running()
    link = raw.ask(0, role)
    session_of(raw).refuse(link, NOT_FOUND)
    attach, detach = raw.answers()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target, attach.role) == (None, None, not role)
    assert (attach.initial_delivery_count is None) == (role is SENDER)
    assert detach == Detach(
        handle=0,
        closed=True,
        error=Error(condition="amqp:not-found", description="no queue 'q'"),
    )
    assert only(raw.send(Detach(handle=0, closed=True)), LinkDetached)
    assert raw.bytes_out() == b""


def test_a_second_link_of_one_name_takes_it_from_the_first() -> None:
    raw = running()
    raw.begin(1)
    first, other_way = raw.attach(0, SENDER, "same"), raw.attach(1, RECEIVER, "same")
    elsewhere = raw.attach(0, SENDER, "same", channel=1)
    stolen, asked = raw.send(attach_frame(2, SENDER, "same"))
    assert isinstance(stolen, LinkFailed)
    assert (stolen.link, stolen.error.condition) == (first, Condition.STOLEN)
    assert isinstance(asked, AttachRequested)
    session_of(raw).accept(asked.link, Source(), Target())
    answers = raw.answers()
    assert [type(each) for each in answers] == [Detach, Attach, Flow]
    assert isinstance(answers[0], Detach)
    assert answers[0].handle == 0
    assert other_way.is_up() and elsewhere.is_up() and asked.link.is_up()


def test_a_handle_is_free_again_after_detach_even_within_one_read() -> None:
    raw = running()
    raw.attach(0, SENDER, "a")
    again = frame(0, 0, Detach(handle=0)) + frame(0, 0, attach_frame(0, SENDER, "b"))
    events = raw.feed(again)
    link = only(events, AttachRequested)[0].link
    session_of(raw).accept(link, Source(), Target())
    answers = raw.answers()
    assert [type(each) for each in answers] == [Detach, Attach, Flow]
    assert isinstance(answers[1], Attach)
    assert (answers[1].handle, answers[1].name) == (0, "b")


def test_a_link_that_is_detached_before_the_answer_is_refused() -> None:
    raw = running()
    link = raw.ask(0, SENDER)
    assert only(raw.send(Detach(handle=0)), LinkDetached)
    assert [type(each) for each in raw.answers()] == [Attach, Detach]
    assert not session_of(raw).accept(link, Source(), Target())
    assert raw.bytes_out() == b""


def test_detaches_that_cross_are_one() -> None:
    raw = running()
    link = raw.attach(0, RECEIVER)
    session_of(raw).detach(link, NOT_FOUND)
    assert only(raw.send(Detach(handle=0)), LinkDetached)[0].ours
    assert [type(each) for each in raw.answers()] == [Detach]
    assert raw.attach(0, SENDER).is_up()


def test_an_ended_session_is_answered_once_and_its_channel_is_free() -> None:
    raw = running()
    link = raw.attach(0, RECEIVER)
    assert only(raw.send(End()), SessionEnded)
    assert [type(each) for each in raw.answers()] == [End]
    assert not link.is_up()
    assert raw.begin(0)


def test_the_peers_handle_max_is_kept() -> None:
    raw = Raw()
    raw.open()
    raw.begin(0, handle_max=0)
    raw.bytes_out()
    raw.attach(0, SENDER)
    raw.send(attach_frame(1, SENDER))
    end = raw.answers()[0]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == Condition.NOT_ALLOWED


# Order of one turn


def test_a_turn_leaves_as_dispositions_detaches_and_flows() -> None:
    raw = running(Limits(max_link_credit=12))
    link, other = raw.attach(0, SENDER), raw.attach(1, SENDER)
    raw.feed(b"".join(frame(0, 0, transfer_frame(0, i), MESSAGE) for i in range(10)))
    session = session_of(raw)
    session.confirm(link, 10)
    session.detach(other)
    session.settle(6, 1, RELEASED)
    session.settle(0, 3)
    session.settle(8, 1, MODIFIED, Modified(delivery_failed=True))
    session.settle(7, 1, REJECTED, Rejected(error=Error(condition="amqp:not-found")))
    session.settle(3, 3)
    answers = raw.answers()
    told = [
        (each.first, each.last, type(each.state))
        for each in answers
        if isinstance(each, Disposition)
    ]
    assert told == [
        (7, None, Rejected),
        (0, 5, Accepted),
        (6, None, Released),
        (8, None, Modified),
    ]
    assert [type(each) for each in answers[4:]] == [Detach, Flow]
    assert all(each.settled and each.role for each in answers if isinstance(each, Disposition))


def test_outcomes_are_joined_whatever_the_order_in_which_they_come() -> None:
    raw = running()
    raw.attach(0, SENDER)
    session = session_of(raw)
    for first, count in [(MASK, 1), (5, 2), (0, 3), (3, 2), (9, 1), (MASK - 2, 2)]:
        session.settle(first, count)
    told = [(each.first, each.last) for each in raw.answers() if isinstance(each, Disposition)]
    assert told == [(MASK - 2, 6), (9, None)]


# Dispositions of the peer


def test_dispositions_that_say_the_same_come_as_one_event() -> None:
    raw = running()
    link = consumer(raw, 10)
    session_of(raw).offer(link, run_of([MESSAGE] * 6))
    write_all(session_of(raw), AllThere())

    def told(first: int, state: object, last: int | None = None) -> bytes:
        shown = Disposition(role=True, first=first, last=last, settled=True)
        shown.state = state  # type: ignore[assignment]
        return frame(0, 0, shown)

    data = told(0, Accepted()) + told(1, Accepted(), 2) + told(3, Released())
    data += told(4, Rejected(error=Error(condition="x"))) + told(5, None) + told(6, Accepted())
    events = only(raw.feed(data), Settled)
    seen = [(int(each.first), int(each.last), int(each.outcome)) for each in events]
    assert seen == [(0, 2, ACCEPTED), (3, 3, RELEASED), (4, 4, REJECTED), (5, 5, UNDECIDED)]
    assert isinstance(events[2].state, Rejected)


def test_a_range_beyond_what_was_sent_is_cut_off() -> None:
    raw = running()
    link = consumer(raw, 10)
    session_of(raw).offer(link, run_of([MESSAGE] * 6))
    write_all(session_of(raw), AllThere())
    received = ReceivedState(section_number=0, section_offset=0)
    event = only(raw.send(Disposition(role=True, first=2, last=900, state=received)), Settled)[0]
    assert (event.first, event.last, event.outcome, event.settled) == (2, 5, RECEIVED, False)
    assert raw.send(Disposition(role=True, first=6, last=900)) == []
    assert raw.send(Disposition(role=False, first=0, last=900)) == []


# Flow


def test_a_session_flow_with_echo_is_answered() -> None:
    raw = running()
    raw.flow(echo=True)
    answer = raw.answers()
    assert answer == [flow_frame(incoming_window=400, outgoing_window=UINT_MAX)]


def test_many_echoes_of_one_read_are_answered_by_one_flow() -> None:
    raw = running()
    link = consumer(raw, 5)
    link.sender.available = 9  # type: ignore[union-attr]
    raw.bytes_out()
    echo = flow_frame(handle=0, delivery_count=0, link_credit=5, echo=True)
    raw.feed(frame(0, 0, echo) * 100)
    flow = raw.answers()
    assert len(flow) == 1
    assert isinstance(flow[0], Flow)
    assert (flow[0].link_credit, flow[0].delivery_count, flow[0].available) == (5, 0, 9)


def test_an_alarm_closes_the_window_and_its_end_opens_it_again() -> None:
    raw = running()
    raw.core.set_alarm(True)
    assert raw.answers() == [flow_frame(incoming_window=0, outgoing_window=UINT_MAX)]
    raw.begin(1)
    begin = raw.answers()[0]
    assert isinstance(begin, Begin)
    assert begin.incoming_window == 0
    raw.core.set_alarm(False)
    windows = [each.incoming_window for each in raw.answers() if isinstance(each, Flow)]
    assert windows == [400, 400]


def test_consuming_and_attaching_go_on_in_an_alarm() -> None:
    raw = running()
    raw.core.set_alarm(True)
    link = consumer(raw, 10)
    session_of(raw).offer(link, run_of([MESSAGE]))
    raw.bytes_out()
    write_all(session_of(raw), AllThere())
    assert [type(each) for each in raw.answers()] == [Transfer]


def test_the_window_is_extended_at_200_by_a_flow_of_the_session() -> None:
    raw = running(Limits(max_link_credit=1000))
    raw.attach(0, SENDER)
    raw.feed(b"".join(frame(0, 0, transfer_frame(0, i), MESSAGE) for i in range(199)))
    assert raw.answers() == []
    raw.transfer(0, 199)
    extended = flow_frame(next_incoming_id=200, incoming_window=400, outgoing_window=UINT_MAX)
    assert raw.answers() == [extended]


def test_stop_gives_back_what_was_not_sent_and_is_answered() -> None:
    raw = running(window=0)
    link = consumer(raw, 10)
    session = session_of(raw)
    assert [int(told.credit) for _, told in session.take_queue_credits()] == [10]
    assert session.offer(link, run_of([MESSAGE] * 6)) == 6
    session.write(AllThere(), 1 << 20)
    assert raw.answers() == []
    events = raw.flow(handle=0, delivery_count=0, link_credit=0, echo=True, incoming_window=50)
    assert only(events, Withdrawn)[0].runs == [(1, 1, 6)]
    flow = raw.answers()[0]
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count) == (0, 0)
    credits = session.take_queue_credits()
    assert [(each is link, int(told.arrived), int(told.credit)) for each, told in credits] == [
        (True, 6, 0)
    ]
    assert not session.has_work()


def test_a_drain_of_an_empty_queue_is_answered_with_the_new_count() -> None:
    raw = running(Limits(initial_delivery_count=MASK - 3))
    link = consumer(raw)
    raw.flow(handle=0, link_credit=10, drain=True)
    session = session_of(raw)
    assert [told.drain for _, told in session.take_queue_credits()] == [True]
    assert raw.answers() == []
    session.drained(link, 10)
    flow = raw.answers()[0]
    assert isinstance(flow, Flow)
    assert (flow.link_credit, flow.delivery_count, flow.drain) == (0, 6, True)


def test_a_drain_of_what_is_there_is_answered_behind_it() -> None:
    raw = running()
    link = consumer(raw)
    raw.flow(handle=0, delivery_count=0, link_credit=10, drain=True)
    session = session_of(raw)
    session.take_queue_credits()
    session.offer(link, run_of([MESSAGE] * 2))
    session.drained(link, 10)
    assert raw.answers() == []
    raw.flow(handle=0, delivery_count=0, link_credit=50)
    write_all(session, AllThere())
    kinds = [type(each) for each in raw.answers()]
    assert kinds == [Transfer, Transfer, Flow]
    assert link.sender is not None
    assert (link.sender.delivery_count, link.sender.credit) == (10, 40)


# Properties of flows


def test_properties_go_in_full_once_and_with_echo_and_else_in_short() -> None:
    raw = running(Limits(max_link_credit=4))
    link = raw.ask(0, SENDER)
    link.properties = {"local": True, "leader": "rabbit@a"}
    link.properties_short = {"local": True}
    session_of(raw).accept(link, Source(), Target())

    def shown() -> list[dict[str, object] | None]:
        return [each.properties for each in raw.answers() if isinstance(each, Flow)]

    assert shown() == [link.properties]
    raw.transfer(0, 0)
    raw.transfer(0, 1)
    assert shown() == [link.properties_short]
    raw.flow(handle=0, echo=True)
    assert shown() == [link.properties]


def test_a_push_tells_properties_and_leaves_the_credit() -> None:
    raw = running(Limits(max_link_credit=8))
    link = raw.attach(0, SENDER)
    raw.transfer(0, 0)
    link.properties = {"local": False}
    session_of(raw).push_flow(link)
    flow = raw.answers()[0]
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit) == (1, 7)
    assert flow.properties == {"local": False}


def test_a_consumer_is_told_the_properties_with_its_first_credit() -> None:
    raw = running()
    link = raw.ask(0, RECEIVER)
    link.properties = {"rabbitmq:active": True}
    session_of(raw).accept(link, Source(), Target())
    raw.bytes_out()
    raw.flow(handle=0, delivery_count=0, link_credit=1)
    raw.flow(handle=0, delivery_count=0, link_credit=2)
    flows = raw.answers()
    assert len(flows) == 1
    assert isinstance(flows[0], Flow)
    assert flows[0].properties == {"rabbitmq:active": True}


def test_properties_too_large_for_the_peers_frame_are_left_out() -> None:
    raw = running(max_frame_size=512)
    link = raw.ask(0, SENDER)
    link.properties = {"leader": "x" * 600}
    session_of(raw).accept(link, Source(), Target())
    flow = raw.answers()[1]
    assert isinstance(flow, Flow)
    assert (flow.properties, flow.link_credit) == (None, 170)


# Transfers


def test_links_take_turns_and_a_large_message_keeps_its_place() -> None:
    raw = running(window=5, max_frame_size=512)
    large, small = consumer(raw, 10, 0), consumer(raw, 10, 1)
    session = session_of(raw)
    raw.flow(incoming_window=5)
    session.offer(large, run_of([data_section(b"x" * 3_000)]))
    session.offer(small, run_of([MESSAGE]))
    sent = AllThere()
    session.write(sent, 1 << 20)
    frames = raw.answers()
    assert len(frames) == 5
    assert all(isinstance(each, Transfer) and each.handle == 0 for each in frames)
    assert not session.has_work()
    assert only(raw.flow(next_incoming_id=5, incoming_window=50), Writable)
    write_all(session, sent)
    rest = [each for each in raw.answers() if isinstance(each, Transfer)]
    assert [(each.handle, each.more) for each in rest] == [(0, True), (0, False), (1, False)]
    assert sent.ids == [(1, 0, 1), (1, 1, 1)]


def test_many_small_messages_do_not_hold_up_the_other_link() -> None:
    raw = running(window=100_000)
    many, few = consumer(raw, 10_000, 0), consumer(raw, 10, 1)
    session = session_of(raw)
    session.offer(many, run_of([MESSAGE] * 1_000))
    session.offer(few, run_of([MESSAGE] * 3))
    session.write(AllThere(), 1 << 20)
    handles = [each.handle for each in raw.answers() if isinstance(each, Transfer)]
    assert handles[128:131] == [1, 1, 1]
    assert len(handles) == 1_003


def test_an_aborted_message_is_dropped_and_the_next_one_counts() -> None:
    raw = running()
    raw.attach(0, SENDER)
    raw.transfer(0, 0, more=True)
    assert raw.send(transfer_frame(0, None, aborted=True), b"rubbish") == []
    assert raw.transfer(0, 1, aborted=True) == []
    received = only(raw.transfer(0, 2), Received)[0]
    assert received.transfers.delivery_id == 2
    assert received.link.receiver is not None
    assert (received.link.receiver.credit, received.link.receiver.unconfirmed) == (167, 1)


def test_messages_of_two_links_may_come_interleaved() -> None:
    raw = running()
    raw.attach(0, SENDER)
    raw.attach(1, SENDER)
    first, second = data_section(b"a" * 20), data_section(b"b" * 20)
    raw.transfer(0, 0, more=True, payload=first[:9])
    raw.transfer(1, 1, more=True, payload=second[:5])
    events = raw.send(transfer_frame(0, 0, delivery_tag=None), first[9:])
    events += raw.send(transfer_frame(1, None), second[5:])
    got = [
        (payloads(each.transfers.data, each.transfers.offsets), each.link.peer_handle)
        for each in only(events, Received)
    ]
    assert got == [([first], 0), ([second], 1)]


def test_a_run_is_one_event_and_grants_once() -> None:
    raw = running()
    link = raw.attach(0, SENDER)
    events = raw.feed(
        b"".join(frame(0, 0, transfer_frame(0, i, settled=True), MESSAGE) for i in range(100))
    )
    run = only(events, Received)[0].transfers
    assert (len(events), run.count, run.settled, run.delivery_id) == (1, 100, True, 0)
    flow = raw.answers()[0]
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 100, 170)
    assert link.receiver is not None
    assert link.receiver.unconfirmed == 100


# The client's side


def test_a_client_hears_why_its_link_was_refused() -> None:
    pair = Pair()
    pair.settle()
    heard: list[Event] = []
    pair.on_client = heard.append
    session = pair.client.begin()

    def refuse(event: Event) -> None:
        if isinstance(event, AttachRequested):
            pair.server.sessions[event.link.channel].refuse(event.link, NOT_FOUND)

    pair.on_server = refuse
    link = session.attach("x", True, Source(address="/queues/q"), Target())
    pair.settle()
    assert only(heard, LinkAttached) == []
    detached = only(heard, LinkDetached)[0]
    assert detached.link is link
    assert detached.error == Error(condition="amqp:not-found", description="no queue 'q'")
    assert session.links.all == []
    assert pair.server.sessions[0].links.all == []


def test_a_client_may_change_its_mind_before_the_answer() -> None:
    pair = Pair()
    pair.settle()
    session = pair.client.begin()

    def accept(event: Event) -> None:
        if isinstance(event, AttachRequested):
            pair.server.sessions[event.link.channel].accept(event.link, Source(), Target())

    pair.on_server = accept
    link = session.attach("x", False, Source(), Target(address="/queues/q"))
    session.detach(link)
    pair.settle()
    assert not link.is_up()
    assert session.links.all == []
    session.end()
    pair.settle()
    assert pair.client.sessions == {}
    pair.client.close()
    pair.settle()
    assert (pair.client.state_name, pair.server.state_name) == ("closed", "closed")


def test_the_rest_of_a_message_to_a_link_that_is_over_is_no_new_delivery() -> None:
    raw = running()
    link = raw.attach(0, SENDER)
    raw.attach(1, SENDER)
    raw.transfer(0, 0, more=True)
    raw.transfer(1, 1)
    session_of(raw).detach(link)
    last = frame(0, 0, transfer_frame(0, 0), MESSAGE)
    dropped = frame(0, 0, transfer_frame(0, 2), MESSAGE)
    events = raw.feed(last + dropped + frame(0, 0, transfer_frame(1, 3), MESSAGE))
    assert [type(event) for event in events] == [Received]


def test_nothing_is_written_behind_a_close_whatever_the_host_still_asks_for() -> None:
    raw = running()
    link, session = raw.attach(0, SENDER), session_of(raw)
    raw.core.close()
    raw.bytes_out()
    session.settle(0, 1)
    session.grant(link, 5)
    session.detach(link)
    session.end()
    assert not session.has_work()
    assert raw.bytes_out() == b""


def test_a_flood_of_frames_is_taken_in_slices() -> None:
    raw = running()
    raw.attach(0, SENDER)
    flood = frame(0, 0, flow_frame(handle=0)) * 1_200
    taken = [len(raw.core.receive(flood, 0))]
    while raw.core.has_more:
        taken.append(len(raw.core.receive(b"", 0)))
    assert taken == [512, 512, 176]


# Links that take turns


def in_turns(count: int, odd: bytes = b"", at: int = -1) -> list[bytes]:
    """Frames of links 0 to 2 of sessions 0 and 1, with an odd one put in between."""
    frames = []
    for place in range(count):
        channel, handle = place % 2, place // 2 % 3
        frames.append(frame(0, channel, transfer_frame(handle, place // 2), MESSAGE))
    if at >= 0:
        frames.insert(at, odd)
    return frames


def two_sessions() -> Raw:
    raw = running(Limits(max_link_credit=30, max_incoming_window=60))
    raw.begin(1)
    for channel in (0, 1):
        for handle in range(3):
            raw.attach(handle, SENDER, channel=channel)
    return raw


def heard(raw: Raw, reads: list[bytes]) -> tuple[object, bytes]:
    """Ids by link, the rest of the events in order, and what is answered."""
    ids: dict[tuple[int, int], list[int]] = {}
    rest = []
    for read in reads:
        for event in raw.feed(read):
            if isinstance(event, Received):
                run, link = event.transfers, event.link
                assert payloads(run.data, run.offsets) == [MESSAGE] * int(run.count)
                known = ids.setdefault((int(link.channel), int(link.peer_handle)), [])
                known += [int(run.id_at(place)) for place in range(int(run.count))]
            else:
                rest.append(type(event).__name__)
    return (ids, rest), raw.bytes_out()


def test_links_that_take_turns_get_an_event_each() -> None:
    raw = two_sessions()
    events = raw.feed(b"".join(in_turns(60)))
    received = only(events, Received)
    assert [int(each.transfers.count) for each in received] == [10] * 6
    assert [int(received[1].transfers.id_at(place)) for place in range(3)] == [1, 4, 7]


ODD = {
    "none": b"",
    "unknown handle": frame(0, 0, transfer_frame(9, 20), MESSAGE),
    "gap": frame(0, 1, transfer_frame(0, 900), MESSAGE),
    "more": frame(0, 0, transfer_frame(0, 20, more=True), MESSAGE),
    "detach": frame(0, 1, Detach(handle=1)),
    "end": frame(0, 1, End()),
    "close": frame(0, 0, Close()),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("count", [60, 200, 300])
def test_turns_in_one_read_mean_the_same_as_frame_by_frame(what: str, count: int) -> None:
    """With 200 the credit of 90 in a session is overrun, with 300 the window, too."""
    frames = in_turns(count, ODD[what], 40 if ODD[what] else -1)
    assert heard(two_sessions(), [b"".join(frames)]) == heard(two_sessions(), frames)


def test_transaction_of_a_transfer_goes_with_its_run_alone() -> None:
    raw = running()
    raw.attach(0, SENDER)
    posted = only(raw.transfer(0, 0, state=TransactionalState(txn_id=b"1")), Received)[0]
    assert posted.transfers.transaction == b"1"
    assert only(raw.transfer(0, 1), Received)[0].transfers.transaction == b""

"""The router of a vhost: graphs of exchanges, alternates, and following the machine's changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Destination, Exchange
from queues.definitions.metadata import commands
from queues.definitions.metadata.vhost import VHost
from queues.routing.router import HUBS_AT_ONCE, KEYS_AT_ONCE, UNFINISHED_MAX, Route, Router, Walk
from queues.routing.topic import words_of
from tests.unit.queues.definitions.steps import (
    Steps,
    bind,
    declare_exchange,
    declare_queue,
    link,
    unbinding,
)
from tests.unit.queues.routing.bindings import FakeContent
from tests.unit.reachable import held


def test_the_default_exchange_leads_to_the_queue_of_that_name() -> None:
    steps = Steps()
    queue = steps.queue("täglich")
    assert steps.route("", "täglich".encode()) == (queue.uid,)
    steps.do(commands.DeleteQueue("/", "täglich"))
    assert steps.route("", "täglich".encode()) == ()


def test_a_missing_exchange_is_told_from_an_exchange_without_a_match() -> None:
    steps = Steps()
    assert not steps.whole_route("none").exchange_found
    route = steps.whole_route("amq.direct", b"k")
    assert route.exchange_found and route.queues == () and not route.internal


def test_an_internal_exchange_says_so() -> None:
    steps = Steps()
    steps.exchange("inner", internal=True)
    assert steps.whole_route("inner").internal
    assert steps.whole_route("amq.rabbitmq.trace").internal
    assert not steps.whole_route("amq.topic").internal


def test_a_queue_gets_one_copy_however_many_bindings_match() -> None:
    steps = Steps()
    second, first = steps.queue("second"), steps.queue("first")
    for key in (b"a.b", b"a.*", b"#"):
        steps.bind("amq.topic", "first", key)
        steps.bind("amq.topic", "second", key)
    assert steps.route("amq.topic", b"a.b") == (second.uid, first.uid)


def test_bindings_that_differ_in_arguments_only_are_two() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.bind("amq.direct", "q", b"k")
    steps.bind("amq.direct", "q", b"k", x=1)
    steps.do(unbinding(bind("amq.direct", "q", b"k")))
    assert steps.route("amq.direct", b"k") == (queue.uid,)
    steps.do(unbinding(bind("amq.direct", "q", b"k", x=1)))
    assert steps.route("amq.direct", b"k") == ()


def test_headers_are_asked_for_only_if_they_matter() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.bind("amq.headers", "q", a=1)
    steps.link("amq.headers", "amq.match", b"")
    steps.bind("amq.match", "q", a=2)
    steps.bind("amq.direct", "q", b"k")
    content = FakeContent({"a": 1})
    route = steps.router.route("amq.direct", b"k", content)
    assert route.queues == (queue.uid,) and not route.per_message and content.asked == []
    route = steps.router.route("amq.headers", b"", content)
    assert route.queues == (queue.uid,) and route.per_message and content.asked
    assert steps.router.route("amq.headers", b"").queues == ()


def test_a_headers_exchange_behind_others_makes_the_route_one_for_this_message() -> None:
    steps = Steps()
    steps.link("amq.fanout", "amq.headers")
    assert steps.whole_route("amq.fanout").per_message
    steps.exchange("x", arguments={"alternate-exchange": "amq.headers"})
    assert steps.whole_route("x").per_message


def test_messages_pass_through_exchanges_bound_to_exchanges() -> None:
    steps = Steps()
    near, far = steps.queue("near"), steps.queue("far")
    steps.exchange("a", "topic")
    steps.exchange("b", "direct")
    steps.bind("a", "near", b"k.#")
    steps.link("a", "b", b"#.far")
    steps.bind("b", "far", b"k.far")
    assert steps.route("a", b"k.far") == (near.uid, far.uid)
    assert steps.route("a", b"k.x") == (near.uid,)
    assert steps.route("a", b"z.far") == ()
    steps.do(unbinding(link("a", "b", b"#.far")))
    assert steps.route("a", b"k.far") == (near.uid,)


def test_cycles_of_exchanges_end() -> None:
    steps = Steps()
    queue = steps.queue("q")
    for name in "abc":
        steps.exchange(name, "fanout")
    for source, destination in ("ab", "bc", "ca", "aa"):
        steps.link(source, destination)
    assert steps.route("a") == ()
    steps.bind("c", "q")
    assert [steps.route(name) for name in "abc"] == [(queue.uid,)] * 3


def test_a_chain_of_ten_thousand_exchanges_is_walked_without_recursion() -> None:
    steps = Steps()
    queue = steps.queue("q")
    for number in range(10_000):
        steps.exchange(f"x{number}", "fanout")
        if number:
            steps.link(f"x{number - 1}", f"x{number}")
    steps.bind("x9999", "q")
    assert steps.route("x0") == (queue.uid,)


def test_the_alternate_gets_what_no_queue_took() -> None:
    steps = Steps()
    queue, spare = steps.queue("q"), steps.queue("spare")
    steps.exchange("x", arguments={"alternate-exchange": "amq.fanout"})
    steps.bind("x", "q", b"k")
    steps.bind("amq.fanout", "spare")
    assert steps.route("x", b"k") == (queue.uid,)
    assert steps.route("x", b"other") == (spare.uid,)


def test_alternates_are_followed_in_a_chain_that_may_bite_its_tail() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.exchange("a", arguments={"alternate-exchange": "b"})
    steps.exchange("b", arguments={"alternate-exchange": "c"})
    steps.exchange("c", arguments={"alternate-exchange": "a"})
    assert steps.route("a", b"k") == ()
    steps.bind("c", "q", b"k")
    assert steps.route("a", b"k") == (queue.uid,)
    assert steps.route("b", b"k") == (queue.uid,)


def test_the_alternate_waits_for_the_exchanges_behind_the_exchange() -> None:
    steps = Steps()
    behind, spare = steps.queue("behind"), steps.queue("spare")
    steps.exchange("x", "fanout", arguments={"alternate-exchange": "amq.fanout"})
    steps.exchange("inner", "direct")
    steps.link("x", "inner")
    steps.bind("inner", "behind", b"k")
    steps.bind("amq.fanout", "spare")
    assert steps.route("x", b"k") == (behind.uid,)
    assert steps.route("x", b"other") == (spare.uid,)


def test_an_exchange_behind_another_has_its_own_alternate() -> None:
    steps = Steps()
    steps.queue("q")
    spare = steps.queue("spare")
    steps.exchange("x", "fanout", arguments={"alternate-exchange": "amq.topic"})
    steps.exchange("inner", arguments={"alternate-exchange": "amq.fanout"})
    steps.link("x", "inner")
    steps.bind("amq.fanout", "spare")
    steps.bind("amq.topic", "q", b"#")
    assert steps.route("x", b"k") == (spare.uid,)


def test_an_exchange_that_leads_where_the_message_has_been_routed_keeps_its_alternate_out() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.queue("spare")
    for name in ("start", "left", "end"):
        steps.exchange(name, "fanout")
    steps.exchange("right", "fanout", arguments={"alternate-exchange": "amq.fanout"})
    for source, destination in (("start", "left"), ("start", "right")):
        steps.link(source, destination)
    steps.link("left", "end")
    steps.link("right", "end")
    steps.bind("end", "q")
    steps.bind("amq.fanout", "spare")
    assert steps.route("start") == (queue.uid,)


def test_a_missing_alternate_is_a_warning_and_the_message_unroutable() -> None:
    steps = Steps()
    steps.exchange("x", arguments={"alternate-exchange": "later"})
    route = steps.whole_route("x", b"k")
    assert route.exchange_found and route.queues == ()
    sentence = "alternate exchange 'later' of exchange 'x' in vhost '/' does not exist"
    assert route.warnings == (sentence,)
    queue = steps.queue("q")
    steps.exchange("later", "fanout")
    steps.bind("later", "q")
    route = steps.whole_route("x", b"k")
    assert route.queues == (queue.uid,) and route.warnings == ()


def test_the_default_exchange_may_be_an_alternate() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.exchange("x", arguments={"alternate-exchange": ""})
    assert steps.route("x", b"q") == (queue.uid,)


def test_other_vhosts_are_passed_over() -> None:
    steps = Steps()
    steps.do(commands.DeclareVhost("other"))
    steps.do(commands.DeclareQueue("other", "q"))
    steps.do(commands.Bind("other", "amq.fanout", Destination.QUEUE, "q", b""))
    steps.do(commands.DeleteVhost("other"))
    assert steps.route("", b"q") == () and steps.route("amq.fanout") == ()


# The router against a naive model that reads the machine's objects again for every message.


def naive_match(exchange: Exchange, key: bytes, pattern: bytes) -> bool:
    if exchange.type == "fanout":
        return True
    return pattern == key if exchange.type == "direct" else naive_topic(pattern, key)


def naive_topic(pattern: bytes, key: bytes) -> bool:
    parts, words = words_of(pattern), words_of(key)
    if parts[-1:] == [b"#"]:  # These patterns have it at the end only.
        parts = parts[:-1]
        words = words[: len(parts)]
    if len(parts) != len(words):
        return False
    return all(part in (b"*", word) for part, word in zip(parts, words, strict=True))


def naive_route(vhost: VHost, name: str, key: bytes) -> tuple[int, ...]:
    found: set[int] = set()
    routed: dict[str, bool] = {}
    _visit(vhost, name, key, found, routed)
    return tuple(sorted(found))


def _visit(vhost: VHost, name: str, key: bytes, found: set[int], routed: dict[str, bool]) -> bool:
    if name in routed or name not in vhost.exchanges:
        return routed.get(name, False)
    exchange = vhost.exchanges[name]
    hits = [
        each
        for each in vhost.bindings()
        if each.source == name and naive_match(exchange, key, each.binding_key)
    ]
    queues = {
        vhost.queues[each.destination].uid
        for each in hits
        if each.destination_kind is Destination.QUEUE
    }
    found |= queues
    success = routed[name] = bool(queues)
    behind = {each.destination for each in hits if each.destination_kind is Destination.EXCHANGE}
    for each in sorted(behind, key=lambda other: vhost.exchanges[other].uid):
        success |= _visit(vhost, each, key, found, routed)
    alternate = ALTERNATES.get(name)
    if not success and alternate is not None and exchange.arguments:
        success = _visit(vhost, alternate, key, found, routed)
    routed[name] = success
    return success


KINDS_OF = {"d": "direct", "t": "topic", "f": "fanout", "e": "direct"}
ALTERNATES = {"d": "f", "t": "e", "e": "t"}
exchanges = st.sampled_from(sorted(KINDS_OF))
queues = st.sampled_from(["q1", "q2", "q3"])
keys = st.sampled_from([b"a", b"a.b", b"a.c", b""])
patterns = keys | st.sampled_from([b"*", b"a.*", b"a.#", b"#"])


def _declaration(name: str, alternate: bool, auto_delete: bool) -> commands.Command:
    arguments: dict[str, object] = {}
    if alternate and name != "f":
        arguments["alternate-exchange"] = ALTERNATES[name]
    kind = KINDS_OF[name]
    return declare_exchange(name, kind, arguments=arguments, auto_delete=auto_delete)


steps_of_a_topology: st.SearchStrategy[commands.Command] = st.one_of(
    st.builds(_declaration, exchanges, st.booleans(), st.just(False) | st.booleans()),
    st.builds(declare_queue, queues),
    st.builds(bind, exchanges, queues, patterns),
    st.builds(link, exchanges, exchanges, patterns),
    st.builds(unbinding, st.builds(bind, exchanges, queues, patterns)),
    st.builds(unbinding, st.builds(link, exchanges, exchanges, patterns)),
    st.builds(commands.DeleteQueue, st.just("/"), queues),
    st.builds(commands.DeleteExchange, st.just("/"), exchanges),
)
START: list[commands.Command] = [
    *(_declaration(name, True, False) for name in KINDS_OF),
    *(declare_queue(name) for name in ("q1", "q2", "q3")),
]


@settings(max_examples=200, deadline=None)
@given(st.booleans(), st.lists(steps_of_a_topology, max_size=40))
def test_the_router_agrees_with_a_naive_model(
    started: bool, topology: list[commands.Command]
) -> None:
    steps = Steps()
    for command in [*(START if started else []), *topology]:
        steps.do(command)
    fresh = Router("/")
    for subject in steps.vhost.definitions():
        fresh.add(subject)
    for name in KINDS_OF:
        for key in (b"a", b"a.b", b"a.c", b""):
            route = steps.whole_route(name, key)
            assert route.exchange_found == (name in steps.vhost.exchanges)
            assert route.queues == naive_route(steps.vhost, name, key)
            assert route.queues == fresh.route(name, key).queues


# Messages with thousands of routing keys

MANY_KEYS = tuple(b"a.%d" % number for number in range(3 * KEYS_AT_ONCE))


def sliced(router: Router, name: str, content: FakeContent, calls: list[int]) -> Route | None:
    calls[0] += 1
    return router.route_in_slices(name, b"a", content, MANY_KEYS, lambda: True)


@settings(max_examples=100, deadline=None)
@given(st.lists(steps_of_a_topology, max_size=40))
def test_a_route_in_slices_is_the_route_in_one_piece(topology: list[commands.Command]) -> None:
    steps = Steps()
    for command in [*START, *topology]:
        steps.do(command)
    for name in KINDS_OF:
        calls = [0]
        while (route := sliced(steps.router, name, FakeContent(), calls)) is None:
            pass
        whole = steps.router.route(name, b"a", FakeContent(), MANY_KEYS)
        assert (route.queues, route.per_message) == (whole.queues, whole.per_message)
        by_key = name in steps.vhost.exchanges and KINDS_OF[name] != "fanout"
        assert calls[0] > 1 or not by_key


def test_an_interrupted_route_forgets_a_queue_and_an_exchange_that_are_deleted() -> None:
    steps = Steps()
    kept, behind = steps.queue("kept"), steps.queue("behind")
    steps.queue("deleted")
    for name in ("inner", "gone", "last"):
        steps.exchange(name, "topic")
    steps.bind("last", "behind", b"#")
    for queue in ("kept", "deleted"):
        steps.bind("amq.topic", queue, b"#")
    for name in ("inner", "gone", "last"):
        steps.link("amq.topic", name, b"#")
    calls = [0]
    for _ in range(4):  # amq.topic has been passed, and a part of `inner`
        assert sliced(steps.router, "amq.topic", FakeContent(), calls) is None
    steps.do(commands.DeleteQueue("/", "deleted"))
    steps.do(commands.DeleteExchange("/", "gone"))
    while (route := sliced(steps.router, "amq.topic", FakeContent(), calls)) is None:
        pass
    assert route.queues == (kept.uid, behind.uid)
    assert calls[0] > 4


def test_an_interrupted_route_is_not_continued_for_a_message_with_other_headers() -> None:
    steps = Steps()
    one, other = steps.queue("one"), steps.queue("other")
    steps.exchange("by-header", "headers")
    for name in ("one", "other"):
        steps.do(bind("by-header", name, b"", **{"x-match": "all", "to": name}))
    steps.link("by-header", "amq.topic", to="one")
    steps.link("by-header", "amq.topic", to="other")
    calls = [0]
    assert sliced(steps.router, "by-header", FakeContent({"to": "one"}), calls) is None
    while (route := sliced(steps.router, "by-header", FakeContent({"to": "other"}), calls)) is None:
        pass
    assert route.queues == (other.uid,) and one.uid not in route.queues


def test_few_interrupted_routes_are_kept() -> None:
    steps = Steps()
    for number in range(2 * UNFINISHED_MAX):
        key = b"%d" % number
        route = steps.router.route_in_slices(
            "amq.topic", key, FakeContent(), MANY_KEYS, lambda: True
        )
        assert route is None
    assert len(held(steps.router, Walk)) == UNFINISHED_MAX


def test_ring_of_an_exchange_gets_each_of_its_messages_and_stands_in_for_no_binding() -> None:
    steps = Steps()
    steps.exchange("kept", kind="topic", arguments={"alternate-exchange": "amq.fanout"})
    steps.exchange("outer", kind="fanout")
    steps.do(link("outer", "kept", b"a"))
    queue, other = steps.queue("q"), steps.queue("other")
    steps.bind("kept", "q", b"a")
    steps.bind("amq.fanout", "other", b"")
    ring = steps.ring("kept")
    assert steps.route("kept", b"a") == (queue.uid, ring.uid)
    assert steps.route("kept", b"b") == (other.uid, ring.uid)
    assert steps.route("outer", b"a") == (queue.uid, ring.uid)
    steps.do(commands.DeleteQueue("/", ring.name))
    assert steps.route("kept", b"a") == (queue.uid,)


def test_ring_of_an_exchange_that_was_deleted_is_not_that_of_its_successor() -> None:
    steps = Steps()
    steps.exchange("kept")
    ring = steps.ring("kept")
    steps.do(commands.DeleteExchange("/", "kept"))
    steps.exchange("kept")
    assert steps.route("kept", b"") == ()
    assert steps.ring("kept").name != ring.name


def test_a_way_through_thousands_of_exchanges_is_gone_in_slices() -> None:
    steps = Steps()
    count = 5 * HUBS_AT_ONCE
    queue = steps.queue("last")
    steps.exchange("start", "fanout")
    for number in range(count):
        steps.exchange(f"x{number}", "fanout")
        steps.link("start", f"x{number}")
    steps.bind(f"x{count - 1}", "last")
    calls = 1
    while (route := slice_of(steps.router, "start")) is None:
        calls += 1
    assert (route.queues, calls) == ((queue.uid,), count // HUBS_AT_ONCE + 1)


def test_a_chain_of_alternates_is_gone_in_slices() -> None:
    steps = Steps()
    count = 3 * HUBS_AT_ONCE
    for number in range(count):
        arguments: dict[str, object] = {"alternate-exchange": f"x{number + 1}"}
        steps.exchange(f"x{number}", "fanout", arguments if number < count - 1 else None)
    calls = 1
    while (route := slice_of(steps.router, "x0")) is None:
        calls += 1
    assert (route.queues, calls) == ((), 3)


def slice_of(router: Router, exchange: str) -> Route | None:
    return router.route_in_slices(exchange, b"", FakeContent(), (), lambda: True)

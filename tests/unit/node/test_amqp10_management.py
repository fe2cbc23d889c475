"""Requests to /management: what is refused, with which status, and what is done."""

import pytest

from node.amqp10.management import Management
from node.amqp10.requests import Reply, Request
from node.cluster.coordination.coordination_interface import Load
from node.cluster.services.whereis import NodePlace, Place
from queues.definitions.broker_objects import Queue
from queues.machine.commands import EndSession, Inspect, Purge
from tests.unit.node.fake_managed import HERE, FakeManaged, FakeRequester
from tests.unit.node.fake_places import OneNode
from warren.wire.amqp10.codec.values import (
    Array,
    Decimal32,
    Described,
    Pairs,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)

LONG = "n" * 256
EXCHANGE = {"type": "fanout"}
BINDING = {"source": "amq.direct", "destination_queue": "q", "binding_key": "k"}


class Room:
    """Management for one connection; what it proposes is committed at once."""

    def __init__(self) -> None:
        self.broker = FakeManaged()
        self.requester = FakeRequester(self.broker)
        self.management = Management(self.requester)

    def ask(self, method: str, target: str, body: object = None) -> Reply:
        replies: list[Reply] = []
        self.management.handle(Request(method, target, body), replies.append)
        self.broker.commit()
        [reply] = replies
        return reply

    def status(self, method: str, target: str, body: object = None) -> int:
        return self.ask(method, target, body).status

    def refused(self, method: str, target: str, body: object = None) -> tuple[int, str]:
        """Status and text; nothing may have changed."""
        version = self.broker.metadata.version
        reply = self.ask(method, target, body)
        assert self.broker.metadata.version == version
        assert isinstance(reply.body, str)
        return reply.status, reply.body

    def described(self, name: str) -> dict[object, object]:
        reply = self.ask("GET", f"/queues/{name}")
        assert reply.status == 200 and isinstance(reply.body, dict)
        return reply.body

    def locations(self, query: str) -> list[str]:
        reply = self.ask("GET", f"/bindings?{query}")
        assert reply.status == 200 and isinstance(reply.body, list)
        return [each["location"] for each in reply.body]


@pytest.fixture
def room() -> Room:
    return Room()


# What is refused


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "text"),
    [
        ("GET", "queues/q", None, 400, "bad path 'queues/q'"),
        ("GET", "", None, 400, "bad path ''"),
        ("GET", "/nothing", None, 404, "no such path: '/nothing'"),
        ("GET", "/", None, 404, "no such path: '/'"),
        ("POST", "/queues/q", None, 405, "no method POST for '/queues/q'"),
        ("DELETE", "/queues/q/more/words", None, 405, "no method DELETE"),
        ("GET", "/queues/%zz", None, 400, "bad path segment '%zz'"),
        ("GET", "/queues/%", None, 400, "bad path segment '%'"),
        ("GET", "/queues/%ff", None, 400, "bad path segment '%ff'"),
        ("GET", "/queues/none", None, 404, "queue 'none' in vhost '/' not found"),
        ("GET", "/queues/none/topology", None, 404, "queue 'none' in vhost '/' not found"),
        ("PUT", "/queues/", {}, 400, "declare queue with empty name not allowed"),
        ("PUT", "/queues/a%0Ab", {}, 400, "line feed and carriage return"),
        ("PUT", "/queues/a%0Db", {}, 400, "Bad name 'a\rb': line feed"),
        ("PUT", f"/queues/{LONG}", {}, 400, "longer than 255 bytes"),
        ("PUT", "/queues/amq.mine", {}, 403, "queue 'amq.mine' in vhost '/' starts with reserved"),
        ("PUT", "/queues/q", [], 400, "the body must be a map"),
        ("PUT", "/queues/q", {"durable": 1}, 400, "bad queue property 'durable': 1"),
        ("PUT", "/queues/q", {"type": "quorum"}, 400, "bad queue property 'type'"),
        ("PUT", "/queues/q", {"arguments": None}, 400, "arguments must be a map"),
        ("PUT", "/queues/q", {"arguments": {"x": Decimal32(b"\0\0\0\0")}}, 400, "unsupported arg"),
        ("PUT", "/queues/q", {"arguments": {1: 1}}, 400, "unsupported argument 1: 1"),
        ("PUT", "/queues/q", {"arguments": {LONG: 1}}, 400, "unsupported argument"),
        ("PUT", "/queues/q", {"arguments": {"x-expires": "soon"}}, 400, "x-expires"),
        ("PUT", "/queues/q", {"arguments": {"x-queue-type": "odd"}}, 400, "queue type 'odd'"),
        ("DELETE", "/queues/none/messages", None, 400, "no queue 'none' in vhost '/'"),
        ("DELETE", "/queues/a%0A", None, 400, "line feed"),
        ("PUT", "/exchanges/", EXCHANGE, 403, "not permitted on the default exchange"),
        ("PUT", "/exchanges/amq.mine", EXCHANGE, 403, "exchange 'amq.mine' in vhost '/' starts"),
        ("PUT", "/exchanges/a%0A", EXCHANGE, 400, "line feed"),
        ("PUT", "/exchanges/x", {"type": "odd"}, 400, "unknown exchange type 'odd'"),
        ("PUT", "/exchanges/x", {"type": Symbol("fanout")}, 400, "bad exchange property 'type'"),
        ("PUT", "/exchanges/x", {"exclusive": True}, 400, "bad exchange property 'exclusive'"),
        ("PUT", "/exchanges/x", {"arguments": {"alternate-exchange": 1}}, 400, "alternate"),
        ("PUT", "/exchanges/amq.direct", EXCHANGE, 409, "inequivalent arg 'type'"),
        ("DELETE", "/exchanges/", None, 403, "not permitted on the default exchange"),
        ("DELETE", "/exchanges/amq.direct", None, 403, "starts with reserved prefix 'amq.'"),
        ("POST", "/bindings", None, 400, "missing binding field 'source'"),
        ("POST", "/bindings", {"source": "x"}, 400, "missing binding field 'binding_key'"),
        ("POST", "/bindings", {"source": "x", "binding_key": ""}, 400, "one of 'destination_queu"),
        ("POST", "/bindings", BINDING | {"destination_exchange": "x"}, 400, "one of 'destination"),
        ("POST", "/bindings", BINDING | {"binding_key": b"k"}, 400, "bad binding field 'binding_"),
        ("POST", "/bindings", BINDING | {"binding_key": LONG}, 400, "Bad binding key"),
        ("POST", "/bindings", BINDING | {"source": "a\nb"}, 400, "line feed"),
        ("POST", "/bindings", BINDING | {"destination_queue": "a\rb"}, 400, "line feed"),
        ("POST", "/bindings", BINDING | {"source": ""}, 403, "not permitted on the default"),
        ("POST", "/bindings", BINDING | {"source": "none"}, 400, "no exchange 'none' in vhost"),
        ("POST", "/bindings", BINDING, 400, "no queue 'q' in vhost '/'"),
        ("GET", "/bindings", None, 400, "missing 'src' in query"),
        ("GET", "/bindings?src=a&dstq=b", None, 400, "missing 'key' in query"),
        ("GET", "/bindings?src=a&key=b", None, 400, "missing 'dste' or 'dstq' in query"),
        ("GET", "/bindings?src=%ff&dstq=q&key=", None, 400, "bad query"),
        ("GET", "/bindings?" + "a=1&" * 17, None, 400, "bad query"),
        ("DELETE", "/bindings/src=a;dstq=b;key=", None, 400, "bad binding path segment"),
        ("DELETE", "/bindings/src=a;dstx=b;key=;args=", None, 400, "bad binding path segment"),
        ("DELETE", "/bindings/src=;dstq=b;key=;args=", None, 400, "bad binding path segment"),
        ("DELETE", "/bindings/src=%0A;dstq=b;key=;args=", None, 400, "line feed"),
        ("PUT", "/auth/tokens", b"token", 400, "not authenticated by a token"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(
    room: Room, method: str, target: str, body: object, status: int, text: str
) -> None:
    answered, reason = room.refused(method, target, body)
    assert (answered, text in reason) == (status, True), reason


@pytest.mark.parametrize(
    ("method", "target", "body", "lacking"),
    [
        ("GET", "/queues/q", None, "configure access to queue 'q'"),
        ("PUT", "/queues/q", {}, "configure access to queue 'q'"),
        ("DELETE", "/queues/q", None, "configure access to queue 'q'"),
        ("DELETE", "/queues/q/messages", None, "read access to queue 'q'"),
        ("GET", "/queues/q/topology", None, "configure access to queue 'q'"),
        ("PUT", "/exchanges/x", EXCHANGE, "configure access to exchange 'x'"),
        ("DELETE", "/exchanges/x", None, "configure access to exchange 'x'"),
        ("POST", "/bindings", BINDING, "write access to queue 'q'"),
        ("DELETE", "/bindings/src=amq.direct;dstq=q;key=k;args=", None, "write access to queue"),
        ("GET", "/bindings?src=amq.direct&dstq=q&key=k", None, "access to exchange 'amq.direct'"),
    ],
)
def test_who_lacks_the_permission_is_refused_with_403(
    room: Room, method: str, target: str, body: object, lacking: str
) -> None:
    assert room.status("PUT", "/queues/q", {}) == 201
    room.requester.permit("^$", "^$", "^$")
    status, reason = room.refused(method, target, body)
    assert status == 403 and lacking in reason and "for user 'guest'" in reason


def test_binding_needs_write_on_the_destination_and_read_on_the_source(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    room.requester.permit("", "^q$", "^$")
    assert "read access to exchange 'amq.direct'" in room.refused("POST", "/bindings", BINDING)[1]
    room.requester.permit("", "^q$", "^amq.direct$")
    assert room.status("POST", "/bindings", BINDING) == 204


def test_only_what_is_new_asks_for_the_rights_to_the_exchanges_that_it_names(room: Room) -> None:
    letters = {"arguments": {"x-dead-letter-exchange": "amq.fanout"}}
    strays = {"type": "fanout", "arguments": {"alternate-exchange": "amq.fanout"}}
    assert room.status("PUT", "/queues/q", letters) == 201
    assert room.status("PUT", "/exchanges/x", strays) == 204
    room.requester.permit(".*", "^$", "^$")
    assert room.status("PUT", "/queues/q", letters) == 200
    assert room.status("PUT", "/exchanges/x", strays) == 204
    others = {"arguments": {"x-dead-letter-exchange": "amq.direct"}}
    assert "read access to queue 'q'" in room.refused("PUT", "/queues/q", others)[1]
    assert "read access to queue 'p'" in room.refused("PUT", "/queues/p", letters)[1]
    assert "read access to exchange 'y'" in room.refused("PUT", "/exchanges/y", strays)[1]


def test_a_queue_with_other_properties_is_a_conflict(room: Room) -> None:
    assert room.status("PUT", "/queues/q", {"durable": True}) == 201
    status, reason = room.refused("PUT", "/queues/q", {"auto_delete": True})
    assert status == 409 and "inequivalent arg 'auto_delete' for queue 'q'" in reason
    arguments = {"arguments": {"x-max-length": 5}}
    assert room.refused("PUT", "/queues/q", arguments)[0] == 409


def test_anothers_exclusive_queue_is_refused(room: Room) -> None:
    other = FakeRequester(room.broker, "c2")
    Management(other).handle(Request("PUT", "/queues/q", {"exclusive": True}), lambda _: None)
    room.broker.commit()
    assert other.owns_queues and not room.requester.owns_queues
    for method, target in [("PUT", "/queues/q"), ("DELETE", "/queues/q/messages")]:
        status, reason = room.refused(method, target)
        assert status == 400 and "cannot obtain exclusive access to locked queue 'q'" in reason
    assert room.refused("DELETE", "/queues/q")[0] == 400


def test_a_damaged_queue_is_not_described(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    room.broker.damaged.add("q")
    assert room.refused("GET", "/queues/q") == (400, "queue 'q' is damaged")


# Queues


def test_a_new_queue_is_described_with_201_and_one_that_was_there_with_200(room: Room) -> None:
    created = room.ask("PUT", "/queues/q", None)
    assert created.status == 201
    assert created.body == {
        "leader": HERE,
        "replicas": Array("string", [HERE]),
        "message_count": ULong(0),
        "consumer_count": UInt(0),
        "name": "q",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "arguments": {},
    }
    again = room.ask("PUT", "/queues/q", {"durable": True, "arguments": {}})
    assert again == Reply(200, created.body)
    assert room.broker.changes.churn.declared == 2


def test_counts_are_of_the_types_that_clients_expect(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    room.broker.queues.host(queue.uid).bodies = [b"a", b"b"]
    described = room.described("q")
    assert described["message_count"] == 2 and type(described["message_count"]) is ULong
    assert type(described["consumer_count"]) is UInt


def test_arguments_keep_their_types_both_ways(room: Room) -> None:
    arguments = {"x-max-length": 10, "x-queue-type": "quorum", Symbol("x-delivery-limit"): ULong(3)}
    assert room.status("PUT", "/queues/q", {"arguments": arguments}) == 201
    described = room.described("q")
    assert described["type"] == "quorum"
    assert described["arguments"] == arguments


def test_an_exclusive_queue_belongs_to_the_connection(room: Room) -> None:
    reply = room.ask("PUT", "/queues/q", {"exclusive": True, "durable": False})
    assert reply.status == 201 and room.requester.owns_queues
    assert room.described("q")["exclusive"] is True
    assert room.status("DELETE", "/queues/q") == 200


def test_names_are_percent_encoded(room: Room) -> None:
    assert room.status("PUT", "/queues/a%2Fb%20%C3%BC+%25", {}) == 201
    assert room.described("a%2Fb%20%C3%BC+%25")["name"] == "a/b ü+%"


def test_deleting_a_queue_tells_how_many_messages_went(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    room.broker.queues.host(queue.uid).bodies = [b"a"] * 3
    assert room.ask("DELETE", "/queues/q") == Reply(200, {"message_count": ULong(3)})
    assert room.ask("DELETE", "/queues/q") == Reply(200, {"message_count": ULong(0)})


def test_purging_is_answered_when_the_queue_has_purged(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    host = room.broker.queues.host(queue.uid)
    replies: list[Reply] = []
    for _ in range(2):
        room.management.handle(Request("DELETE", "/queues/q/messages"), replies.append)
    assert [type(each) for each in host.commands] == [Purge, Purge] and replies == []
    room.broker.queues.host(queue.uid).sinks[0].on_purged(queue.uid, 7)
    room.broker.queues.host(queue.uid).sinks[0].on_purged(queue.uid, 0)
    assert replies == [Reply(200, {"message_count": ULong(n)}) for n in (7, 0)]
    assert type(host.commands[-1]) is EndSession


def test_a_purge_whose_queue_goes_is_answered_as_if_there_was_none(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    replies: list[Reply] = []
    room.management.handle(Request("DELETE", "/queues/q/messages"), replies.append)
    room.broker.queues.host(queue.uid).sinks[0].on_gone(queue.uid)
    assert replies == [Reply(400, "no queue 'q' in vhost '/'")]


def test_how_a_queue_of_another_node_stands_is_asked_of_it(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    room.broker.elsewhere.add("q")
    host = room.broker.queues.host(queue.uid)
    host.bodies = [b"as last delivered"]
    replies: list[Reply] = []
    for target in ("/queues/q", "/queues/q"):
        room.management.handle(Request("GET", target), replies.append)
    assert [type(each) for each in host.commands] == [Inspect, Inspect]
    assert replies == []
    room.broker.queues.host(queue.uid).sinks[0].on_inspected(queue.uid, 7, 2)
    room.broker.queues.host(queue.uid).sinks[0].on_gone(queue.uid)
    first, second = replies
    assert isinstance(first.body, dict)
    assert (first.body["message_count"], first.body["consumer_count"]) == (ULong(7), UInt(2))
    assert second == Reply(404, "queue 'q' in vhost '/' not found")


def test_a_queue_of_another_node_is_asked_what_goes_with_it(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    room.broker.elsewhere.add("q")
    replies: list[Reply] = []
    room.management.handle(Request("DELETE", "/queues/q"), replies.append)
    room.broker.commit()
    assert replies == []
    room.broker.queues.host(queue.uid).sinks[0].on_inspected(queue.uid, 4, 0)
    room.broker.commit()
    assert replies == [Reply(200, {"message_count": ULong(4)})]


def test_nothing_is_answered_after_the_end(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    queue = room.broker.definitions.queue("/", "q")
    assert queue is not None
    replies: list[Reply] = []
    room.management.handle(Request("PUT", "/queues/r", {}), replies.append)
    room.management.handle(Request("DELETE", "/queues/q/messages"), replies.append)
    room.management.close()
    room.broker.commit()
    room.broker.queues.host(queue.uid).sinks[0].on_purged(queue.uid, 1)
    assert replies == []
    assert type(room.broker.queues.host(queue.uid).commands[-1]) is EndSession


def test_the_topology_says_where_the_leader_is(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    reply = room.ask("GET", "/queues/q/topology")
    assert isinstance(reply.body, dict)
    assert (reply.status, reply.body["leader"], reply.body["local"]) == (200, HERE, True)
    [member] = reply.body["members"]
    assert member["role"] == "leader" and member["endpoints"] == ["amqp://127.0.0.1:5672"]


class Elsewhere(OneNode):
    """Node HERE in a cluster of three, where every queue is led by `n2`."""

    def place(self, queue: Queue) -> Place:
        return Place("n2", 7, (HERE, "n2", "n3"), lags={"n2": 0, "n3": 12})

    def node(self, name: str) -> NodePlace | None:
        return {each.name: each for each in self.nodes()}.get(name)

    def nodes(self) -> list[NodePlace]:
        return [
            NodePlace(HERE),
            NodePlace("n2", zone="east", load=Load(leaders=3, connections=4)),
            NodePlace("n3", is_running=False),
        ]


def test_in_a_cluster_the_topology_names_all_members_and_where_else_to_connect(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    room.broker.whereis = Elsewhere(HERE)
    topology = room.ask("GET", "/queues/q/topology").body
    assert isinstance(topology, dict)
    assert (topology["leader"], topology["leader_epoch"], topology["local"]) == ("n2", 7, False)
    assert topology["suggestions"] == ["amqp://n2:5672"]
    members = topology["members"]
    assert [each["role"] for each in members] == ["follower", "leader", "follower"]
    assert [each["state"] for each in members] == ["running", "running", "down"]
    assert [each["match_lag"] for each in members] == [None, 0, 12]
    assert [each["zone"] for each in members] == [None, "east", None]
    described = room.ask("GET", "/queues/q").body
    assert isinstance(described, dict)
    assert (described["leader"], described["replicas"].items) == ("n2", [HERE, "n2", "n3"])


def test_in_a_cluster_all_nodes_are_listed_with_what_they_told(room: Room) -> None:
    room.broker.whereis = Elsewhere(HERE)
    nodes = room.ask("GET", "/nodes").body
    assert isinstance(nodes, list)
    assert [each["state"] for each in nodes] == ["running", "running", "down"]
    assert [each["availability-zone"] for each in nodes] == [None, "east", None]
    assert [each["load"] for each in nodes] == [
        {"connections": 1, "queues": 0},
        {"connections": 4, "queues": 3},
        None,
    ]


def test_nodes_are_listed_with_their_listeners(room: Room) -> None:
    reply = room.ask("GET", "/nodes")
    assert isinstance(reply.body, list)
    [node] = reply.body
    assert (node["name"], node["state"]) == (HERE, "running")
    assert node["listeners"] == ["amqp://127.0.0.1:5672"]


# Exchanges and bindings


def test_exchanges_are_declared_and_deleted_with_204(room: Room) -> None:
    assert room.ask("PUT", "/exchanges/x", EXCHANGE) == Reply(204)
    assert room.status("PUT", "/exchanges/x", EXCHANGE) == 204
    assert room.refused("PUT", "/exchanges/x", EXCHANGE | {"internal": True})[0] == 409
    assert room.status("PUT", "/exchanges/amq.fanout", EXCHANGE) == 204
    assert room.ask("DELETE", "/exchanges/x") == Reply(204)
    assert room.ask("DELETE", "/exchanges/x") == Reply(204)
    assert not room.broker.definitions.has_exchange("/", "x")


def test_an_exchange_is_durable_and_direct_unless_told(room: Room) -> None:
    assert room.status("PUT", "/exchanges/x", None) == 204
    made = room.broker.steps.vhost.exchanges["x"]
    assert (made.type, made.durable, made.auto_delete, made.internal) == (
        "direct",
        True,
        False,
        False,
    )


def test_a_binding_is_found_by_its_ends_and_deleted_at_its_location(room: Room) -> None:
    room.ask("PUT", "/queues/q%2F1", {})
    plain = BINDING | {"destination_queue": "q/1", "binding_key": "a b;c"}
    argued = plain | {"arguments": {"x": UInt(1)}}
    assert [room.status("POST", "/bindings", each) for each in (plain, argued, plain)] == [204] * 3
    query = "src=amq.direct&dstq=q%2F1&key=a%20b;c"
    first, second = room.locations(query)
    assert first == "/bindings/src=amq.direct;dstq=q%2F1;key=a%20b%3Bc;args="
    assert second.startswith(first) and len(second) > len(first)
    assert room.ask("DELETE", second) == Reply(204)
    assert room.locations(query) == [first]
    assert room.ask("DELETE", first) == Reply(204)
    assert room.locations(query) == []
    assert room.ask("DELETE", first) == Reply(204)


def test_an_exchange_is_bound_to_an_exchange(room: Room) -> None:
    room.ask("PUT", "/exchanges/x", EXCHANGE)
    binding = {"source": "amq.topic", "destination_exchange": "x", "binding_key": "#"}
    assert room.status("POST", "/bindings", binding | {"arguments": Pairs([("a", 1)])}) == 204
    reply = room.ask("GET", "/bindings?src=amq.topic&dste=x&key=%23")
    assert isinstance(reply.body, list)
    [found] = reply.body
    location = found.pop("location")
    assert found == binding | {"arguments": {"a": 1}}
    assert location.startswith("/bindings/src=amq.topic;dste=x;key=%23;args=")
    assert room.refused("POST", "/bindings", binding | {"destination_exchange": ""})[0] == 403


def test_values_that_field_tables_do_not_know_are_refused_in_bindings_too(room: Room) -> None:
    room.ask("PUT", "/queues/q", {})
    for value in (Described(1, 2), Timestamp(-1), float("nan")):
        assert room.refused("POST", "/bindings", BINDING | {"arguments": {"x": value}})[0] == 400

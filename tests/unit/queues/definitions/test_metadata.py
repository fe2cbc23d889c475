"""The metadata machine: what commands do to its state, and what it tells of that."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import (
    FIRST_UID,
    Binding,
    Definition,
    Destination,
    Exchange,
    Queue,
)
from queues.definitions.members import Process
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Batch, Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import (
    Added,
    Batched,
    Created,
    Deleted,
    Exists,
    Outcome,
    Refused,
    Removed,
    Replaced,
)
from queues.definitions.metadata.snapshot import BadSnapshot
from tests.unit.queues.definitions.histories import bindings, histories, links, names
from tests.unit.queues.definitions.steps import (
    Steps,
    bind,
    declare_exchange,
    declare_queue,
    made,
    unbinding,
)


def removed(outcome: Outcome) -> list[str]:
    """Names of what went, in order; a binding by source, key and destination."""
    gone = [change.subject for change in outcome.changes if isinstance(change, Removed)]
    return [named(each) for each in gone if not isinstance(each, Process)]


def named(subject: Definition) -> str:
    if isinstance(subject, Binding):
        return f"{subject.source}-{subject.binding_key.decode()}-{subject.destination}"
    assert isinstance(subject, Exchange | Queue)
    return subject.name


def test_a_new_machine_has_the_default_vhost_with_its_exchanges() -> None:
    vhost = Metadata().vhosts["/"]
    assert {name: each.type for name, each in vhost.exchanges.items()} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
        "amq.rabbitmq.event": "topic",
    }
    assert all(each.durable and not each.auto_delete for each in vhost.exchanges.values())
    internal = [name for name, each in vhost.exchanges.items() if each.internal]
    assert internal == ["amq.rabbitmq.trace", "amq.rabbitmq.event"]
    assert vhost.entry.uid == FIRST_UID


def test_declaring_twice_creates_once() -> None:
    steps = Steps()
    for command in (declare_queue("q"), declare_exchange("x"), bind("x", "q", b"k")):
        first, version = steps.do(command), steps.machine.version
        second = steps.do(command)
        assert isinstance(first, Created) and isinstance(second, Exists)
        assert second.subject == first.subject and second.changes == ()
        assert steps.machine.version == version


def test_an_equal_declare_of_what_is_there_to_stay_can_be_answered_without_the_log() -> None:
    machine = Metadata()
    queue = commands.DeclareQueue("/", "q", durable=True)
    exchange = commands.DeclareExchange("/", "x", "topic", durable=True)
    assert machine.existing(queue) is None and machine.existing(exchange) is None
    declares: tuple[commands.DeclareQueue | commands.DeclareExchange, ...] = (queue, exchange)
    for index, command in enumerate(declares, 1):
        made = machine.apply(index, command)
        version = machine.version
        found = machine.existing(command)
        assert isinstance(made, Created)
        assert found is not None and found.subject == made.subject
        assert machine.version == version
    assert machine.existing(commands.DeclareQueue("/", "q")) is None, "not durable"
    assert machine.existing(commands.DeclareExchange("/", "x", "direct", durable=True)) is None
    assert machine.existing(commands.DeclareQueue("v", "q", durable=True)) is None


@pytest.mark.parametrize(
    "command",
    [
        commands.DeclareQueue("/", "q", durable=True, auto_delete=True),
        commands.DeclareQueue("/", "q", exclusive_owner="0000000000000001-1"),
        commands.DeclareQueue(
            "/", "q", durable=True, arguments=encode_arguments({"x-expires": 1000})
        ),
        commands.DeclareExchange("/", "x", "topic", auto_delete=True),
    ],
)
def test_a_declare_of_what_may_be_about_to_go_needs_the_log(command: Command) -> None:
    machine = Metadata()
    machine.apply(1, command)
    assert isinstance(command, commands.DeclareQueue | commands.DeclareExchange)
    assert machine.existing(command) is None


def test_arguments_that_no_rule_knows_do_not_make_a_redeclaration_differ() -> None:
    steps = Steps()
    steps.queue("q", arguments={"x-mine": 1})
    assert isinstance(steps.do(declare_queue("q", {"x-mine": 2, "other": "a"})), Exists)


def test_a_uid_is_never_given_again() -> None:
    steps = Steps()
    seen: set[int] = set()
    for _ in range(3):
        queue = steps.queue("q")
        exchange = steps.exchange("x")
        binding = made(steps.bind("x", "q"))
        for uid in (queue.uid, exchange.uid, binding.uid):
            assert uid >= FIRST_UID and uid not in seen
            seen.add(uid)
        steps.do(commands.DeleteQueue("/", "q"))
        steps.do(commands.DeleteExchange("/", "x"))
        steps = Steps(Metadata.restore(steps.machine.snapshot()))


def test_a_queue_is_found_by_its_uid_while_it_is_there() -> None:
    steps = Steps()
    queue = steps.queue("q")
    assert steps.machine.queue(queue.uid) == queue
    restored = Metadata.restore(steps.machine.snapshot())
    assert restored.queue(queue.uid) == queue
    steps.do(commands.DeleteQueue("/", "q"))
    assert steps.machine.queue(queue.uid) is None


def test_deleting_a_queue_takes_its_bindings_first() -> None:
    steps = Steps()
    queue = steps.queue("q")
    steps.bind("amq.direct", "q", b"k")
    steps.bind("amq.topic", "q", b"#")
    outcome = steps.do(commands.DeleteQueue("/", "q"))
    assert isinstance(outcome, Deleted) and outcome.subjects == (queue,)
    assert removed(outcome) == ["amq.direct-k-q", "amq.topic-#-q", "q"]
    assert steps.vhost.bindings() == []


def test_deleting_what_is_not_there_is_fine() -> None:
    steps = Steps()
    steps.queue("q")
    nothing: tuple[Command, ...] = (
        commands.DeleteQueue("/", "none"),
        commands.DeleteExchange("/", "none"),
        commands.DeleteVhost("none"),
        commands.DeleteUser("none"),
        commands.ClearPermissions("none", "/"),
        commands.DeleteByOwner("none"),
        unbinding(bind("none", "q")),
        unbinding(bind("amq.direct", "none")),
        unbinding(bind("amq.direct", "q", b"k")),
    )
    version = steps.machine.version
    for command in nothing:
        assert steps.do(command) == Deleted((), ())
    assert steps.machine.version == version


def test_a_delete_that_names_a_uid_spares_a_later_queue_of_that_name() -> None:
    steps = Steps()
    old = steps.queue("q")
    steps.do(commands.DeleteQueue("/", "q", old.uid))
    new = steps.queue("q")
    assert steps.do(commands.DeleteQueue("/", "q", old.uid)) == Deleted((), ())
    assert steps.vhost.queues["q"] == new


def test_an_auto_delete_exchange_goes_with_its_last_binding() -> None:
    steps = Steps()
    steps.exchange("x", auto_delete=True)
    steps.queue("q")
    assert "x" in steps.vhost.exchanges, "it has had no binding yet"
    steps.bind("x", "q", b"1")
    steps.bind("x", "q", b"2")
    assert removed(steps.do(unbinding(bind("x", "q", b"1")))) == ["x-1-q"]
    assert removed(steps.do(unbinding(bind("x", "q", b"2")))) == ["x-2-q", "x"]


def test_bindings_to_an_auto_delete_exchange_do_not_keep_it() -> None:
    steps = Steps()
    steps.exchange("x", auto_delete=True)
    steps.queue("q")
    steps.link("amq.fanout", "x")
    steps.bind("x", "q")
    outcome = steps.do(unbinding(bind("x", "q")))
    assert removed(outcome) == ["x--q", "amq.fanout--x", "x"]


def test_auto_delete_exchanges_fall_one_after_another() -> None:
    steps = Steps()
    for name in "abc":
        steps.exchange(name, "fanout", auto_delete=True)
    steps.queue("q")
    steps.link("a", "b")
    steps.link("b", "c")
    steps.bind("c", "q")
    outcome = steps.do(commands.DeleteQueue("/", "q"))
    assert removed(outcome) == ["c--q", "q", "b--c", "c", "a--b", "b", "a"]
    assert steps.vhost.bindings() == []


def test_an_exchange_bound_to_itself_goes_once() -> None:
    steps = Steps()
    steps.exchange("x", auto_delete=True)
    steps.link("x", "x", b"loop")
    outcome = steps.do(commands.DeleteExchange("/", "x"))
    assert removed(outcome) == ["x-loop-x", "x"]


def test_exclusive_queues_go_with_their_connection() -> None:
    steps = Steps()
    steps.queue("mine", owner="c1")
    steps.queue("mine too", owner="c1", durable=True)
    steps.queue("theirs", owner="c2")
    steps.bind("amq.fanout", "mine")
    outcome = steps.do(commands.DeleteByOwner("c1", 1))
    assert removed(outcome) == ["amq.fanout--mine", "mine"]
    assert removed(steps.do(commands.DeleteByOwner("c1"))) == ["mine too"]
    assert list(steps.vhost.queues) == ["theirs"]
    assert steps.do(commands.DeleteByOwner("c1")) == Deleted((), ())


def test_cluster_that_restarts_as_a_whole_has_no_transient_exchanges() -> None:
    steps = Steps()
    steps.do(commands.NodeUp("n1", 1, 7))
    steps.queue("durable", durable=True)
    steps.exchange("lasting", durable=True)
    steps.exchange("passing")
    steps.bind("passing", "durable", b"d")
    steps.bind("lasting", "durable", b"k")
    again = Steps(Metadata.restore(steps.machine.snapshot()))
    again.do(commands.NodeUp("n1", 1, 7))
    assert "passing" in again.vhost.exchanges
    outcome = again.do(commands.NodeUp("n1", 1, 8))
    assert removed(outcome) == ["passing-d-durable", "passing"]
    assert [named(each) for each in again.vhost.bindings()] == ["lasting-k-durable"]


def test_node_that_restarts_among_others_leaves_transient_exchanges() -> None:
    steps = Steps()
    steps.do(commands.NodeUp("n1", 1, 7))
    steps.do(commands.NodeUp("n2", 2, 17))
    steps.exchange("passing")
    steps.do(commands.NodeUp("n1", 1, 8))
    assert "passing" in steps.vhost.exchanges


def test_an_auto_delete_exchange_may_fall_while_transient_ones_are_cleared() -> None:
    steps = Steps()
    steps.do(commands.NodeUp("n1", 1, 7))
    steps.exchange("a", auto_delete=True)
    steps.exchange("b")
    steps.queue("q")
    steps.link("a", "b")
    steps.link("b", "a")
    steps.bind("b", "q")
    outcome = steps.do(commands.NodeUp("n1", 1, 8))
    assert {"a", "b"} <= set(removed(outcome))
    assert len(removed(outcome)) == len(set(removed(outcome)))


def test_deleting_a_vhost_takes_everything_in_it() -> None:
    steps = Steps()
    steps.do(commands.DeclareVhost("v", "for tests", ("blue",)))
    steps.do(commands.PutUser("u", "hash", "argon2id"))
    steps.do(commands.SetPermissions("u", "v", "", "", ".*"))
    queue = steps.do(commands.DeclareQueue("v", "q", exclusive_owner="c1"))
    steps.do(commands.Bind("v", "amq.fanout", Destination.QUEUE, "q", b""))
    outcome = steps.do(commands.DeleteVhost("v"))
    kinds = [type(change.subject).__name__ for change in outcome.changes]
    assert kinds == ["Permission", "Binding", "Queue", *["Exchange"] * 8, "VhostEntry"]
    assert list(steps.machine.vhosts) == ["/"]
    assert steps.machine.access.permissions("u", "v") is None
    assert isinstance(queue, Created) and steps.machine.queue(queue.subject.uid) is None
    assert steps.do(commands.DeleteByOwner("c1")) == Deleted((), ())


def test_a_vhosts_description_can_be_changed() -> None:
    steps = Steps()
    first = steps.do(commands.DeclareVhost("v", "old"))
    second = steps.do(commands.DeclareVhost("v", "new"))
    assert isinstance(first, Created) and isinstance(second, Created)
    assert second.changes == (Replaced(second.subject),)
    assert second.subject.uid == first.subject.uid
    assert steps.machine.vhosts["v"].entry == second.subject
    assert isinstance(steps.do(commands.DeclareVhost("v", "new")), Exists)


def test_users_and_permissions_are_put_changed_and_taken_away() -> None:
    steps = Steps()
    access = steps.machine.access
    steps.do(commands.PutUser("u", "one", "argon2id", ("administrator",)))
    steps.do(commands.SetPermissions("u", "/", "^a", "^b", ".*"))
    user = access.user("u")
    assert user is not None and (user.password_hash, user.tags) == ("one", ("administrator",))
    assert access.permissions("u", "/") == ("^a", "^b", ".*")
    changed = steps.do(commands.PutUser("u", "two", "argon2id"))
    assert isinstance(changed, Created) and changed.subject.uid == user.uid
    steps.do(commands.SetPermissions("u", "/", "", "", ""))
    assert access.permissions("u", "/") == ("", "", "")
    steps.do(commands.ClearPermissions("u", "/"))
    assert access.permissions("u", "/") is None
    steps.do(commands.SetPermissions("u", "/", "", "", ""))
    outcome = steps.do(commands.DeleteUser("u"))
    kinds = [type(change.subject).__name__ for change in outcome.changes]
    assert kinds == ["Permission", "User"]
    assert access.user("u") is None and access.permissions("u", "/") is None


def test_versions_rise_with_what_they_stand_for_and_with_nothing_else() -> None:
    steps = Steps()
    steps.do(commands.DeclareVhost("other"))
    machine, vhost, other = steps.machine, steps.vhost, steps.machine.vhosts["other"]

    def risen(command: Command) -> tuple[bool, bool, bool, bool]:
        before = (machine.version, vhost.version, machine.access.version, other.version)
        steps.do(command)
        after = (machine.version, vhost.version, machine.access.version, other.version)
        return tuple(new > old for old, new in zip(before, after, strict=True))  # type: ignore[return-value]

    assert risen(declare_queue("q")) == (True, True, False, False)
    assert risen(declare_queue("q")) == (False, False, False, False)
    assert risen(bind("amq.fanout", "q")) == (True, True, False, False)
    assert risen(unbinding(bind("amq.fanout", "q"))) == (True, True, False, False)
    assert risen(commands.PutUser("u", "", "")) == (True, False, True, False)
    assert risen(commands.SetPermissions("u", "/", "", "", "")) == (True, True, True, False)
    assert risen(commands.SetPermissions("u", "/", "", "", "")) == (False,) * 4
    assert risen(commands.DeleteUser("u")) == (True, True, True, False)
    assert risen(declare_queue("amq.q")) == (False, False, False, False)
    assert risen(commands.DeclareQueue("other", "q")) == (True, False, False, True)


def test_a_batch_answers_for_each_of_its_commands() -> None:
    steps = Steps()
    batch = Batch((declare_queue("q"), declare_queue("amq.q"), bind("amq.fanout", "q")))
    outcome = steps.do(batch)
    assert isinstance(outcome, Batched)
    assert [type(each) for each in outcome.outcomes] == [Created, Refused, Created]
    assert [type(each) for each in outcome.changes] == [Added, Added]
    assert len(steps.vhost.bindings()) == 1


def test_bindings_are_found_from_both_ends() -> None:
    steps = Steps()
    steps.queue("q")
    to_queue = made(steps.bind("amq.direct", "q", b"k"))
    to_exchange = made(steps.link("amq.direct", "amq.topic", b"k"))
    vhost = steps.vhost
    assert vhost.bindings_from("amq.direct") == [to_queue, to_exchange]
    assert vhost.bindings_to(Destination.QUEUE, "q") == [to_queue]
    assert vhost.bindings_to(Destination.EXCHANGE, "amq.topic") == [to_exchange]
    assert vhost.bindings_to(Destination.EXCHANGE, "q") == []
    assert to_exchange.target == -vhost.exchanges["amq.topic"].uid


def test_bytes_that_are_no_snapshot_are_told() -> None:
    good = Metadata().snapshot()
    bad_utf8 = good.replace(b"virtual", b"v\xffrtual")
    for bad in (
        b"",
        b"\x02" + good[1:],
        good[:-1],
        good + b"\0",
        b"\x01\x93\x01\x02\x03",
        bad_utf8,
    ):
        with pytest.raises(BadSnapshot):
            Metadata.restore(bad)


# Random histories: determinism, snapshots, and an independent model of what is left.


@settings(max_examples=150, deadline=None)
@given(st.lists(histories, max_size=60), st.integers(0, 60))
def test_the_same_commands_make_the_same_bytes_with_or_without_a_restart(
    history: list[Command], restart_at: int
) -> None:
    one, other = Steps(), Steps()
    for number, command in enumerate(history):
        if number == restart_at:
            other = Steps(Metadata.restore(other.machine.snapshot()))
        assert one.do(command) == other.do(command)
    assert one.machine.snapshot() == other.machine.snapshot()


class Model:
    """Names and bindings of vhost `/` alone, kept in the plainest way."""

    def __init__(self) -> None:
        self.auto_delete: dict[str, bool] = {}
        self.queues: set[str] = set()
        self.bindings: set[tuple[str, Destination, str, bytes, bytes]] = set()

    def drop(self, kind: Destination, name: str) -> None:
        for each in list(self.bindings):
            if each[1:3] == (kind, name) or (kind is Destination.EXCHANGE and each[0] == name):
                self.unbind(each)
        if kind is Destination.QUEUE:
            self.queues.discard(name)
        else:
            self.auto_delete.pop(name, None)

    def unbind(self, binding: tuple[str, Destination, str, bytes, bytes]) -> None:
        if binding in self.bindings:
            self.bindings.discard(binding)
            source = binding[0]
            if self.auto_delete.get(source) and all(each[0] != source for each in self.bindings):
                self.drop(Destination.EXCHANGE, source)


simple: st.SearchStrategy[Command] = st.one_of(
    st.builds(declare_exchange, names, auto_delete=st.booleans()),
    st.builds(declare_queue, names),
    bindings,
    links,
    st.builds(unbinding, bindings | links),
    st.builds(commands.DeleteQueue, st.just("/"), names),
    st.builds(commands.DeleteExchange, st.just("/"), names),
)


def follow(model: Model, command: Command) -> None:
    if isinstance(command, commands.DeclareExchange):
        model.auto_delete.setdefault(command.name, command.auto_delete)
    elif isinstance(command, commands.DeclareQueue):
        model.queues.add(command.name)
    elif isinstance(command, commands.DeleteQueue):
        model.drop(Destination.QUEUE, command.name)
    elif isinstance(command, commands.DeleteExchange):
        model.drop(Destination.EXCHANGE, command.name)
    elif isinstance(command, commands.Bind | commands.Unbind):
        to_queue = command.destination_kind is Destination.QUEUE
        there = model.queues if to_queue else set(model.auto_delete)
        key = command.binding_key, command.arguments
        row = (command.source, command.destination_kind, command.destination, *key)
        if isinstance(command, commands.Unbind):
            model.unbind(row)
        elif command.source in model.auto_delete and command.destination in there:
            model.bindings.add(row)


@settings(max_examples=200, deadline=None)
@given(st.lists(simple, max_size=60))
def test_what_is_left_agrees_with_a_naive_model(history: list[Command]) -> None:
    steps, model = Steps(), Model()
    for command in history:
        steps.do(command)
        follow(model, command)
    vhost = steps.vhost
    assert set(vhost.queues) == model.queues
    own = {name for name in vhost.exchanges if len(name) == 1}
    assert own == set(model.auto_delete)
    rows = {
        (each.source, each.destination_kind, each.destination, each.binding_key, each.arguments)
        for each in vhost.bindings()
    }
    assert rows == model.bindings
    standing: set[int] = {each.uid for each in vhost.definitions()}
    for change in steps.changes:
        uid = change.subject.uid
        if isinstance(change, Removed):
            assert uid not in standing

"""Every refusal of the metadata machine, with its code and its sentence."""

import pytest

from queues.definitions.broker_objects import Destination
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Created, Deleted, Exists
from tests.unit.queues.definitions.steps import (
    Steps,
    bind,
    declare_exchange,
    declare_queue,
    link,
    unbinding,
)

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)


def test_an_unknown_exchange_type_is_refused() -> None:
    assert Steps().refused(declare_exchange("x", "x-nope")) == (
        406,
        "unknown exchange type 'x-nope'",
    )


@pytest.mark.parametrize(
    "command",
    [
        declare_exchange(""),
        commands.DeleteExchange("/", ""),
        bind("", "q", b"q"),
        link("", "amq.direct"),
        link("amq.direct", ""),
        unbinding(bind("", "q", b"q")),
        unbinding(link("amq.direct", "")),
    ],
)
def test_the_default_exchange_is_left_alone(command: Command) -> None:
    steps = Steps()
    steps.queue("q")
    assert steps.refused(command) == (403, "operation not permitted on the default exchange")


def test_names_of_the_reserved_prefix_are_refused() -> None:
    steps = Steps()
    assert steps.refused(declare_exchange("amq.mine")) == (
        403,
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    assert steps.refused(declare_queue("amq.mine")) == (
        403,
        "queue name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    assert isinstance(steps.do(declare_queue("amq.gen-1", server_named=True)), Created)
    assert isinstance(steps.do(declare_queue("amq.gen-1")), Exists)
    declared = declare_exchange("amq.direct", "direct", durable=True)
    assert isinstance(steps.do(declared), Exists)


def test_predeclared_exchanges_are_not_deleted() -> None:
    assert Steps().refused(commands.DeleteExchange("/", "amq.topic")) == (
        403,
        "deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    )


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        (declare_exchange("x", "topic"), "'type' for %: received 'topic' but current is 'direct'"),
        (
            declare_exchange("x", durable=True),
            "'durable' for %: received 'true' but current is 'false'",
        ),
        (
            declare_exchange("x", auto_delete=True),
            "'auto_delete' for %: received 'true' but current is 'false'",
        ),
        (
            declare_exchange("x", internal=True),
            "'internal' for %: received 'true' but current is 'false'",
        ),
        (
            declare_exchange("x", arguments={"alternate-exchange": "ae"}),
            "'alternate-exchange' for %: received the value 'ae' of type 'longstr' "
            "but current is none",
        ),
    ],
)
def test_an_exchange_redeclared_otherwise_is_refused(command: Command, rest: str) -> None:
    steps = Steps()
    steps.exchange("x")
    text = "inequivalent arg " + rest.replace("%", "exchange 'x' in vhost '/'")
    assert steps.refused(command) == (406, text)


def test_other_arguments_of_an_exchange_do_not_count_when_it_is_redeclared() -> None:
    steps = Steps()
    steps.exchange("x", arguments={"mine": 1})
    assert isinstance(steps.do(declare_exchange("x")), Exists)


def test_an_alternate_exchange_is_named_by_a_string() -> None:
    assert Steps().refused(declare_exchange("x", arguments={"alternate-exchange": 5})) == (
        406,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    )


def test_an_exchange_in_use_is_spared_if_asked() -> None:
    steps = Steps()
    steps.exchange("x")
    steps.queue("q")
    steps.link("amq.direct", "x")
    steps.bind("x", "q")
    delete = commands.DeleteExchange("/", "x", if_unused=True)
    assert steps.refused(delete) == (406, "exchange 'x' in vhost '/' in use")
    steps.do(unbinding(bind("x", "q")))
    assert isinstance(steps.do(delete), Deleted)
    assert steps.vhost.bindings() == []


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        (
            declare_queue("q", {"x-expires": 5}, durable=True),
            "'durable' for %: received 'true' but current is 'false'",
        ),
        (
            declare_queue("q", {"x-expires": 5}, auto_delete=True),
            "'auto_delete' for %: received 'true' but current is 'false'",
        ),
        (
            declare_queue("q", {"x-expires": 6}),
            "'x-expires' for %: received '6' but current is '5'",
        ),
        (
            declare_queue("q"),
            "'x-expires' for %: received none but current is the value '5' of type 'signedint'",
        ),
        (
            declare_queue("q", {"x-expires": 5, "x-overflow": "drop-head"}),
            "'x-overflow' for %: received the value 'drop-head' of type 'longstr' "
            "but current is none",
        ),
        (
            declare_queue("q", {"x-expires": 5, "x-queue-type": "quorum"}),
            "'x-queue-type' for %: received 'quorum' but current is 'classic'",
        ),
    ],
)
def test_a_queue_redeclared_otherwise_is_refused(command: Command, rest: str) -> None:
    steps = Steps()
    steps.queue("q", {"x-expires": 5})
    text = "inequivalent arg " + rest.replace("%", "queue 'q' in vhost '/'")
    assert steps.refused(command) == (406, text)


def test_a_queue_redeclared_with_equal_values_of_other_kinds_is_the_same() -> None:
    steps = Steps()
    steps.queue("q", {"x-expires": 1 << 33, "x-queue-type": "classic"})
    assert isinstance(steps.do(declare_queue("q", {"x-expires": 1 << 33})), Exists)


def test_a_whole_number_and_a_fraction_of_the_same_value_are_not_equivalent() -> None:
    steps = Steps()
    steps.queue("q", {"x-message-ttl": 10})
    code, text = steps.refused(declare_queue("q", {"x-message-ttl": 10.0}))
    assert code == 406
    assert "received '10.0' but current is '10'" in text


STREAM: dict[str, object] = {"x-queue-type": "stream"}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (declare_queue("q", STREAM), "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        (
            declare_queue("q", STREAM, durable=True, auto_delete=True),
            "invalid property 'auto-delete' for queue 'q' in vhost '/'",
        ),
        (
            declare_queue("q", STREAM, "c1", durable=True),
            "invalid property 'exclusive-owner' for queue 'q' in vhost '/'",
        ),
    ],
)
def test_what_a_stream_cannot_be_is_refused(command: Command, text: str) -> None:
    assert Steps().refused(command) == (406, text)


QUORUM: dict[str, object] = {"x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (declare_queue("q", QUORUM), "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        (
            declare_queue("q", QUORUM, "c1", durable=True),
            "invalid property 'exclusive-owner' for queue 'q' in vhost '/'",
        ),
        (
            declare_queue("q", QUORUM, durable=True, server_named=True),
            "Cannot declare a server-named queue for type rabbit_quorum_queue",
        ),
    ],
)
def test_what_a_quorum_queue_cannot_be_is_refused(command: Command, text: str) -> None:
    assert Steps().refused(command) == (406, text)


def test_a_bad_argument_of_a_queue_is_refused() -> None:
    assert Steps().refused(declare_queue("q", {"x-expires": 0})) == (
        406,
        "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}",
    )


@pytest.mark.parametrize(
    "command",
    [
        declare_queue("q", owner="c2"),
        declare_queue("q"),
        commands.DeleteQueue("/", "q", connection="c2"),
        commands.Bind("/", "amq.direct", Destination.QUEUE, "q", b"", connection="c2"),
        commands.Unbind("/", "amq.direct", Destination.QUEUE, "q", b"", connection="c2"),
    ],
)
def test_an_exclusive_queue_is_locked_to_other_connections(command: Command) -> None:
    steps = Steps()
    steps.queue("q", owner="c1")
    assert steps.refused(command) == (405, LOCKED)


def test_a_shared_queue_cannot_be_redeclared_as_exclusive() -> None:
    steps = Steps()
    steps.queue("q")
    assert steps.refused(declare_queue("q", owner="c1")) == (405, LOCKED)


def test_the_owner_and_an_operator_may_use_an_exclusive_queue() -> None:
    steps = Steps()
    steps.queue("q", owner="c1")
    assert isinstance(steps.do(declare_queue("q", owner="c1")), Exists)
    for connection in ("c1", ""):
        row = ("/", "amq.direct", Destination.QUEUE, "q", connection.encode(), b"", connection)
        assert isinstance(steps.do(commands.Bind(*row)), Created)
        assert isinstance(steps.do(commands.Unbind(*row)), Deleted)
    assert isinstance(steps.do(commands.DeleteQueue("/", "q", connection="c1")), Deleted)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (bind("none", "q"), "no exchange 'none' in vhost '/'"),
        (bind("amq.direct", "none"), "no queue 'none' in vhost '/'"),
        (link("amq.direct", "q"), "no exchange 'q' in vhost '/'"),
        (commands.SetPermissions("none", "/", "", "", ""), "no user 'none'"),
        (commands.SetPermissions("u", "none", "", "", ""), "no vhost 'none'"),
    ],
)
def test_what_is_missing_is_named(command: Command, text: str) -> None:
    steps = Steps()
    steps.queue("q")
    steps.do(commands.PutUser("u", "", ""))
    assert steps.refused(command) == (404, text)


def test_a_missing_vhost_is_named() -> None:
    assert Steps().refused(commands.DeclareQueue("none", "q")) == (530, "vhost none not found")


def test_a_binding_that_the_exchange_cannot_read_is_refused() -> None:
    steps = Steps()
    steps.queue("q")
    command = bind("amq.headers", "q", b"", **{"x-match": "most"})
    assert steps.refused(command) == (
        406,
        'Invalid x-match field value <<"most">>; expected all, any, all-with-x, or any-with-x',
    )
    assert isinstance(steps.do(bind("amq.topic", "q", b"", **{"x-match": "most"})), Created)

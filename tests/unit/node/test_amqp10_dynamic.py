"""Queues that are made for links: rights, lifetimes, and links that do not wait for them."""

import pytest

from node.amqp10.dynamic import TEMPORARY, VOLATILE, Dynamics, Made, wish_of
from queues.definitions.metadata.commands import DeleteQueue
from tests.unit.node.fake_managed import FakeManaged, FakeRequester
from warren.wire.amqp10.codec.descriptors import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
)
from warren.wire.amqp10.codec.performatives import Source, Target
from warren.wire.amqp10.codec.values import Described, Symbol, ULong
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.errors import ProtocolError as Refusal


class Harness:
    """A connection and the queues that were made for its links."""

    def __init__(self) -> None:
        self.broker = FakeManaged()
        self.requester = FakeRequester(self.broker)
        self.dynamics = Dynamics(self.requester)
        self.refused: list[ProtocolError] = []

    def make(self, terminus: Source | Target) -> Made:
        made: list[Made] = []
        wanted = self.dynamics.wanted(terminus)
        self.dynamics.make(wanted, made.append, self.refused.append)
        self.broker.commit()
        return made[0]

    def link(self, made: Made) -> None:
        self.dynamics.join(made.name)

    def unlink(self, made: Made, its_own: bool = False) -> None:
        self.dynamics.leave(made.name, made if its_own else None)
        self.broker.commit()

    def is_there(self, made: Made) -> bool:
        return self.broker.definitions.queue("/", made.name) is not None


def asked(policy: int | None = None, capability: str | None = None) -> Source:
    node: dict[str, object] | None = None
    if policy is not None:
        node = {"lifetime-policy": Described(ULong(policy), [])}
    capabilities = None if capability is None else [capability]
    return Source(dynamic=True, dynamic_node_properties=node, capabilities=capabilities)


def test_a_dynamic_queue_is_exclusive_and_transient_and_told_with_its_address() -> None:
    harness = Harness()
    made = harness.make(asked())
    queue = harness.broker.definitions.queue("/", made.name)
    assert queue is not None
    assert (queue.exclusive_owner, queue.durable, queue.auto_delete) == ("c1", False, False)
    assert made.address == f"/queues/{made.name}"
    assert made.capabilities == [TEMPORARY]
    assert made.properties == {"lifetime-policy": Described(ULong(DELETE_ON_CLOSE), [])}
    assert harness.requester.owns_queues
    assert harness.broker.churn.declared == 1


def test_a_reply_queue_needs_no_permission_and_any_other_one_that_to_configure() -> None:
    harness = Harness()
    harness.requester.permit("^$", "^$", "^$")
    assert harness.make(asked(capability=VOLATILE)).capabilities == [VOLATILE]
    with pytest.raises(Refusal, match="access"):
        harness.make(asked(capability=TEMPORARY))
    assert harness.broker.proposed == []


@pytest.mark.parametrize(
    "terminus",
    [
        Source(address="/queues/q", dynamic=True),
        asked(0x24),
        Target(dynamic=True, dynamic_node_properties={"lifetime-policy": ULong(0x2B)}),
    ],
)
def test_what_no_dynamic_terminus_can_be_is_invalid(terminus: Source | Target) -> None:
    with pytest.raises(ProtocolError) as caught:
        Harness().make(terminus)
    assert caught.value.condition is Condition.INVALID_FIELD


@pytest.mark.parametrize(
    ("descriptor", "policy"),
    [
        (Symbol("amqp:delete-on-close:list"), DELETE_ON_CLOSE),
        (Symbol("amqp:delete-on-no-links:list"), DELETE_ON_NO_LINKS),
        (Symbol("amqp:delete-on-no-messages:list"), DELETE_ON_NO_MESSAGES),
        (ULong(0x2E), DELETE_ON_NO_LINKS_OR_MESSAGES),
    ],
)
def test_lifetime_policies_are_known_by_number_and_by_name(descriptor: object, policy: int) -> None:
    node: dict[str, object] = {"lifetime-policy": Described(descriptor, [])}
    assert wish_of(Source(dynamic=True, dynamic_node_properties=node)).policy == policy


@pytest.mark.parametrize(
    ("policy", "stays"),
    [
        (DELETE_ON_CLOSE, [True, False, False]),
        (DELETE_ON_NO_LINKS, [True, True, False]),
        (DELETE_ON_NO_MESSAGES, [True, True, False]),
        (DELETE_ON_NO_LINKS_OR_MESSAGES, [True, True, False]),
    ],
)
def test_a_queue_goes_as_its_lifetime_policy_says(policy: int, stays: list[bool]) -> None:
    """Three links, the second is the one for which it was made; then it holds no message."""
    harness = Harness()
    made = harness.make(asked(policy))
    queue = harness.broker.queues.host(made.uid)
    queue.bodies.append(b"message")
    for _ in range(3):
        harness.link(made)
    seen = []
    for number in (1, 2, 3):
        if number == 3:
            queue.bodies.clear()
        harness.unlink(made, number == 2)
        seen.append(harness.is_there(made))
    assert seen == stays


def test_a_queue_that_holds_messages_outlives_its_links_where_its_policy_says_so() -> None:
    harness = Harness()
    made = harness.make(asked(DELETE_ON_NO_LINKS_OR_MESSAGES))
    harness.broker.queues.host(made.uid).bodies.append(b"message")
    harness.link(made)
    harness.unlink(made, True)
    assert harness.is_there(made)
    harness.link(made)
    harness.broker.queues.host(made.uid).bodies.clear()
    harness.unlink(made)
    assert not harness.is_there(made)


def test_a_link_that_did_not_wait_leaves_no_queue() -> None:
    harness = Harness()
    made = harness.make(asked(DELETE_ON_NO_LINKS))
    harness.dynamics.give_up(made)
    harness.broker.commit()
    assert not harness.is_there(made)


def test_another_queue_of_that_name_is_left_alone() -> None:
    harness = Harness()
    made = harness.make(asked())
    harness.link(made)
    harness.broker.steps.do(DeleteQueue("/", made.name))
    harness.dynamics.leave(made.name, made)
    assert harness.broker.proposed == []
    harness.dynamics.leave(made.name, made)  # It knows nothing of it any more.


def test_links_of_other_queues_are_not_its_business() -> None:
    harness = Harness()
    harness.dynamics.join("other")
    harness.dynamics.leave("other")
    assert harness.broker.proposed == []

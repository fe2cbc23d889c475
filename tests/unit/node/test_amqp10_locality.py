"""What flows tell of a link's queue, and to whom."""

import pytest

from node.amqp10.endpoint import url_of
from node.amqp10.locality import CAPABILITY, are_wanted, hints_of, queue_of_target
from queues.definitions import Queue, Uid
from warren.wire.amqp10.values import Symbol, ULong


@pytest.mark.parametrize(
    ("setting", "desired", "wanted"),
    [
        ("off", [CAPABILITY], False),
        ("negotiated", None, False),
        ("negotiated", ["other"], False),
        ("negotiated", ["other", CAPABILITY], True),
        ("always", None, True),
    ],
)
def test_who_is_told_depends_on_the_setting_and_the_open(
    setting: str, desired: list[str] | None, wanted: bool
) -> None:
    assert are_wanted(setting, desired) is wanted


def test_the_short_form_is_part_of_the_full_one_and_types_are_those_of_the_table() -> None:
    queue = Queue(Uid(20), "/", "q", True, "", False, b"", "n1")
    full, short = hints_of(queue, "n1", ["amqp://h:1"])
    assert set(short) == {"local", "leader-epoch"} and short.items() <= full.items()
    assert (full["local"], full["leader"], full["replicas"]) == (True, "n1", ["n1"])
    assert type(full["leader-epoch"]) is ULong and type(full["state"]) is Symbol
    assert hints_of(queue, "n2", [])[1]["local"] is False


def test_only_a_target_that_names_a_queue_has_one() -> None:
    assert queue_of_target("/queues/a%2Fb") == "a/b"
    assert queue_of_target("/exchanges/x/a") is None and queue_of_target(None) is None


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    assert url_of("::1", 5672) == "amqp://[::1]:5672"
    assert url_of("127.0.0.1", 5672) == "amqp://127.0.0.1:5672"

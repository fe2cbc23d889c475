"""Operator policies of a rabbitmq.conf (`default_policies.operator`) become settings of Warren."""

from pathlib import Path

import pytest

from node.config.rabbitmq_conf import convert, toml_of
from node.config.settings import load

POLICIES = """
default_policies.operator.a-b.vhost_pattern = device
default_policies.operator.a-b.queue_pattern = ^q
default_policies.operator.a-b.expires = 1h30m
default_policies.operator.a-b.message_ttl = 5000
default_policies.operator.a-b.max_length_bytes = 1MB
default_policies.operator.a-b.max_length = 10
default_policies.operator.second.apply_to = queues
default_policies.operator.second.delivery_limit = 3
default_policies.operator.second.classic_queues.ha_mode = exactly
default_policies.operator.second.classic_queues.ha_params = 2
default_policies.operator.second.classic_queues.ha_sync_mode = automatic
default_vhost = shop
"""


def test_default_operator_policies_are_carried_over(tmp_path: Path) -> None:
    converted = convert(POLICIES)
    assert converted.notes == []
    written = tmp_path / "warren.toml"
    written.write_text(toml_of(converted))
    config = load(written)
    first, second = config.default_operator_policies
    assert (first.name, first.vhost_pattern, first.pattern) == ("a-b", "device", "^q")
    assert first.definition == {
        "expires": 5_400_000,
        "max-length": 10,
        "max-length-bytes": 1_000_000,
        "message-ttl": 5000,
    }
    assert (second.name, second.apply_to) == ("second", "queues")
    assert second.definition == {
        "delivery-limit": 3,
        "ha-mode": "exactly",
        "ha-params": 2,
        "ha-sync-mode": "automatic",
    }
    assert config.default_vhost == "shop"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("default_policies.operator.p.max_length = many", "'many' is not a whole number"),
        ("default_policies.operator.p.expires = soon", "'soon' is not a time"),
        (
            "default_policies.operator.p.max_priority = 3",
            "operator policies have no key 'max_priority'",
        ),
        ("default_policies.operator.p.max_length = -1", "not a valid maximum length"),
        ("default_policies.operator.p.queue_pattern = (", "pattern"),
    ],
)
def test_a_wrong_default_operator_policy_is_named(line: str, reason: str) -> None:
    converted = convert(line)
    assert converted.operator_policies == []
    assert [note.is_lost for note in converted.notes] == [True]
    assert reason in converted.notes[0].reason and line == converted.notes[0].text

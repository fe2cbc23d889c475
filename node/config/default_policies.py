"""Operator policies that vhosts begin with (`default_operator_policies`).

Each vhost that is made gets those whose `vhost_pattern` is found in its name, in the order in which
the configuration has them. From then on they are operator policies like others: changed and cleared
as those are. Vhosts that are there already keep what they have.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from node.config.config_layers import Section
from queues.definitions.expressions import compiled_or_none, expression_fault
from queues.definitions.metadata.commands import PutPolicy
from queues.definitions.policy_keys import policy_fault
from queues.definitions.queue_arguments import NAME_BYTES_MAX

_SORTED: Final = msgspec.json.Encoder(order="sorted")


class DefaultPolicy(Section, frozen=True, kw_only=True):
    """One of them."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
    definition: dict[str, int | str | bool] = {}
    vhost_pattern: str = ".*"
    pattern: str = ".*"
    apply_to: str = "all"
    priority: int = 0


def default_policies(rules: Sequence[DefaultPolicy], vhost: str) -> list[PutPolicy]:
    """What a new vhost begins with."""
    return [
        PutPolicy(
            vhost,
            each.name,
            True,
            each.pattern,
            each.apply_to,
            each.priority,
            _SORTED.encode(each.definition),
        )
        for each in rules
        if _is_for(each, vhost)
    ]


def _is_for(rule: DefaultPolicy, vhost: str) -> bool:
    pattern = compiled_or_none(rule.vhost_pattern)
    return pattern is not None and pattern.is_found_in(vhost)


def fault_in(rules: Sequence[DefaultPolicy]) -> str | None:
    """What is wrong with them; None: nothing is."""
    for each in rules:
        fault = policy_fault(each.pattern, each.apply_to, each.priority, each.definition, True)
        if fault is not None:
            return f"'{each.name}': {' '.join(fault.split())}"
        fault = expression_fault(each.vhost_pattern)
        if fault is not None:
            return f"'{each.name}': vhost_pattern is not a regular expression: {fault}"
    names = [each.name for each in rules]
    twice = [name for name in names if names.count(name) > 1]
    return f"'{twice[0]}' is there twice; allowed: once" if twice else None

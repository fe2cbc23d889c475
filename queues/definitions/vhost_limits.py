"""Limits of vhosts and users: runtime parameters with numbers, and RabbitMQ's sentences.

Those of a vhost are its parameter `limits` of the component `vhost-limits`; those of a user, which
hold in all vhosts, the global parameter of the component `user-limits` with the user's name. Each
is a JSON object of numbers; a negative number is no limit.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from queues.definitions.arguments import brief_term
from queues.definitions.broker_objects import Parameter

VHOST_LIMITS: Final = "vhost-limits"
VHOST_LIMITS_NAME: Final = "limits"
USER_LIMITS: Final = "user-limits"

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"

LIMITS_OF_VHOST: Final = (MAX_CONNECTIONS, MAX_QUEUES)
LIMITS_OF_USER: Final = (MAX_CONNECTIONS, MAX_CHANNELS)

NO_LIMIT: Final = -1
NUMBER_MAX: Final = (1 << 63) - 1

_DECODE: Final = msgspec.json.Decoder(dict[str, int]).decode


def limits_in(parameter: Parameter | None) -> Mapping[str, int]:
    """The limits by name; none where there is no parameter."""
    return {} if parameter is None else _DECODE(parameter.value)


def limit_of(
    parameters: Mapping[tuple[str, str], Parameter], key: tuple[str, str], name: str
) -> int:
    """One limit; NO_LIMIT where there is none."""
    if not parameters:
        return NO_LIMIT
    return limits_in(parameters.get(key)).get(name, NO_LIMIT)


def vhost_limit(parameters: Mapping[tuple[str, str], Parameter], name: str) -> int:
    """A limit of the vhost whose parameters these are."""
    return limit_of(parameters, (VHOST_LIMITS, VHOST_LIMITS_NAME), name)


def user_limit(parameters: Mapping[tuple[str, str], Parameter], user: str, name: str) -> int:
    """A limit of the user; these are the global parameters."""
    return limit_of(parameters, (USER_LIMITS, user), name)


def limit_fault(known: tuple[str, ...], name: str, value: object) -> str | None:
    """Why the limit cannot be set; None if it can."""
    if name not in known:
        return f"Unrecognised terms [{{{brief_term(name)},{brief_term(value)}}}] in limits"
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or abs(int(str(value))) > NUMBER_MAX:
        return f"{name} should be a number, actually was {brief_term(value)}"
    return None

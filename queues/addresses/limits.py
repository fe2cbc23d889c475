"""Limits of an address: policy keys, arguments with `x-` before them, and what they mean together.

An address is an exchange with all queues that its bindings reach, or a queue by itself. A key is a
policy key `KEY`, an argument `x-KEY` of classic and quorum queues, and an argument `x-KEY` of
exchanges. An argument has precedence over a policy.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from msgspec import Struct

from queues.addresses.producer_window import SIZE_MAX as WINDOW_MAX
from queues.addresses.producer_window import SIZE_MIN as WINDOW_MIN

PAGE: Final = "PAGE"  # what an address does when it is full
BLOCK: Final = "BLOCK"
DROP: Final = "DROP"
FAIL: Final = "FAIL"

SIZE_MAX: Final = (1 << 63) - 1
RATE_MAX: Final = 1_000_000
CREDITS_MAX: Final = 10_000
CREDITS: Final = 100  # of AMQP 1.0, where one of the two keys alone is given
CREDITS_LOW: Final = 30


@final
class AddressLimits(Struct, frozen=True):
    """-1 stands for "no limit". Bytes are those of bodies and properties, as queues store them."""

    bytes_max: int = -1
    count_max: int = -1
    policy: str = PAGE
    reject_bytes: int = -1  # with BLOCK: publishes above are refused
    page_bytes_max: int = -1  # with PAGE: beyond `bytes_max`
    page_count_max: int = -1  # beyond `count_max`
    page_full: str = DROP  # or FAIL
    rate_max: int = -1  # messages per second and publisher
    window_bytes: int = -1  # of AMQP 1.0: that a sender may have sent and not been answered for
    credits: int = -1  # of AMQP 1.0: granted to a sender
    credits_low: int = -1  # granted again when so few are left
    stamps: bool = False  # messages get the time at which the broker took them

    @property
    def is_bounded(self) -> bool:
        """Whether the address can be full."""
        return self.bytes_max >= 0 or self.count_max >= 0

    @property
    def blocking_bytes(self) -> int:
        """Bytes at which publishers wait, or -1."""
        return self.bytes_max if self.policy == BLOCK else -1

    @property
    def drops(self) -> bool:
        """Whether messages over the hard limit are dropped, and not refused."""
        return self.policy == DROP or (self.policy == PAGE and self.page_full == DROP)

    @property
    def hard(self) -> tuple[int, int]:
        """Bytes and messages above which publishes are refused or dropped."""
        if self.policy in (DROP, FAIL):
            return self.bytes_max, self.count_max
        if self.policy == BLOCK:
            return self.reject_bytes, -1
        return (
            _beyond(self.bytes_max, self.page_bytes_max),
            _beyond(self.count_max, self.page_count_max),
        )


def _beyond(limit: int, more: int) -> int:
    return -1 if limit < 0 or more < 0 else limit + more


@final
class Key(Struct, frozen=True):
    """One key: the field that it sets, what is allowed, and the sentence about that."""

    name: str
    field: str
    allows: Callable[[object], bool]
    allowed: str


def _whole(low: int, high: int) -> Callable[[object], bool]:
    """A whole number between these, or -1."""

    def check(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return low <= value <= high or value == -1

    return check


def _one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


_SIZE: Final = (_whole(0, SIZE_MAX), "a whole number, 0 or more, or -1 for no limit")
_PAGE_FULL: Final = (_one_of(DROP, FAIL), "DROP or FAIL")

KEYS: Final = (
    Key("max-size-bytes", "bytes_max", *_SIZE),
    Key("max-size-messages", "count_max", *_SIZE),
    Key(
        "address-full-policy",
        "policy",
        _one_of(PAGE, BLOCK, DROP, FAIL),
        "PAGE, BLOCK, DROP or FAIL",
    ),
    Key("max-size-bytes-reject-threshold", "reject_bytes", *_SIZE),
    Key("page-limit-bytes", "page_bytes_max", *_SIZE),
    Key("page-limit-messages", "page_count_max", *_SIZE),
    Key("page-full-policy", "page_full", *_PAGE_FULL),
    Key(
        "producer-max-rate",
        "rate_max",
        _whole(1, RATE_MAX),
        f"messages per second from 1 to {RATE_MAX}, or -1 for no limit",
    ),
    Key(
        "producer-window-size",
        "window_bytes",
        _whole(WINDOW_MIN, WINDOW_MAX),
        f"bytes from {WINDOW_MIN} to {WINDOW_MAX}, or -1 for no window",
    ),
    Key(
        "amqp-credits",
        "credits",
        _whole(1, CREDITS_MAX),
        f"messages from 1 to {CREDITS_MAX}, or -1 for the node's own scheme",
    ),
    Key(
        "amqp-low-credits",
        "credits_low",
        _whole(0, CREDITS_MAX),
        f"messages from 0 to {CREDITS_MAX}, or -1 for the node's own scheme",
    ),
    Key(
        "enable-ingress-timestamp",
        "stamps",
        lambda value: isinstance(value, bool),
        "true or false",
    ),
)
BY_NAME: Final[Mapping[str, Key]] = {key.name: key for key in KEYS}


def value_fault(name: str, value: object) -> str | None:
    """What a value of this key has to be, if it is not that."""
    key = BY_NAME[name]
    return None if key.allows(value) else f"expected {key.allowed}"


def limits_of(definition: Mapping[str, object], prefix: str = "") -> AddressLimits | None:
    """The limits that good settings give, each key with `prefix` before it; None: none."""
    given = {
        key.field: definition[prefix + key.name] for key in KEYS if prefix + key.name in definition
    }
    if not given:
        return None
    limits = AddressLimits(**given)  # type: ignore[arg-type]
    if limits.credits < 0 and limits.credits_low < 0:
        return limits
    credits = CREDITS if limits.credits < 0 else limits.credits
    low = min(CREDITS_LOW, credits // 2) if limits.credits_low < 0 else limits.credits_low
    return AddressLimits(**{**given, "credits": credits, "credits_low": low})  # type: ignore[arg-type]


def together_fault(definition: Mapping[str, object], prefix: str = "") -> str | None:
    """Why these settings, each of them good, cannot be given together."""
    limits = limits_of(definition, prefix)
    if limits is None:
        return None
    if limits.reject_bytes >= 0 and limits.policy != BLOCK:
        return (
            f"{prefix}max-size-bytes-reject-threshold needs {prefix}address-full-policy BLOCK, "
            f"not {limits.policy}"
        )
    if max(limits.page_bytes_max, limits.page_count_max) >= 0 and limits.policy != PAGE:
        return f"{prefix}page limits need {prefix}address-full-policy PAGE, not {limits.policy}"
    if 0 <= limits.reject_bytes < limits.bytes_max:
        return (
            f"{prefix}max-size-bytes-reject-threshold {limits.reject_bytes} is less than "
            f"{prefix}max-size-bytes {limits.bytes_max}"
        )
    if limits.credits >= 0 and limits.credits_low >= limits.credits:
        return (
            f"{prefix}amqp-low-credits {limits.credits_low} is not less than "
            f"{prefix}amqp-credits {limits.credits}"
        )
    return None


def stream_fault(definition: Mapping[str, object], apply_to: object) -> str | None:
    """Why a policy for streams cannot have these keys."""
    found = [key for key in definition if key in BY_NAME] if apply_to == "streams" else []
    if not found:
        return None
    return f"{found[0]} does not apply to streams: their retention bounds them"


def arguments_fault(arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """The argument of a queue or exchange that is wrong, and the sentence about it."""
    for key in KEYS:
        name = f"x-{key.name}"
        if name in arguments:
            fault = value_fault(key.name, arguments[name])
            if fault is not None:
                return name, fault
    together = together_fault(arguments, "x-")
    if together is None:
        return None
    return next(f"x-{key.name}" for key in KEYS if f"x-{key.name}" in arguments), together

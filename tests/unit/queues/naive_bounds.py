"""Bounds of lifetimes as the rules say it, of one message."""

from queues.machine.address_settings import AddressSettings


def default_ttl(address: AddressSettings | None) -> int:
    if address is None:
        return -1
    return address.expiry_ms if address.expiry_ms >= 0 else address.expiry_max_ms


def bounds(address: AddressSettings | None) -> tuple[int, int]:
    return (-1, -1) if address is None else (address.expiry_min_ms, address.expiry_max_ms)


def bounded(address: AddressSettings | None, ttl: int) -> int:
    """The lifetime of a message that has this one, or none."""
    if ttl < 0:
        return default_ttl(address)
    low, high = bounds(address)
    return max(ttl if high < 0 else min(ttl, high), low)


def due_with(
    old: AddressSettings | None,
    new: AddressSettings | None,
    due: int | None,
    has_expiration: bool,
    now_ms: int,
) -> int | None:
    """When a message expires that was due then, or never, once the settings are others."""
    if not has_expiration:
        if default_ttl(new) < 0:
            return None
        if due is None:
            return now_ms + default_ttl(new)
        return max(due + default_ttl(new) - default_ttl(old), now_ms)
    if due is None or bounds(old) == bounds(new):
        return due
    low, high = bounds(new)
    return max(due if high < 0 else min(due, now_ms + high), now_ms + low)

"""Serial numbers of 32 bits, as RFC 1982 counts them: they wrap, and compare by the shorter way.

Transfer numbers, delivery numbers and delivery counts of AMQP 1.0 are such numbers. Pure
functions on u32 in i64. Compiled.
"""

from typing import Final

from mypy_extensions import i64

MASK: Final = 0xFFFFFFFF
UINT_MAX: Final = 0xFFFFFFFF
HALF: Final = 1 << 31


def plus(number: i64, steps: i64) -> i64:
    """The number so many steps on, or back where they are negative."""
    return (number + steps) & MASK


def ahead(left: i64, right: i64) -> i64:
    """How far `left` is ahead of `right`: -2^31 .. 2^31 - 1, negative where it is behind."""
    gap = (left - right) & MASK
    return gap - (MASK + 1) if gap >= HALF else gap

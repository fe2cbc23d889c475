"""Hashes that are the same on every node, in every process and in every version. Compiled.

Where keys went must be where they go, after a restart and on each member: what is here is never
changed. Numbers are 32 bits wide and products stay below 2**63, so that compiled and uncompiled
agree; there are no floats, for they do not round alike everywhere.
"""

from hashlib import blake2b
from typing import Final
from zlib import crc32

from mypy_extensions import i64

MASK: Final = 0xFFFFFFFF
FRACTION_BITS: Final = 30  # of `distance`


def mix(value: i64) -> i64:
    """Another number of 32 bits for each number of 32 bits, with no likeness between them."""
    value = (value ^ value >> 15) * 0x2C1B3C6D & MASK
    value = (value ^ value >> 12) * 0x297A2D39 & MASK
    return value ^ value >> 15


def key_hash(key: bytes) -> i64:
    """32 bits for a routing key or what stands in its place."""
    checksum: i64 = crc32(key)
    return mix(checksum)


def name_hash(name: bytes) -> tuple[int, int]:
    """Twice 32 bits for a name: enough that no two names of an exchange have the same."""
    digest = blake2b(name, digest_size=8).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")


def share(value: i64, count: i64) -> i64:
    """Of `count` equal shares of all 32-bit numbers, the one that `value` is in."""
    return value * count >> 32


def distance(value: i64) -> i64:
    """Minus the logarithm to base 2 of (value + 1) / 2**32, in units of 2**-FRACTION_BITS.

    For an evenly drawn `value` it is a waiting time: the shortest of several, each divided by a
    weight, belongs to each of them as often as its weight says.
    """
    value += 1
    whole: i64 = 0
    while value >> whole > 1:
        whole += 1
    if whole > FRACTION_BITS:
        value >>= whole - FRACTION_BITS
    else:
        value <<= FRACTION_BITS - whole
    fraction: i64 = 0
    bit: i64 = 1 << (FRACTION_BITS - 1)
    while bit > 0:  # Squaring the mantissa doubles its logarithm: one more binary digit.
        value = value * value >> FRACTION_BITS
        if value >> FRACTION_BITS > 1:
            value >>= 1
            fraction |= bit
        bit >>= 1
    return ((32 - whole) << FRACTION_BITS) - fraction


def jump(value: i64, count: int) -> int:
    """Jump consistent hash (Lamping and Veach): one of `count` buckets, all equally likely.

    With one bucket more, each key stays where it was or goes to the new one.
    """
    bucket = 0
    following = 0
    while following < count:
        bucket = following
        value = mix((value + 0x9E3779B9) & MASK)
        drawn: int = value + 1
        following = ((bucket + 1) << 32) // drawn
    return bucket

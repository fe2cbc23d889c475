"""Hashes of passwords: made, checked, and told apart. No I/O, but slow on purpose.

`argon2id`: the encoded form of argon2 (`$argon2id$v=19$...`).
`rabbit_password_hashing_sha256` and `..._sha512`: base64(salt + digest(salt + password)) with a
salt of 4 bytes, as in RabbitMQ's definitions files.
"""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

Hashing = Literal["rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512", "argon2id"]
DEFAULT_HASHING: Final = "rabbit_password_hashing_sha256"  # what a definitions file leaves out

# RFC 9106 with the memory that OWASP names as the least: a login costs about 30 ms and 19 MiB.
ARGON2_MEMORY_KIB: Final = 19 * 1024
ARGON2_TIME_COST: Final = 2
ARGON2_MEMORY_KIB_MAX: Final = 256 * 1024  # of a hash from elsewhere: it is spent at each login
ARGON2_TIME_COST_MAX: Final = 16
ARGON2_PARALLELISM_MAX: Final = 16
ARGON2_FORM: Final = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+"
)
SALT_BYTES: Final = 4
HASHINGS: Final[Mapping[str, Hashing]] = {  # by the names of the configuration
    "argon2id": "argon2id",
    "sha256": "rabbit_password_hashing_sha256",
    "sha512": "rabbit_password_hashing_sha512",
}


def new_salt() -> bytes:
    return os.urandom(SALT_BYTES)


def hash_password(password: str, hashing: Hashing = "argon2id", salt: bytes = b"") -> str:
    """The hash to store. `salt` is for RabbitMQ's hashings; argon2 draws its own."""
    if hashing == "argon2id":
        from argon2 import PasswordHasher

        hasher = PasswordHasher(
            time_cost=ARGON2_TIME_COST, memory_cost=ARGON2_MEMORY_KIB, parallelism=1
        )
        return hasher.hash(password)
    assert len(salt) == SALT_BYTES
    return base64.b64encode(salt + _digest(hashing, salt, password.encode())).decode()


def password_matches(stored: str, hashing: str, password: bytes) -> bool:
    """Whether `password` is the one of the stored hash. An unreadable hash matches nothing."""
    if hashing == "argon2id":
        return _argon2_matches(stored, password)
    if hashing not in get_args(Hashing):
        return False
    try:
        raw = base64.b64decode(stored, validate=True)
    except ValueError:
        return False
    salt, digest = raw[:SALT_BYTES], raw[SALT_BYTES:]
    return hmac.compare_digest(digest, _digest(hashing, salt, password))


def hash_fault(stored: str, hashing: Hashing) -> str | None:
    """What is wrong with a hash to be set; None if nothing is."""
    if hashing == "argon2id":
        return _argon2_fault(stored)
    try:
        raw = base64.b64decode(stored, validate=True)
    except ValueError:
        return "not base64"
    wanted = SALT_BYTES + len(_digest(hashing, b"", b""))
    return None if len(raw) == wanted else f"{len(raw)} bytes where {hashing} has {wanted}"


def _digest(hashing: str, salt: bytes, password: bytes) -> bytes:
    algorithm = "sha512" if hashing.endswith("sha512") else "sha256"
    return hashlib.new(algorithm, salt + password).digest()


def _argon2_fault(stored: str) -> str | None:
    form = ARGON2_FORM.fullmatch(stored)
    if form is None:
        return "not of the form $argon2id$v=19$m=...,t=...,p=...$salt$hash"
    most = (ARGON2_MEMORY_KIB_MAX, ARGON2_TIME_COST_MAX, ARGON2_PARALLELISM_MAX)
    if any(int(cost) > limit for cost, limit in zip(form.groups(), most, strict=True)):
        return f"costs more than m={most[0]},t={most[1]},p={most[2]}"
    return None


def _argon2_matches(stored: str, password: bytes) -> bool:
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    if _argon2_fault(stored) is not None:
        return False
    try:
        return PasswordHasher().verify(stored, password)
    except (InvalidHashError, VerificationError):
        return False

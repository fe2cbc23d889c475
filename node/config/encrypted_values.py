"""Passwords of the configuration that are encrypted with a passphrase: `encrypted:BASE64`.

Decoded: 16 bytes of salt, 12 bytes of nonce, and the text under AES-256-GCM with its tag. scrypt
makes the key of passphrase and salt, in a tenth of a second and with 32 MB. The passphrase is in
the environment of the node, itself or as `file:PATH`, never beside what it protects. RabbitMQ's
`encrypted:` values are another form, which has no tag: encrypt their text again.
"""

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX: Final = "encrypted:"
PASSPHRASE: Final = "WARREN_CONFIG_PASSPHRASE"
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 12
SCRYPT_COST: Final = 2**15
SCRYPT_MEMORY: Final = 64 << 20


def encrypt(text: str, passphrase: str) -> str:
    """What to write in place of the text. ValueError: there is no passphrase or no library."""
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    sealed = _cipher(passphrase, salt).encrypt(nonce, text.encode(), None)
    return PREFIX + base64.b64encode(salt + nonce + sealed).decode()


def decrypt(value: str, passphrase: str) -> str:
    """The text of a value, with PREFIX or without. ValueError says why it cannot be had."""
    try:
        raw = base64.b64decode(value.removeprefix(PREFIX), validate=True)
    except ValueError as error:
        raise ValueError(f"what is behind '{PREFIX}' is not base64") from error
    salt, nonce = raw[:SALT_BYTES], raw[SALT_BYTES : SALT_BYTES + NONCE_BYTES]
    cipher = _cipher(passphrase, salt)
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(nonce, raw[SALT_BYTES + NONCE_BYTES :], None).decode()
    except (InvalidTag, ValueError) as error:
        text = "it cannot be decrypted: another passphrase, or no value of `warrenctl encode`"
        raise ValueError(text) from error


def _cipher(passphrase: str, salt: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ValueError(
            "encrypted values need cryptography: pip install 'warrenmq[encrypted]'"
        ) from error
    if not passphrase:
        raise ValueError("the passphrase is empty")
    key = hashlib.scrypt(
        passphrase.encode(), salt=salt, n=SCRYPT_COST, r=8, p=1, maxmem=SCRYPT_MEMORY, dklen=32
    )
    return AESGCM(key)

"""URIs in the values of runtime parameters: encrypted where they are stored, `***` where shown."""

import os
from collections.abc import Callable, Mapping
from typing import Final

from federation.uris import (
    NONCE_BYTES,
    SEALED,
    BadUri,
    SecretBox,
    has_password,
    obscured,
)

URI_KEYS: Final = frozenset({"uri", "src-uri", "dest-uri"})
UNREADABLE: Final = "encrypted"


def _mapped(value: object, change: Callable[[str, str], str]) -> object:
    """The value with each of its URIs changed; `change` gets the key and the URI."""
    if not isinstance(value, dict):
        return value
    found: dict[str, object] = {}
    for key, each in value.items():
        if key in URI_KEYS and isinstance(each, str):
            each = change(key, each)
        elif key in URI_KEYS and isinstance(each, list):
            each = [change(key, uri) if isinstance(uri, str) else uri for uri in each]
        found[key] = each
    return found


def sealed(value: object, box: SecretBox, earlier: object = None) -> object:
    """The value as it is stored.

    A URI that is in `earlier`, the stored value, stays as it is stored there, also if it has `***`
    for its password: what was read from the API can be written back.
    """
    known = _known(earlier, box)

    def change(key: str, uri: str) -> str:
        if uri in known:
            return known[uri]
        if uri.startswith(SEALED) or not has_password(uri):
            return uri
        return box.seal(uri, os.urandom(NONCE_BYTES))

    return _mapped(value, change)


def _known(earlier: object, box: SecretBox) -> Mapping[str, str]:
    """Stored URIs by what they are, and by how they are shown."""
    found: dict[str, str] = {}

    def note(key: str, uri: str) -> str:
        try:
            opened = box.open(uri)
        except BadUri:
            return uri
        found[opened] = found[obscured(opened)] = uri
        return uri

    _mapped(earlier, note)
    return found


def opened(value: object, box: SecretBox) -> object:
    """The value with its passwords. BadUri: one of them cannot be read."""
    return _mapped(value, lambda key, uri: box.open(uri))


def shown(value: object, box: SecretBox) -> object:
    """The value without passwords."""

    def change(key: str, uri: str) -> str:
        try:
            return obscured(box.open(uri))
        except BadUri:
            return UNREADABLE

    return _mapped(value, change)

"""Policy keys and parameter components of features that this version does not have.

They are refused when they are set, and kept with a warning when they are imported. The change that
builds a feature removes its names here; nothing else lists them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

FEDERATION: Final = "federation"

KEYS_WITHOUT_EFFECT: Final[Mapping[str, str]] = {  # by key: the feature that it belongs to
    "queue-version": "versions of classic queue storage",
    # Address settings of Artemis.
    "dead-letter-address": "addresses for dead letters, set dead-letter-exchange",
    "expiry-address": "addresses for expired messages, set dead-letter-exchange",
    "page-size-bytes": "page files of an address, all queues share the log",
    "max-read-page-bytes": "page files of an address, reading ahead follows the consumers",
    "max-read-page-messages": "page files of an address, reading ahead follows the consumers",
}

COMPONENTS_WITHOUT_EFFECT: Final[Mapping[str, str]] = {  # by component: the feature
    "federation": FEDERATION,
}


def key_warnings(definition: Iterable[str]) -> tuple[str, ...]:
    """Of the keys of a policy that have no effect."""
    return tuple(
        f"'{key}' has no effect: this version has no {KEYS_WITHOUT_EFFECT[key]}"
        for key in definition
        if key in KEYS_WITHOUT_EFFECT
    )

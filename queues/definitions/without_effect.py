"""Policy keys and parameter components of features that this version does not have.

They are refused when they are set, and kept with a warning when they are imported. The change that
builds a feature removes its names here; nothing else lists them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

FEDERATION: Final = "federation"

KEYS_WITHOUT_EFFECT: Final[Mapping[str, str]] = {  # by key: the feature that it belongs to
    "queue-version": "versions of classic queue storage",
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

"""The configuration that is in force, as it may be shown: without what is secret.

Takes the `Config`; gives plain values by section and key, for `/api/config/effective`. A secret is
shown as HIDDEN where it is set. Users of the configuration are named, with their tags alone.
"""

from pathlib import Path
from typing import Any, Final, get_type_hints

from msgspec.structs import fields

from node.config.config_layers import Address, Section, is_secret

HIDDEN: Final = "[hidden]"
APART: Final = frozenset({"warnings"})  # no settings


def shown(config: Section) -> dict[str, object]:
    """Every setting of a section, its own sections within."""
    hints = get_type_hints(type(config), include_extras=True)
    return {
        each.name: _value(getattr(config, each.name), hints[each.name])
        for each in fields(config)
        if each.name not in APART
    }


def _value(value: object, kind: Any) -> object:
    if is_secret(kind):
        return HIDDEN if value else value
    if isinstance(value, (Address, Path)):
        return str(value)
    if isinstance(value, Section):
        return shown(value)
    if isinstance(value, tuple):
        return [_value(each, type(each)) for each in value]
    return value

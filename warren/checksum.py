"""CRC-32C of bytes: `crc32c(data, value)`, where `value` is that of the bytes before; 0 of none.

The package crc32c imports its own command line and looks for its version among all packages that
are installed, which takes 12 ms at each start of a node. So its extension is loaded without that,
where it is found.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

Checksum = Callable[..., int]  # (data, value=0)


def _extension() -> Checksum | None:
    package = find_spec("crc32c")  # Finds it, and does not import it.
    places = None if package is None else package.submodule_search_locations
    found = None if places is None else PathFinder.find_spec("crc32c._crc32c", places)
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


def _load() -> Checksum:
    extension = _extension()
    if extension is not None:
        return extension
    from crc32c import crc32c

    return crc32c


crc32c = _load()

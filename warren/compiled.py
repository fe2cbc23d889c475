"""How Python finds the compiled modules: all are in one shared object, and none beside its source.

A shared object for each of 225 modules, as mypyc makes them, would take three pages of memory each.
What setup.py builds as `warren.compiled_modules` knows their names, and makes each of them. Every
package imports `warren` first, so that the finder is there in time. In a pure build there is no
such module, and Python finds the sources.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType

ENTRANCE = "warren.compiled_modules"


class CompiledModules:
    """An entry of `sys.meta_path`: finds modules of these names in the shared object `place`."""

    def __init__(self, names: Sequence[str], place: str) -> None:
        self._names = frozenset(names)
        self._place = place

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        loader = ExtensionFileLoader(name, self._place)
        spec = ModuleSpec(name, loader, origin=self._place)
        spec.has_location = True
        return spec


def install() -> None:
    """Find compiled modules from now on, if this build has them."""
    try:
        entrance = import_module(ENTRANCE)
    except ModuleNotFoundError:
        return
    finder = CompiledModules(entrance.names.split(), entrance.__file__ or "")
    sys.meta_path.insert(0, finder)

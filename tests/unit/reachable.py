"""What an object holds: tests that something is bounded, or forgotten, look at it from outside."""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TypeVar

T = TypeVar("T")
# They lead to the whole program.
OUTSIDE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)


def reachable(root: object) -> Iterator[object]:
    """Each object that `root` refers to, however far, once; classes and functions end the way."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, OUTSIDE):
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, dict):
            waiting.extend(each)  # The collector leaves out keys that are text.
        waiting.extend(gc.get_referents(each))


def held(root: object, kind: type[T]) -> list[T]:
    """The objects of a kind that `root` holds."""
    return [each for each in reachable(root) if isinstance(each, kind)]

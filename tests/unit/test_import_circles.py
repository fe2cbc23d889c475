"""Which modules import each other in a circle, imports for types included.

A circle of two files is one unit in two files. A larger one has no module that can be read, tested
or moved by itself. The sizes below may only shrink: lower them with each circle that is broken.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence

import pytest

from tests.unit.test_tidiness import ROOT, python_files

SOURCES = ("warren", "raft", "queues", "federation", "node")
UNIT = 2
KNOWN: tuple[int, ...] = ()

pytestmark = pytest.mark.source


def module_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imported(tree: ast.AST, names: Mapping[str, object]) -> set[str]:
    """The modules among `names` that a module imports, at any depth and under any condition."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else node.module)
    return found & names.keys()


def circles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, the largest first."""
    reached = {name: reachable(name, imports) for name in imports}
    found = {
        tuple(sorted(other for other in seen if name in reached[other]))
        for name, seen in reached.items()
        if name in seen
    }
    return sorted(map(list, found), key=lambda circle: (-len(circle), circle))


def reachable(start: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    open_names = [start]
    while open_names:
        for other in imports[open_names.pop()]:
            if other not in found:
                found.add(other)
                open_names.append(other)
    return found


def source_imports() -> dict[str, set[str]]:
    paths = {module_of(p.relative_to(ROOT).as_posix()): p for p in python_files(*SOURCES)}
    return {
        name: imported(ast.parse(path.read_text("utf-8")), paths) - {name}
        for name, path in paths.items()
    }


def sizes(found: Sequence[Sequence[str]]) -> tuple[int, ...]:
    return tuple(len(circle) for circle in found if len(circle) > UNIT)


def test_circle_is_found_through_all_its_modules() -> None:
    imports = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": [], "e": ["a"]}
    assert circles(imports) == [["a", "b", "c"]]


def test_import_for_types_counts() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n    from a.b import c, D\n")
    assert imported(tree, {"a.b": 1, "a.b.c": 1}) == {"a.b", "a.b.c"}


def test_sources_have_no_new_circle() -> None:
    found = circles(source_imports())
    assert sizes(found) == KNOWN, "\n".join(
        f"{len(circle)}: {' '.join(circle)}" for circle in found if len(circle) > UNIT
    )

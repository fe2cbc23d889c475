"""Sources that are compiled beside sources that are not."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("federation", "node", "queues", "raft", "warren")
BASES = {"Protocol", "Exception", "Enum", "IntEnum", "NamedTuple"}  # of classes that are not native


def compiled_paths() -> set[str]:
    text = (ROOT / "setup.py").read_text()
    return set(re.findall(r'"([\w/]+\.py)"', text[text.index("COMPILED = [") :]))


def module_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def is_closed(node: ast.ClassDef) -> bool:
    """Whether an interpreted class that inherits from this compiled one cannot be used."""
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    if "allow_interpreted_subclasses=True" in decorators or "native_class=False" in decorators:
        return False
    return not BASES & {ast.unparse(base).split("[")[0] for base in node.bases}


def closed_classes() -> set[tuple[str, str]]:
    return {
        (module_of(path), node.name)
        for path in compiled_paths()
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.ClassDef) and is_closed(node)
    }


def heirs_of(closed: set[tuple[str, str]], path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return [
        f"{path.relative_to(ROOT)}: {node.name}({ast.unparse(base)})"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if imported.get(ast.unparse(base)) in closed
    ]


@pytest.mark.source
def test_no_interpreted_class_inherits_from_a_compiled_one_that_forbids_it() -> None:
    """Such a class works in a pure build, and is a TypeError at its first use in a compiled one."""
    compiled = compiled_paths()
    closed = closed_classes()
    assert len(closed) > 100
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    interpreted = [path for path in paths if str(path.relative_to(ROOT)) not in compiled]
    assert [each for path in interpreted for each in heirs_of(closed, path)] == []

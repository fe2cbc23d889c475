"""The sizes and shapes that STYLE asks of every source file, as far as a machine can see them."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("warren", "raft", "queues", "federation", "node")
FOLDERS: Final = (*PACKAGES, "tests", "tools", "bench")
GENERATED: Final = frozenset(
    {
        "warren/wire/amqp091/methods.py",
        "warren/wire/amqp10/descriptors.py",
        "warren/wire/amqp10/performatives.py",
    }
)
FILE_LINES_MAX: Final = 800
FUNCTION_LINES_MAX: Final = 60
VAGUE_NAMES: Final = frozenset({"util", "utils", "helper", "helpers", "misc", "manager", "common"})
BANNED_IMPORTS: Final = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle"})
BANNED_CALLS: Final = frozenset({"eval", "exec"})

pytestmark = pytest.mark.source


def python_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "node_modules" not in path.parts)


def own_files(*folders: str) -> list[Path]:
    return [path for path in python_files(*folders) if relative(path) not in GENERATED]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            yield node


def only_dispatches(function: Function) -> bool:
    """Whether a function is nothing but one `match`, which may be as long as there are kinds."""
    body = [part for part in function.body if not isinstance(part, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Match)


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_every_file_is_at_most_800_lines_long() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in own_files(*FOLDERS)}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_every_function_fits_into_60_lines() -> None:
    too_long = [
        f"{relative(path)}:{function.lineno} {function.name}"
        for path in own_files(*FOLDERS)
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
        and not only_dispatches(function)
    ]
    assert too_long == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        relative(path)
        for path in python_files(*FOLDERS)
        if path.stat().st_size > 0 and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_no_module_is_named_like_the_standard_library_or_says_nothing() -> None:
    names = {relative(path): path.stem for path in python_files(*PACKAGES)}
    wrong = VAGUE_NAMES | (sys.stdlib_module_names - {"__main__", "__init__"})
    known = {name: stem for name, stem in names.items() if stem in wrong}
    assert known == {}


def test_nothing_is_pickled_or_evaluated() -> None:
    found = []
    for path in python_files(*PACKAGES):
        roots = {name.split(".")[0] for name in imported_names(path)}
        found += [f"{relative(path)} imports {name}" for name in roots & BANNED_IMPORTS]
        calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
        called = ((call.lineno, call.func.id) for call in calls if isinstance(call.func, ast.Name))
        wrong = ((line, name) for line, name in called if name in BANNED_CALLS)
        found += [f"{relative(path)}:{line} calls {name}" for line, name in wrong]
    assert found == []


def test_kinds_are_asked_for_by_tuples() -> None:
    """Compiled code makes a union anew for each `isinstance(x, A | B)`: a microsecond a message."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in own_files(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and isinstance(node.args[1], ast.BinOp)
    ]
    assert not found, "isinstance with a union: " + ", ".join(found)


def test_no_error_is_swallowed() -> None:
    found = []
    for path in python_files(*PACKAGES, "tools", "bench"):
        for attempt in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Try)):
            for handler in attempt.handlers:
                is_empty = all(isinstance(part, ast.Pass) for part in handler.body)
                if handler.type is None or (is_empty and not attempt.orelse):
                    found.append(f"{relative(path)}:{handler.lineno}")
    assert found == []


def test_a_todo_names_its_issue() -> None:
    pattern = re.compile(r"#.*\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
    found = [
        f"{relative(path)}:{number}"
        for path in python_files(*PACKAGES)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_test_folder_is_a_package() -> None:
    assert [relative(path) for path in (ROOT / "tests").rglob("__init__.py")] == []


def test_every_test_is_named_by_a_sentence() -> None:
    short = [
        f"{relative(path)} {function.name}"
        for path in python_files("tests")
        for function in functions(path)
        if function.name.startswith("test_") and function.name.count("_") < 3
    ]
    assert short == []


def test_the_testing_package_imports_nothing_of_the_node() -> None:
    allowed = {("warren", "testing"), ("warren", "client")}
    ours = {
        tuple(name.split(".")[:2])
        for path in python_files("warren/testing")
        for name in imported_names(path)
        if name.split(".")[0] in PACKAGES
    }
    assert ours <= allowed


def test_no_compiled_module_lies_beside_its_source() -> None:
    found = [path for name in PACKAGES for path in (ROOT / name).rglob("*.so")]
    assert [relative(path) for path in found] == []

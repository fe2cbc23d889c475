"""The sizes and shapes that STYLE asks of every source file, as far as a machine can see them."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
        "warren/wire/amqp10/codec/descriptors.py",
        "warren/wire/amqp10/codec/performatives.py",
    }
)
FILE_LINES_MAX: Final = 800
STATE_MACHINE_LINES_MAX: Final = 1000
STATE_MACHINES: Final = frozenset(
    {
        "node/amqp091/channel.py",
        "queues/machine/fifo.py",
        "queues/hosts/classic.py",
        "queues/hosts/quorum_member.py",
        "queues/definitions/metadata/machine.py",
        "queues/bodies/store.py",
        "raft/core.py",
    }
)  # One class each, whose methods share all of its state.
FUNCTION_LINES_MAX: Final = 60
FOLDER_MODULES_MAX: Final = 25  # Beside `__init__.py`.
VAGUE_NAMES: Final = frozenset({"util", "utils", "helper", "helpers", "misc", "manager", "common"})
MARKDOWN_COLUMNS_MAX: Final = 120
SUBJECT_COLUMNS_MAX: Final = 72
LONG_SUBJECTS_UNTIL: Final = "1d9f975"  # Older commits have longer subjects.
PRIVATE_WORDS: Final = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|everybody|anew|by lot|is told|are told"
    r"|was told|were told|has given up|is born|are born|is hurried|desk|landscape|roads?"
    r"|sexton|strands?|undertaker|visitors?|burials?|farewell)\b",
    re.IGNORECASE,
)
PRIVATE: Final = re.compile(r"_[a-z]")
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


@dataclass(frozen=True, slots=True)
class Function:
    line: int
    name: str
    length: int
    only_dispatches: bool  # Nothing but one `match`, which may be as long as there are kinds.


@dataclass(frozen=True, slots=True)
class Facts:
    """What is looked at in a file. Its tree is not kept: collections of garbage would go through
    a million nodes for as long as any test runs."""

    docstring: str
    functions: list[Function]
    imports: list[str]
    calls: list[tuple[int, str]]  # of names: line, name
    asks_for_unions: list[int]  # lines of `isinstance(x, A | B)`
    swallows: list[int]  # lines of handlers that take any error, or do nothing
    private: list[tuple[int, str, bool]]  # attributes `_x`: line, name, whether of `self`


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text("utf-8"), str(path))
    found = Facts(ast.get_docstring(tree) or "", [], [], [], [], [], [])
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or 0) - node.lineno + 1
            function = Function(node.lineno, node.name, length, only_dispatches(node))
            found.functions.append(function)
        elif isinstance(node, ast.Import):
            found.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.imports.append(node.module or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.calls.append((node.lineno, node.func.id))
            if node.func.id == "isinstance" and isinstance(node.args[1], ast.BinOp):
                found.asks_for_unions.append(node.lineno)
        elif isinstance(node, ast.Attribute) and PRIVATE.match(node.attr):
            whose = node.value.func if isinstance(node.value, ast.Call) else node.value
            is_own = isinstance(whose, ast.Name) and whose.id in ("self", "cls", "super")
            found.private.append((node.lineno, node.attr, is_own))
        elif isinstance(node, ast.Try):
            found.swallows.extend(swallowing(node))
    return found


def only_dispatches(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = [part for part in function.body if not isinstance(part, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Match)


def swallowing(attempt: ast.Try) -> Iterator[int]:
    for handler in attempt.handlers:
        is_empty = all(isinstance(part, ast.Pass) for part in handler.body)
        if handler.type is None or (is_empty and not attempt.orelse):
            yield handler.lineno


def lines_allowed(name: str) -> int:
    return STATE_MACHINE_LINES_MAX if name in STATE_MACHINES else FILE_LINES_MAX


def test_no_folder_of_the_broker_has_more_modules_than_a_reader_can_keep_in_mind() -> None:
    modules = Counter(
        relative(path.parent)
        for path in python_files(*PACKAGES, "bench", "tools")
        if path.name != "__init__.py"
    )
    assert {folder: n for folder, n in modules.items() if n > FOLDER_MODULES_MAX} == {}


def test_every_file_stays_within_its_line_limit() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in own_files(*FOLDERS)}
    assert {name: length for name, length in lengths.items() if length > lines_allowed(name)} == {}
    assert lengths.keys() >= STATE_MACHINES


def test_every_function_fits_into_60_lines() -> None:
    too_long = [
        f"{relative(path)}:{function.line} {function.name}"
        for path in own_files(*FOLDERS)
        for function in facts(path).functions
        if function.length > FUNCTION_LINES_MAX and not function.only_dispatches
    ]
    assert too_long == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        relative(path)
        for path in python_files(*FOLDERS)
        if path.stat().st_size > 0 and not facts(path).docstring
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
        roots = {name.split(".")[0] for name in facts(path).imports}
        found += [f"{relative(path)} imports {name}" for name in roots & BANNED_IMPORTS]
        wrong = ((line, name) for line, name in facts(path).calls if name in BANNED_CALLS)
        found += [f"{relative(path)}:{line} calls {name}" for line, name in wrong]
    assert found == []


def test_kinds_are_asked_for_by_tuples() -> None:
    """Compiled code makes a union anew for each `isinstance(x, A | B)`: a microsecond a message."""
    found = [
        f"{relative(path)}:{line}"
        for path in own_files(*PACKAGES)
        for line in facts(path).asks_for_unions
    ]
    assert not found, "isinstance with a union: " + ", ".join(found)


def test_no_error_is_swallowed() -> None:
    found = [
        f"{relative(path)}:{line}"
        for path in python_files(*PACKAGES, "tools", "bench")
        for line in facts(path).swallows
    ]
    assert found == []


def test_tests_touch_no_private_field_of_a_module() -> None:
    """Insides of other libraries are free: names that no module of ours gives to its own objects.

    Tests of real processes cannot reach ours.
    """
    ours = {
        name
        for path in python_files(*PACKAGES)
        for _, name, is_own in facts(path).private
        if is_own
    }
    found = [
        f"{relative(path)}:{line} {name}"
        for path in python_files("tests/unit", "tests/sim", "tests/faults", "tests/golden", "bench")
        for line, name, is_own in facts(path).private
        if name in ours and not is_own
    ]
    assert found == [], "ask for public behaviour, or make it public"


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
        for function in facts(path).functions
        if function.name.startswith("test_") and function.name.count("_") < 3
    ]
    assert short == []


def test_the_testing_package_imports_nothing_of_the_node() -> None:
    allowed = {("warren", "testing"), ("warren", "client")}
    ours = {
        tuple(name.split(".")[:2])
        for path in python_files("warren/testing")
        for name in facts(path).imports
        if name.split(".")[0] in PACKAGES
    }
    assert ours <= allowed


def test_texts_of_users_are_no_expressions_of_an_engine_that_backtracks() -> None:
    """`queues.definitions.expressions` is for them: module `re` gets expressions of ours alone."""
    found = [
        f"{relative(path)}:{call.lineno}"
        for path in python_files(*PACKAGES)
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("re.")
        and ast.unparse(call.func) != "re.escape"
        and not isinstance(call.args[0], ast.Constant)
    ]
    assert found == []


def test_no_compiled_module_lies_beside_its_source() -> None:
    found = [path for name in PACKAGES for path in (ROOT / name).rglob("*.so")]
    assert [relative(path) for path in found] == []


def markdown_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split()]


def test_markdown_lines_end_at_120_columns() -> None:
    """Rows of tables cannot be wrapped."""
    too_long = [
        f"{relative(path)}:{number}"
        for path in markdown_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > MARKDOWN_COLUMNS_MAX and not line.lstrip().startswith("|")
    ]
    assert too_long == []


def test_subjects_of_new_commits_have_at_most_72_columns() -> None:
    listed = subprocess.run(
        ["git", "log", "--format=%h %s", f"{LONG_SUBJECTS_UNTIL}..HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("the history is not here")
    subjects = [line.partition(" ")[2] for line in listed.stdout.splitlines()]
    assert [each for each in subjects if not 8 < len(each) <= SUBJECT_COLUMNS_MAX] == []


def prose_files() -> list[Path]:
    return [*python_files(*FOLDERS), *markdown_files()]


def test_prose_uses_plain_words() -> None:
    found = [
        relative(path)
        for path in prose_files()
        if path != Path(__file__) and PRIVATE_WORDS.search(path.read_text("utf-8"))
    ]
    assert found == [], "private words: name the actor instead"

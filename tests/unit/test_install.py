"""The installed distribution: its names are its own, its scripts start, its parts are all there."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from warren.compiled import CompiledModules

PACKAGES: Final = ("warren", "raft", "queues", "federation", "node")
DISTRIBUTION: Final = "warrenmq"
ROOT: Final = Path(__file__).resolve().parent.parent.parent


def shared_objects() -> list[importlib.metadata.PackagePath]:
    """Of the installed wheel; a test of a pure one is skipped."""
    files = importlib.metadata.files(DISTRIBUTION) or []
    shared = [file for file in files if file.suffix == ".so"]
    if not shared:
        pytest.skip("a pure wheel")
    return shared


def test_no_other_distribution_provides_one_of_our_names() -> None:
    providers = importlib.metadata.packages_distributions()
    others = {name: set(providers.get(name, [])) - {DISTRIBUTION} for name in PACKAGES}
    assert others == {name: set() for name in PACKAGES}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_can_be_imported_and_has_the_same_home(name: str) -> None:
    home = importlib.import_module("warren").__file__
    package = importlib.import_module(name).__file__
    assert home is not None and package is not None
    assert Path(package).parent.parent == Path(home).parent.parent


@pytest.mark.installed
def test_nothing_but_the_packages_is_installed() -> None:
    files = importlib.metadata.files(DISTRIBUTION)
    assert files is not None
    tops = {file.parts[0] for file in files if file.parts[0] not in PACKAGES}
    others = {top for top in tops if not top.startswith(DISTRIBUTION) and top != ".."}
    assert {top for top in others if not top.endswith(".so")} == set()
    assert any(file.name == "py.typed" for file in files)
    assert not any(file.suffix == ".c" for file in files)


@pytest.mark.installed
def test_a_compiled_wheel_has_a_manylinux_tag_and_is_stripped() -> None:
    shared = shared_objects()
    described = importlib.metadata.distribution(DISTRIBUTION)
    tags = [line for line in (described.read_text("WHEEL") or "").split("\n") if "Tag:" in line]
    assert all("-manylinux_2_" in tag for tag in tags), tags
    size = sum(os.path.getsize(file.locate()) for file in shared)
    assert size < 12_000_000


@pytest.mark.installed
def test_all_compiled_modules_come_from_one_shared_object() -> None:
    assert len(shared_objects()) == 2, "what Python imports, and the code"
    entrance = importlib.import_module("warren.compiled_modules")
    names = entrance.names.split()
    assert len(names) > 200
    [finder] = [each for each in sys.meta_path if isinstance(each, CompiledModules)]
    specs = [finder.find_spec(name, None) for name in names]
    assert {spec and spec.origin for spec in specs} == {entrance.__file__}
    assert {importlib.import_module(name).__name__ for name in names} == set(names)


@pytest.mark.installed
@pytest.mark.parametrize("script", ["warren", "warrenctl"])
def test_a_console_script_is_installed_and_answers(script: str) -> None:
    path = Path(sys.executable).parent / script
    done = subprocess.run([path, "--help"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_the_node_starts_by_its_module_from_any_folder(tmp_path: Path) -> None:
    home = importlib.import_module("warren").__file__
    assert home is not None
    done = subprocess.run(
        [sys.executable, "-P", "-m", "node", "--version"],
        capture_output=True,
        timeout=30,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(home).parent.parent)},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"warren ")


@pytest.mark.source
def test_the_test_suite_can_be_imported_without_the_development_extras_of_a_server() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    runtime = " ".join(described["project"]["dependencies"])
    assert not any(name in runtime for name in ("pytest", "pika", "hypothesis", "ruff"))


@pytest.mark.source
def test_the_compiled_modules_exist_and_are_named_by_their_path() -> None:
    text = (ROOT / "setup.py").read_text("utf-8")
    names = [
        word.strip("\",'[] ") for word in text.split() if word.strip("\",'[] ").endswith(".py")
    ]
    assert [name for name in names if not (ROOT / name).is_file()] == []

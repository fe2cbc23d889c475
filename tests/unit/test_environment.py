"""Environments that are set up, and what goes into a wheel."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import environment
from tools.environment import ROOT, link_sources, move_script, sources
from tools.try_image import build_steps, copy_context, layer_mb

pytestmark = pytest.mark.source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!%s/bin/python\nmain()\n", b"#!%s-compiled/bin/python\nmain()\n"),
        (b'VIRTUAL_ENV="%s"\n', b'VIRTUAL_ENV="%s-compiled"\n'),
        (b"%s-run/bin is another one\n", b"%s-run/bin is another one\n"),
    ],
)
def test_scripts_of_a_copied_environment_name_its_own_interpreter(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    old = tmp_path / ".venv"
    named = str(old).encode()
    script = tmp_path / "script"
    script.write_bytes(before % named)
    script.chmod(0o755)
    move_script(script, old, tmp_path / ".venv-compiled")
    assert script.read_bytes() == after % named
    assert script.stat().st_mode & 0o777 == 0o755


def test_an_environment_that_runs_the_sources_needs_no_pip(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3" / "site-packages").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    link_sources(tmp_path / "bin" / "python")
    link = tmp_path / "lib" / "python3" / "site-packages" / environment.LINK
    assert link.read_text() == f"{ROOT}\n"
    script = (tmp_path / "bin" / "warren").read_text().replace(f"{tmp_path}/bin/python", "", 1)
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        capture_output=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    version = environment.project()["project"]["version"]
    assert done.stdout.decode() == f"warren {version}\n", done.stderr.decode()


def test_metadata_is_made_without_mypyc(tmp_path: Path) -> None:
    """pip executes setup.py three times in an isolated build, and only the last one compiles."""
    broken = tmp_path / "mypyc"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('mypyc was imported')")
    (tmp_path / "egg").mkdir()
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path / "egg"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "WARREN_PURE": "0"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "egg" / "warrenmq.egg-info" / "PKG-INFO").exists()


def test_the_build_context_of_the_image_holds_every_file_of_the_wheel(tmp_path: Path) -> None:
    copy_context(tmp_path)
    wanted = {path.relative_to(ROOT) for path in sources() if "__pycache__" not in path.parts}
    found = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert wanted - found == set()


def test_the_image_builds_its_wheel_as_a_user_would(tmp_path: Path) -> None:
    steps = build_steps(tmp_path)
    assert f"pip wheel --no-cache-dir --wheel-dir {tmp_path}/source/deploy/wheelhouse" in steps
    assert "--no-build-isolation" not in steps


@pytest.mark.parametrize(
    ("version", "serves"), [("22.2.2", False), ("22.3", True), ("23.2.1", True), (None, False)]
)
def test_an_environment_gets_no_pip_if_that_of_the_caller_installs_into_others(
    version: str | None, serves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    assert environment.own_pip_installs_elsewhere() is serves


def test_pip_serves_an_environment_without_pip(tmp_path: Path) -> None:
    if not environment.own_pip_installs_elsewhere():
        pytest.skip("pip of this Python is too old")
    folder = tmp_path / "venv"
    environment.create(folder, with_pip=False)
    environment.pip(folder / "bin" / "python", "list", "--format=freeze")
    assert not list(folder.glob("lib/python*/site-packages/pip"))
    with pytest.raises(environment.SetupFailed, match="no-such-file"):
        environment.pip(folder / "bin" / "python", "install", str(tmp_path / "no-such-file.whl"))


def test_progress_of_a_build_is_shown_while_pip_is_silent(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What setup.py says reaches the user line by line; the rest only if the build fails."""
    script = "print('warren: compiling: 20 C files left', flush=True); print('gcc -c x.c')"
    environment.run([sys.executable, "-c", script])
    assert capfd.readouterr().err == "environment: compiling: 20 C files left\n"
    with pytest.raises(environment.SetupFailed, match="gcc -c"):
        environment.run([sys.executable, "-c", f"{script}; raise SystemExit(1)"])


def test_setup_counts_the_c_files_that_are_left(capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "setup.py").read_text("utf-8").partition("\ncompiled = ")[0]
    names: dict[str, Any] = {}
    exec(compile(text, "setup.py", "exec"), names)
    command = object.__new__(names["CompileModules"])
    command.left, command.step = 20, 5
    for _ in range(20):
        command.count_down()
    said = capfd.readouterr().err.splitlines()
    assert said == [f"warren: compiling: {left} C files left" for left in (15, 10, 5, 0)]


def test_the_layer_of_the_image_is_weighed_without_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "lib" / "pip").mkdir(parents=True)
    (tmp_path / "lib" / "pip" / "left_out.py").write_bytes(bytes(2_000_000))
    (tmp_path / "lib" / "kept.so").write_bytes(os.urandom(1_000_000))
    plain, packed = layer_mb(tmp_path)
    assert plain == 1.0 and 0.99 < packed < 1.01

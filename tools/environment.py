"""Sets up the environments that the Makefile works in. Needs nothing but Python and its venv.

    environment.py dev        .venv           dependencies and tools; the sources themselves, pure
    environment.py compiled   .venv-compiled  dependencies and tools; the installed wheel
    environment.py run        .venv-run       dependencies; the kept wheel, or else the sources
    environment.py wheel      prints the path of the wheel, built if need be

A stamp in each environment holds a digest of what was installed, so that the second call is
quick. An environment that needs what another one has begins as a copy of it: pip takes half a
minute of a processor. A wheel is built in a copy of the sources, never in place: a compiled module
beside its source would hide later edits. It is kept in `.wheel/` under the digest of its sources.
pip builds it in an isolated environment, as `pip install .` does. `run` does not wait for that: it
starts from the sources, pure, and a process of its own builds the wheel for the next start.
Without a C compiler, or when compiling fails, the wheel is pure and this is said on stderr; with
`WARREN_CI=1` it is an error.
"""

import argparse
import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("warren", "raft", "queues", "federation", "node")
BUILD_FILES: Final = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
WHEELS: Final = ROOT / ".wheel"
ENVIRONMENTS: Final = {"dev": ".venv", "compiled": ".venv-compiled", "run": ".venv-run"}
REQUIREMENTS_STAMP: Final = ".warren-requirements"
PROJECT_STAMP: Final = ".warren-project"
OUTPUT_TAIL_LINES: Final = 25
BUILD_LOCK: Final = ROOT / "build" / "wheel.lock"
BUILD_LOG: Final = ROOT / "build" / "wheel.log"
PROGRESS: Final = "warren: "  # begins the lines of setup.py that a user sees while pip is silent
LINKED: Final = "sources"  # the project stamp of an environment that runs the sources
LINK: Final = "warren-sources.pth"
SCRIPT: Final = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


class SetupFailed(Exception):
    """A step of the set-up failed; the text is for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; 0 when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=[*ENVIRONMENTS, "wheel"])
    what: str = parser.parse_args(arguments).what
    try:
        if what == "wheel":
            print(wheel(prepare("run")))
        elif what == "dev":
            install_sources(prepare("dev"))
        elif what == "run":
            install_quickest(prepare("run"))
        else:
            install_wheel(prepare(what))
    except SetupFailed as failure:
        print(f"environment: {failure}", file=sys.stderr)
        return 1
    return 0


def say(text: str) -> None:
    """Tell the user on stderr: stdout is for answers."""
    print(f"environment: {text}", file=sys.stderr, flush=True)


def project() -> dict[str, Any]:
    """The contents of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def requirements(kind: str) -> list[str]:
    """What an environment needs besides the project itself."""
    described = project()
    needed: list[str] = list(described["project"]["dependencies"])
    if kind != "run":
        needed += described["project"]["optional-dependencies"]["dev"]
    return sorted(set(needed))


def prepare(kind: str) -> Path:
    """Make an environment, or bring it up to date; return its interpreter."""
    folder = ROOT / ENVIRONMENTS[kind]
    python = folder / "bin" / "python"
    needed = requirements(kind)
    digest = hashlib.sha256("\n".join([sys.version, *needed]).encode()).hexdigest()
    stamp = folder / REQUIREMENTS_STAMP
    if not python.exists():
        copy_another(folder, digest)
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return python
    if not python.exists():
        say(f"creating {folder.name}")
        create(folder, with_pip=kind != "run" or not own_pip_installs_elsewhere())
    say(f"installing what {folder.name} needs")
    # A node compiles what it imports; compiling all of it first delays its first start.
    pip(python, "install", *(["--no-compile"] if kind == "run" else []), *needed)
    stamp.write_text(digest)
    return python


def copy_another(folder: Path, digest: str) -> None:
    """Copy an environment that has the same requirements, if there is one, without the project."""
    for name in ENVIRONMENTS.values():
        other = ROOT / name
        stamp = other / REQUIREMENTS_STAMP
        if other == folder or not stamp.exists() or stamp.read_text() != digest:
            continue
        say(f"copying {name} to {folder.name}")
        shutil.rmtree(folder, ignore_errors=True)
        unwanted = shutil.ignore_patterns(REQUIREMENTS_STAMP, PROJECT_STAMP)
        shutil.copytree(other, folder, symlinks=True, ignore=unwanted)
        for path in (folder / "pyvenv.cfg", *(folder / "bin").iterdir()):
            if path.is_file() and not path.is_symlink():
                move_script(path, other, folder)
        pip(folder / "bin" / "python", "uninstall", "--yes", project()["project"]["name"])
        (folder / REQUIREMENTS_STAMP).write_text(digest)
        return


def move_script(path: Path, old: Path, new: Path) -> None:
    """Have a script of a copied environment name its own interpreter."""
    named = re.compile(re.escape(os.fsencode(old)) + rb"(?![\w-])")
    before = path.read_bytes()
    after = named.sub(lambda _: os.fsencode(new), before)
    if after != before:
        path.write_bytes(after)


def own_pip_installs_elsewhere() -> bool:
    """Whether this interpreter has a pip with `--python`: 22.3 or later."""
    try:
        found = importlib.metadata.version("pip").split(".")
    except importlib.metadata.PackageNotFoundError:
        return False
    return (int(found[0]), int(found[1])) >= (22, 3)


def create(folder: Path, with_pip: bool) -> None:
    """A virtual environment; pip in it takes as long as all the rest of a first start."""
    options = [] if with_pip else ["--without-pip"]
    try:
        run([sys.executable, "-m", "venv", "--clear", *options, str(folder)])
    except SetupFailed as failure:
        shutil.rmtree(folder, ignore_errors=True)
        hint = "if it is missing: apt-get install python3-venv"
        raise SetupFailed(f"{failure}\npython3 -m venv failed; {hint}") from failure


def install_sources(python: Path) -> None:
    """Make the sources importable, and the console scripts, without compiling anything."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = python.parent.parent / PROJECT_STAMP
    if stamp.exists() and stamp.read_text() == digest:
        return
    pip(python, "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT), pure=True)
    stamp.write_text(digest)


def install_quickest(python: Path) -> None:
    """Install the kept wheel; if there is none, the sources, while a wheel is built for later."""
    pure = os.environ.get("WARREN_PURE") == "1"
    if pure or kept_wheel(pure):
        install_wheel(python)
        return
    link_sources(python)
    shown = BUILD_LOG.relative_to(ROOT)
    if build_runs():
        say(f"starting the pure build, several times slower: still compiling, see {shown}")
        return
    BUILD_LOG.parent.mkdir(exist_ok=True)
    with BUILD_LOG.open("wb") as log:
        subprocess.Popen(
            ["nice", "-n", "10", sys.executable, __file__, "wheel"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C for the node does not end it.
        )
    say("starting the pure build, several times slower, and compiling in the background")
    say(f"progress: {shown}; the next `make run` starts the compiled build (`make wheel` waits)")


def link_sources(python: Path) -> None:
    """Make the sources and the console scripts available, without pip and its build tools."""
    environment = python.parent.parent
    stamp = environment / PROJECT_STAMP
    if stamp.exists() and stamp.read_text() == LINKED:
        return
    described = project()["project"]
    if stamp.exists():
        stamp.unlink()
        pip(python, "uninstall", "--yes", described["name"])
    for place in environment.glob("lib/python*/site-packages"):
        (place / LINK).write_text(f"{ROOT}\n")
    for name, entry in described["scripts"].items():
        module, _, function = entry.partition(":")
        script = python.parent / name
        script.write_text(SCRIPT.format(python=python, module=module, function=function))
        script.chmod(0o755)
    stamp.write_text(LINKED)


def install_wheel(python: Path) -> None:
    """Install the wheel of the sources as they are now."""
    built = wheel(python)
    stamp = python.parent.parent / PROJECT_STAMP
    described = f"{built.parent.name}/{built.name}"
    if stamp.exists() and stamp.read_text() == described:
        return
    stamp.unlink(missing_ok=True)
    for link in python.parent.parent.glob(f"lib/python*/site-packages/{LINK}"):
        link.unlink()
    pip(python, "install", "--no-deps", "--force-reinstall", str(built))
    stamp.write_text(described)


def is_pure(built: Path) -> bool:
    """Whether a wheel holds no compiled modules."""
    return built.name.endswith("-none-any.whl")


def sources() -> list[Path]:
    """Every file that goes into the wheel, in a fixed order."""
    found = [ROOT / name for name in BUILD_FILES if (ROOT / name).exists()]
    for package in PACKAGES:
        found += (path for path in (ROOT / package).rglob("*") if path.is_file())
    unwanted = {".so", ".pyc", ".c"}
    return sorted(path for path in found if path.suffix not in unwanted)


def sources_digest(pure: bool) -> str:
    """Digest of the sources, the interpreter and the kind of build."""
    digest = hashlib.sha256(f"{sys.version} pure={pure}\n".encode())
    for path in sources():
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


def kept_wheel(pure: bool) -> Path | None:
    """The wheel that was built of the sources as they are now."""
    return next((WHEELS / sources_digest(pure)).glob("*.whl"), None)


def wheel(python: Path) -> Path:
    """The wheel of the sources as they are now: the kept one, or a new one."""
    pure = os.environ.get("WARREN_PURE") == "1"
    with build_lock():
        built = kept_wheel(pure)
        if built is None:
            say("building a pure wheel" if pure else "compiling; this takes about a minute")
            built = build(python, pure)
    if is_pure(built) and not pure:
        if os.environ.get("WARREN_CI") == "1":
            raise SetupFailed("the wheel has no compiled modules, and WARREN_CI=1 asks for them")
        say("no compiled modules in this wheel: Warren runs pure, and several times slower")
    return built


@contextmanager
def build_lock() -> Iterator[None]:
    """Let one process at a time build; the kernel frees the lock of a process that ends."""
    BUILD_LOCK.parent.mkdir(exist_ok=True)
    with BUILD_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_runs() -> bool:
    """Whether another process builds a wheel."""
    if not BUILD_LOCK.exists():
        return False
    with BUILD_LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def build(python: Path, pure: bool) -> Path:
    """Build the wheel in a copy of the sources and keep it."""
    tree = ROOT / "build" / "wheel-tree"
    digest = sources_digest(pure)
    copy_sources(tree)
    fresh = tree / "dist"
    command = ("wheel", "--no-deps", "--verbose", "--wheel-dir", str(fresh), str(tree))
    try:
        pip(python, *command, pure=pure)
    except SetupFailed as failure:
        if pure or os.environ.get("WARREN_CI") == "1":
            raise
        say(f"{failure}\nenvironment: compiling failed as shown above; building a pure wheel")
        pip(python, *command, pure=True)
    return keep(next(fresh.glob("*.whl")), digest)


def copy_sources(tree: Path) -> None:
    """Copy every file that goes into the wheel to a folder, which holds nothing else then."""
    shutil.rmtree(tree, ignore_errors=True)
    for path in sources():
        target = tree / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def keep(built: Path, digest: str) -> Path:
    """Keep a wheel under the digest of its sources, and no older ones."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    place = WHEELS / digest
    place.mkdir(parents=True)
    return Path(shutil.copy2(built, place / built.name))


def pip(python: Path, *arguments: str, pure: bool = False) -> None:
    """Run pip for an environment; show nothing but progress unless it fails."""
    has_pip = any(python.parent.parent.glob("lib/python*/site-packages/pip"))
    command = [str(python), "-m", "pip"] if has_pip else [sys.executable, "-m", "pip"]
    command += [] if has_pip else ["--python", str(python)]
    options = ["--disable-pip-version-check"]
    environment = {"WARREN_PURE": "1"} if pure else {}
    if arguments[0] == "wheel":
        environment["PIP_COMPILE"] = "0"  # The tools of the build run once.
    run([*command, *arguments, *options], environment)


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Run a program and show its progress; `SetupFailed` with the end of its output if it fails."""
    tail: deque[str] = deque(maxlen=OUTPUT_TAIL_LINES)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | (environment or {}),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line)
            if line.strip().startswith(PROGRESS):
                say(line.strip().removeprefix(PROGRESS))
    if process.returncode != 0:
        raise SetupFailed(f"{' '.join(command[:5])} ... failed:\n{''.join(tail)}")


if __name__ == "__main__":
    sys.exit(main())

"""Run the build steps of deploy/Dockerfile without Docker; then send a message through the result.

    tools/try_image.py

The first stage of the image runs as it is written, with a copy of the build context in place of
`/source` and a folder in place of `/opt/warren`; its apt-get does nothing, so the compiler of this
machine is used. pip builds the wheel in an isolated environment, from nothing but what
pyproject.toml declares. The wheel is kept for tools/environment.py: `make test-compiled` tests it.

The image may have IMAGE_MB_MAX, as registries store it and nodes pull it: compressed. BASE_MB of it
are the base image, which is not there to be measured; the rest is the layer with /opt/warren.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.environment import is_pure, keep, run, say, sources_digest  # noqa: E402

DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
IMAGE_MB_MAX: Final = 120
BASE_MB: Final = 50  # python:3.11-slim-bookworm has 46 for amd64 and 45 for arm64
SKIPPED: Final = ("pip", "pip-*", "__pycache__")  # what the image does not have
SEND: Final = """
import asyncio, sys
from warren.client import Message, connect

async def main():
    async with await connect(sys.argv[1]) as connection:
        management = await connection.management()
        await management.declare_queue("tried")
        publisher = await connection.publisher("/queues/tried")
        assert (await publisher.publish(Message(b"hello"))).is_accepted
        consumer = await connection.consumer("/queues/tried", credit=1)
        delivery = await consumer.get(timeout_s=20)
        assert delivery.message.body == b"hello", delivery
        delivery.accept()

asyncio.run(main())
"""


def main() -> int:
    """Build, install, start, send; raises what fails."""
    with tempfile.TemporaryDirectory(prefix="warren-image-") as name:
        folder = Path(name)
        digest = sources_digest(pure=False)
        copy_context(folder / "source")
        say("running the build steps of deploy/Dockerfile")
        run(["sh", "-c", build_steps(folder)], environment(folder))
        [built] = (folder / "source" / "deploy" / "wheelhouse").glob("warrenmq-*.whl")
        if is_pure(built):
            raise SystemExit(f"{built.name} has no compiled modules")
        if "-manylinux_" not in built.name:
            raise SystemExit(f"{built.name} has no manylinux tag")
        say(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB; kept for the tests")
        keep(built, digest)
        send_message(folder)
        plain, packed = layer_mb(folder / "installed")
        say(f"the layer of the image has {plain:.0f} MB, {packed:.0f} MB compressed")
        if packed > IMAGE_MB_MAX - BASE_MB:
            raise SystemExit(f"allowed: {IMAGE_MB_MAX - BASE_MB} MB compressed")
    return 0


def layer_mb(installed: Path) -> tuple[float, float]:
    """Of an environment as it is in the image, and of it as a compressed layer."""
    plain = 0

    def kept(each: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal plain
        if any(Path(each.name).match(pattern) for pattern in SKIPPED):
            return None
        plain += each.size
        return each

    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as packed:
        with tarfile.open(packed.name, "w:gz") as archive:
            archive.add(installed, "opt/warren", filter=kept)
        return plain / 1e6, Path(packed.name).stat().st_size / 1e6


def copy_context(target: Path) -> None:
    """Copy what .dockerignore lets into the build context, without a wheelhouse."""
    for name in context_names():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        elif source.exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def context_names() -> list[str]:
    """The files and folders at the top that .dockerignore lets in."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").split()
    named = [line.removeprefix("!") for line in lines if line.startswith("!")]
    return [name for name in named if name != "deploy/wheelhouse"]


def ignored(folder: str, names: list[str]) -> set[str]:
    """What .dockerignore takes out again, at any depth."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").split()
    patterns = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    return {name for name in names if any(fnmatch(name, each) for each in patterns)}


def build_steps(folder: Path) -> str:
    """The RUN line of the first stage, with the paths of this machine."""
    text = DOCKERFILE.read_text("utf-8").replace("\\\n", "")
    stage = text.split("\nFROM ")[1]
    [line] = re.findall(r"^RUN (.*)$", stage, re.MULTILINE)
    steps: str = line.replace("/opt/warren", f"{folder}/installed")
    return steps.replace("/source", f"{folder}/source")


def environment(folder: Path) -> dict[str, str]:
    """A PATH on which apt-get installs nothing, and python3 is that of this program."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text("#!/bin/sh\n")
    (programs / "apt-get").chmod(0o755)
    run([sys.executable, "-m", "venv", str(folder / "python")])
    return {"PATH": f"{programs}:{folder}/python/bin:{os.environ['PATH']}"}


def send_message(folder: Path) -> None:
    """Start a node of the installed wheel and have its client send and receive a message."""
    programs = folder / "installed" / "bin"
    listeners = ("--listen", "127.0.0.1:0", "--management", "127.0.0.1:0")
    command = [f"{programs}/warren", "server", "--data", f"{folder}/data", *listeners]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as node:
        try:
            assert node.stdout is not None
            ready = node.stdout.readline()
            found = re.search(r"amqp=(\S+)", ready)
            if found is None or "build=compiled" not in ready:
                raise SystemExit(f"the installed node says: {ready!r}")
            url = f"amqp://guest:guest@{found[1]}"
            run([str(programs / "python"), "-c", SEND, url])
        finally:
            node.terminate()
    if node.returncode != 0:
        raise SystemExit(f"the installed node ended with status {node.returncode}")
    say("the installed node sent and received a message")


if __name__ == "__main__":
    sys.exit(main())

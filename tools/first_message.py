"""How long a new user waits: `pipx install` of a wheel, a node, the first message; and its size.

    tools/first_message.py WHEEL [--limit SECONDS]

pipx comes from its package, into an environment of its own, and has made its shared environment,
before the clock starts; how long that took is printed beside. What the wheel needs comes from the
package index, or pip's cache. Exit code 1: it took longer than the limit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.try_image import layer_mb  # noqa: E402
from warren.testing.node import free_ports  # noqa: E402

LIMIT_S: Final = 20.0


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help=f"default: {LIMIT_S}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-first-") as name:
        folder = Path(name)
        pipx = installed_pipx(folder)
        environment = os.environ | {
            "PIPX_HOME": str(folder / "home"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        first = time.monotonic()
        subprocess.run(
            [pipx, "upgrade-shared"], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        begun = time.monotonic()
        subprocess.run(
            [pipx, "install", "--python", sys.executable, options.wheel.resolve()],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        installed = time.monotonic()
        send(folder, environment)
        done = time.monotonic()
        print(f"the first use of pipx: {begun - first:.1f} s")
        print(f"pipx install: {installed - begun:.1f} s")
        print(f"start, declare and publish: {done - installed:.1f} s")
        print(f"together: {done - begun:.1f} s")
        made = folder / "home" / "venvs" / "warrenmq"
        print("environment: {:.0f} MB, packed {:.0f} MB".format(*layer_mb(made)))
    return 1 if done - begun > options.limit else 0


def installed_pipx(folder: Path) -> Path:
    venv.create(folder / "tool", with_pip=True)
    python = folder / "tool" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "pipx"], check=True)
    return python.with_name("pipx")


def send(folder: Path, environment: dict[str, str]) -> None:
    """The commands of the quick start, on free ports."""
    port, management = free_ports(2)
    command = ["warren", "server", "--data", str(folder / "data")]
    command += ["--listen", f"127.0.0.1:{port}", "--management", f"127.0.0.1:{management}"]
    own = environment | {
        "WARREN_URL": f"amqp://guest:guest@127.0.0.1:{port}/%2F",
        "WARREN_CTL_URL": f"http://127.0.0.1:{management}",
    }
    with (folder / "log").open("wb") as log:
        node = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=log)
        try:
            assert node.stdout is not None
            ready = node.stdout.readline()  # Once it serves clients.
            if not ready.startswith(b"ready"):
                raise SystemExit((folder / "log").read_text("utf-8"))
            for words in (["declare", "queue", "orders"], ["publish", "orders", "hello"]):
                subprocess.run(["warren", *words], env=own, check=True, stdout=subprocess.DEVNULL)
        finally:
            node.terminate()
            node.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main())

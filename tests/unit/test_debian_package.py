"""The Debian package: built, unpacked, and its node run as systemd runs it."""

import os
import shutil
import signal
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from warren.testing import free_ports

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PYTHON: Final = "/usr/bin/python3"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.source,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not there"),
]


def has_pip() -> bool:
    """Whether the Python of the system can build an environment; Debian packages pip by itself."""
    command = [PYTHON, "-c", "import pip, venv, sys; sys.exit(sys.version_info < (3, 11))"]
    return os.access(PYTHON, os.X_OK) and not subprocess.run(command, check=False).returncode


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_pip():
        if os.environ.get("WARREN_CI"):
            pytest.fail(f"{PYTHON} has no pip")
        pytest.skip(f"{PYTHON} has no pip")
    folder = tmp_path_factory.mktemp("deb")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "build", "tests", "*.egg-info", "data")
    shutil.copytree(ROOT, source, ignore=ignored)
    wheel = [PYTHON, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(wheel, check=True, env=os.environ | {"WARREN_PURE": "1"}, timeout=300)
    (built,) = folder.glob("*.whl")
    done = subprocess.run(
        [ROOT / "deploy/debian/build.sh", str(folder)],
        env=os.environ | {"WHEEL": str(built), "PYTHON": PYTHON},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True, timeout=60)
    return folder


def test_the_package_names_what_it_needs_and_keeps_the_settings(package: Path) -> None:
    shown = subprocess.run(
        ["dpkg-deb", "--info", str(package)], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: python3 (>= 3." in shown and "adduser" in shown
    assert "Architecture: all" not in shown
    kept = subprocess.run(
        ["dpkg-deb", "--info", str(package), "conffiles"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert kept.split() == ["/etc/warren/warren.toml"]


def test_no_file_mentions_the_place_where_it_was_built(package: Path, unpacked: Path) -> None:
    for path in (unpacked / "opt/warren/bin").iterdir():
        if path.is_symlink():
            continue
        text = path.read_text("utf-8")
        assert str(package.parent) not in text and "/tmp/" not in text, path
    script = (unpacked / "opt/warren/bin/warren").read_text("utf-8")
    assert script.startswith("#!/opt/warren/bin/python")
    assert os.readlink(unpacked / "usr/bin/warren") == "/opt/warren/bin/warren"


def test_systemd_takes_the_unit() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    unit = ROOT / "deploy/debian/warren.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    faults = [line for line in done.stderr.splitlines() if "warren.service" in line]
    assert all("is not executable: No such file" in line for line in faults), done.stderr


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """What systemd is to the process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(60)
        yield receiving


def test_the_node_runs_with_these_settings_and_tells_the_manager(
    unpacked: Path, tmp_path: Path, manager: socket.socket
) -> None:
    settings = unpacked / "etc/warren/warren.toml"
    assert tomllib.loads(settings.read_text("utf-8"))["node"]["data_dir"] == "/var/lib/warren"
    amqp, management = free_ports(2)
    command = [str(unpacked / "opt/warren/bin/python"), "-m", "node", "server"]
    command += ["--config", str(settings), "--data", str(tmp_path / "data")]
    command += ["--listen", f"127.0.0.1:{amqp}", "--management", f"127.0.0.1:{management}"]
    told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(command, cwd=tmp_path, env=os.environ | told, stderr=log)
    try:
        assert manager.recv(100) == b"READY=1"
        socket.create_connection(("127.0.0.1", amqp), 5).close()
        assert manager.recv(100) == b"WATCHDOG=1"
        node.send_signal(signal.SIGTERM)
        while (state := manager.recv(100)) == b"WATCHDOG=1":
            continue
        assert state == b"STOPPING=1"
        assert node.wait(30) == 0, (tmp_path / "log").read_text("utf-8")
    finally:
        if node.poll() is None:
            node.kill()
            node.wait(10)

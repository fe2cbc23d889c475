"""What a node at rest has in memory: no modules of unused features.

A node of no cluster is started in a process of its own, answers one request for the overview over
HTTP or none, and then names its modules. A module that only a rare feature needs is to be imported
where that feature begins; what comes in by an import at the top of a file costs every node memory.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = """
import gc, json, os, re, signal, socket, sys, threading, time
from node.__main__ import main

LOGIN = b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q="
GET = b"GET /api/overview HTTP/1.1\\r\\nHost: n\\r\\n" + LOGIN + b"\\r\\n\\r\\n"

def port_of(read_end):
    return int(re.search(r"management=\\S+:(\\d+)", read_end.readline())[1])

def asked(port):
    with socket.create_connection(("127.0.0.1", port), 20) as bound:
        bound.sendall(GET)
        return bound.recv(12).decode()

def at_rest(port):
    deadline = time.monotonic() + 20
    while not hasattr(sys.modules.get("node.management.api_sources"), "ApiSources"):
        assert time.monotonic() < deadline
        time.sleep(0.01)

def look(read_end, told):
    try:
        port = port_of(read_end)
        at_rest(port)
        frozen = gc.get_freeze_count()
        answer = asked(port) if IS_ASKED else ""
        assert gc.get_freeze_count() <= frozen, "what clients use would never be collected"
        os.write(told, json.dumps([answer, sorted(sys.modules)]).encode())
    finally:
        os.kill(os.getpid(), signal.SIGTERM)

told = os.dup(1)
read_fd, write_fd = os.pipe()
os.dup2(write_fd, 1)
threading.Thread(target=look, args=(os.fdopen(read_fd), told)).start()
sys.exit(main(["server", *sys.argv[1:]]))
"""
DATACLASSES_MAX: Final = 20  # those that hide a field, and those of compiled modules
RARE: Final = {
    "node.recovery.check_data": "the command",
    "node.management.schema": "the OpenAPI document",
    "node.tls.tls_listeners": "TLS",
    "psutil": "tests",
    "pysyncobj": "nodes of a cluster",
    "re2": "expressions in permissions and policies, but for .*",
    "rich": "commands",
    "warren.client": "clients",
    "warren.testing": "tests",
}


def modules_at_rest(folder: Path, is_asked: bool) -> list[str]:
    """Of a node that has answered one request, or none."""
    home = importlib.import_module("warren").__file__
    assert home is not None
    settings = ["--data", str(folder), "--listen", "127.0.0.1:0", "--management", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"IS_ASKED = {is_asked}\n{PROGRAM}", *settings],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(home).parent.parent)},
    )
    assert done.returncode == 0, done.stderr
    answer, modules = json.loads(done.stdout)
    assert answer == ("HTTP/1.1 200" if is_asked else "")
    return list(modules)


def test_a_node_at_rest_has_loaded_nothing_that_only_rare_features_need(tmp_path: Path) -> None:
    loaded = modules_at_rest(tmp_path, is_asked=True)
    found = {
        name: why
        for name, why in RARE.items()
        if any(each == name or each.startswith(f"{name}.") for each in loaded)
    }
    assert "node.management.api.operations.overview" in loaded
    assert not found


def test_a_node_loads_no_http_library_before_a_client_connects(tmp_path: Path) -> None:
    loaded = modules_at_rest(tmp_path, is_asked=False)
    assert "node.management.rows.sampling" in loaded
    assert not {"aiohttp", "node.management.server"}.intersection(loaded)


def loaded_by(statement: str) -> set[str]:
    """What a process has loaded that has done no more than this."""
    program = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_a_node_loads_no_views_and_no_stream_protocol_before_it_is_ready() -> None:
    loaded = loaded_by("import node.boot")
    assert "node.broker" in loaded
    assert (
        not {
            "node.streams.endpoint",
            "aiohttp",
            "node.management.rows.view",
            "node.management.server",
        }
        & loaded
    )


def test_a_start_makes_few_dataclasses() -> None:
    """Each costs half a millisecond and 20 KB; a `msgspec.Struct` a twentieth of it."""
    program = """
import json, sys
import node.boot

print(json.dumps([
    f"{name}.{each}"
    for name, module in sys.modules.items()
    if name.partition(".")[0] in ("node", "queues", "federation", "raft", "warren")
    for each, value in vars(module).items()
    if "__dataclass_fields__" in getattr(value, "__dict__", ()) and value.__module__ == name
]))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    made = json.loads(done.stdout)
    assert "node.auth.sasl.Credentials" in made  # it hides the password from its representation
    assert len(made) <= DATACLASSES_MAX, made


def test_a_test_of_an_application_loads_what_a_broker_needs() -> None:
    loaded = loaded_by("from warren.testing import Broker")
    assert "warren.testing.node" in loaded
    assert not {"http.client", "psutil", "warren.testing.cluster", "warren.wire"} & loaded
    assert "warren.testing.faults" in loaded_by("from warren.testing import Faults")

"""The programs and commands of the manual, run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, program, tools_folder
from tests.conformance.test_dotnet_client import compiled
from tests.conformance.test_java_client import classpath
from warren.testing import Node

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGE = GUIDE / "clients.md"
AMQP091_GO = "github.com/rabbitmq/amqp091-go v1.10.0"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.source


@pytest.fixture
def queue(broker: Broker) -> None:
    """Nothing is left of the program before."""
    with broker.connect() as connection:
        connection.channel().queue_delete("orders")


SHOWN = {
    "index.md": ["the first message"],
    "migration.md": ['default_user = "admin"', 'partition_handling = "pause_minority"'],
    "queues.md": ["an order", "orders\tquorum", "clicks\tstream"],
    "exchanges.md": ["an order", "a stray message"],
    "http-api.md": ["orders"],
}


@pytest.mark.parametrize("page", SHOWN)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    """`warren` and `warrenctl` are those of this Python; the first failure ends the shell."""
    text = (GUIDE / page).read_text("utf-8")
    commands = "\n".join(each for kind, each in BLOCK.findall(text) if kind == "bash")
    for name, module in (("warren", "node"), ("warrenctl", "node.cli.warrenctl")):
        script = tmp_path / name
        call = f"from {module}{'.__main__' if module == 'node' else ''} import main"
        script.write_text(f"#!{sys.executable} -P\nimport sys\n{call}\nsys.exit(main())\n")
        script.chmod(0o755)
    for started in ("pip install warrenmq\n", "warren server --data ./data &\n"):
        commands = commands.replace(started, "")  # What these do, the test does.
    with Node() as node:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "WARREN_URL": node.url,
            "WARREN_CTL_URL": node.management_url,
        }
        commands = commands.replace("http://localhost:15672", node.management_url)
        done = subprocess.run(
            ["bash", "-eu", "-c", commands],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each for each in SHOWN[page] if each not in done.stdout] == []


def blocks(language: str, broker: Broker, page: Path = PAGE) -> list[str]:
    """With the address of this node in place of the usual one."""
    found = [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]
    assert found and all("localhost:5672" in each for each in found)
    return [each.replace("localhost:5672", f"{broker.host}:{broker.port}") for each in found]


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("page", "said"), [("amqp-1-0.md", "an order\n"), ("python-client.md", "True\n")]
)
def test_the_program_of_a_page_runs(page: str, said: str, broker: Broker, tmp_path: Path) -> None:
    [text] = blocks("python", broker, GUIDE / page)
    assert printed([sys.executable, "-c", text], tmp_path) == said


def test_the_page_on_tests_shows_tests_and_programs_that_pass(tmp_path: Path) -> None:
    found = BLOCK.findall((GUIDE / "testing.md").read_text("utf-8"))
    test, *programs = [text for kind, text in found if kind == "python"]
    (tmp_path / "test_orders.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"]
    assert "1 passed" in printed(command, tmp_path)
    for program_text in programs:
        assert printed([sys.executable, "-c", program_text], tmp_path) == ""


def printed(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.usefixtures("queue")
def test_the_programs_in_python_run(broker: Broker, tmp_path: Path) -> None:
    """The second uses the queue that the first has declared."""
    for text in blocks("python", broker):
        assert printed([sys.executable, "-c", text], tmp_path) == "an order\n"


@pytest.mark.usefixtures("queue")
def test_the_program_in_javascript_runs(broker: Broker) -> None:
    node = program("node", "nodejs")
    if not (tools_folder() / "node_modules" / "amqplib").is_dir():
        missing(f"amqplib is not there: npm install --prefix {tools_folder().name} amqplib")
    [text] = blocks("javascript", broker)
    assert printed([node, "-e", text], tools_folder()) == "an order\n"


@pytest.mark.usefixtures("queue")
def test_the_program_in_java_runs(broker: Broker, tmp_path: Path) -> None:
    java, javac = program("java", "default-jre-headless"), program("javac", "default-jdk-headless")
    jars = classpath()
    [text] = blocks("java", broker)
    (tmp_path / "Orders.java").write_text(text)
    printed([javac, "-cp", jars, "Orders.java"], tmp_path)
    light = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    shown = subprocess.run(
        [java, *light, quiet, "-cp", f"{jars}:{tmp_path}", "Orders"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shown.returncode, shown.stdout) == (0, "an order\n"), shown.stderr


@pytest.mark.usefixtures("queue")
def test_the_program_in_go_runs(broker: Broker, tmp_path: Path) -> None:
    if os.environ.get("WARREN_NO_TOXIPROXY"):
        pytest.skip("Go is not there: Toxiproxy is built by it too")
    go = program("go", "golang")
    [text] = blocks("go", broker)
    (tmp_path / "main.go").write_text(text)
    (tmp_path / "go.mod").write_text(f"module orders\n\ngo 1.20\n\nrequire {AMQP091_GO}\n")
    built = subprocess.run(
        [go, "build", "-mod=mod", "-o", "orders", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert printed(["./orders"], tmp_path) == "an order\n"


@pytest.mark.usefixtures("queue")
def test_the_program_in_ruby_runs(broker: Broker, tmp_path: Path) -> None:
    ruby = program("ruby", "ruby-bunny")
    [text] = blocks("ruby", broker)
    assert printed([ruby, "-e", text], tmp_path) == "an order\n"


@pytest.mark.usefixtures("queue")
def test_the_program_in_csharp_for_mono_runs(broker: Broker, tmp_path: Path) -> None:
    """The one before it, for RabbitMQ.Client 7, needs a .NET SDK."""
    _, text = blocks("csharp", broker)
    (tmp_path / "Orders.cs").write_text(text)
    assert printed(compiled(tmp_path / "Orders.cs", tmp_path), tmp_path) == "an order\n"

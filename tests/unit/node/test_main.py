"""The `warren` command: its options, and what it refuses before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from node.__main__ import config_file, flags_given, main, make_parser
from node.config.settings import Address, load

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "arguments",
    [[], ["none"], ["server", "more"], ["server", "--nam", "x"], ["server", "--name"]],
)
def test_a_wrong_call_is_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: warren" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "a:1"], "cluster.secret_file is not"),
        (["--listen", "5672"], "listeners.amqp = '5672' (command line): '5672' is not HOST:PORT"),
        (["--set", "no.such=1"], "unknown key no.such (--set)"),
        (["--set", "limits.channel_max=0"], "limits.channel_max = '0' (--set)"),
        (["--config", "/no/such/file.toml"], "cannot read /no/such/file.toml"),
        (["--name", "a b"], "node.name = 'a b' (command line)"),
    ],
)
def test_a_bad_configuration_is_78_and_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["server", *arguments]) == 78
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err


def test_the_options_of_the_server_set_their_keys() -> None:
    options = make_parser().parse_args(
        ["server", "--name", "n1", "--data", "/d", "--listen", "127.0.0.1:0", "--management",
         "[::1]:1", "--cluster", "h:2", "--seed", "a:1", "b:2", "--seed", "c:3",
         "--set", "cluster.secret_file=/s", "--set", "node.name=other"]
    )  # fmt: skip
    config = load(None, flags_given(options), options.sets)
    assert config.node.name == "n1"
    assert config.node.data_dir == Path("/d")
    assert config.listeners.amqp == Address("127.0.0.1", 0)
    assert config.listeners.management == Address("::1", 1)
    assert config.listeners.cluster == Address("h", 2)
    assert config.cluster.seeds == (Address("a", 1), Address("b", 2), Address("c", 3))


def test_the_option_for_the_file_wins_over_the_environment() -> None:
    environment = {"WARREN_CONFIG": "/e.toml"}
    assert config_file(Path("/o.toml"), environment) == Path("/o.toml")
    assert config_file(None, environment) == Path("/e.toml")
    assert config_file(None, {}) is None


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("warren ")


def test_help_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--help"]) == 0
    assert "--seed" in capsys.readouterr().out


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30
    )


def test_without_its_assertions_the_node_does_not_start() -> None:
    ended = run("-O", "-m", "node", "server")
    assert ended.returncode == 78
    assert "refusing to run under python -O" in ended.stderr


def test_reading_the_arguments_imports_nothing_heavy() -> None:
    heavy = "aiohttp,argon2,prometheus_client,rich,typer,uvloop,asyncio"
    code = (
        "import sys; from node.__main__ import main; from node.config.settings import load; load();"
        f"print([name for name in '{heavy}'.split(',') if name in sys.modules])"
    )
    assert run("-c", code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["three-senders"], "invalid choice: 'three-senders'"),
        (["two-senders", "--seconds", "0"], "0: allowed: 0.1 to 3600.0"),
        (["two-senders", "--seconds", "long"], "long: allowed: 0.1 to 3600.0"),
        (["two-senders", "--size", "-1"], "argument --size"),
        (["two-senders", "--messages", "1"], "unrecognized arguments: --messages"),
        (["one-sender-one-receiver", "--credit", "70000"], "whole numbers from 1 to 65535"),
        (["one-sender-one-receiver", "--batch", "0"], "whole numbers from 1 to 65536"),
        (["two-senders", "--compare", "there"], "--compare there: allowed: HOST:PORT"),
    ],
)
def test_a_wrong_bench_is_64_and_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err

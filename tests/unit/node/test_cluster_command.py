"""`warren cluster`: wrong calls are answered at once, and nothing is started for them."""

import argparse

import pytest

from node.__main__ import EXIT_USAGE, main
from node.cli.cluster.arguments import base_port


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cluster"], "N"),
        (["cluster", "4"], "invalid choice: 4"),
        (["cluster", "3", "--base-port", "99"], "1024 to 45000"),
        (["cluster", "3", "--base-port", "60000"], "1024 to 45000"),
        (["cluster", "3", "--set", "log.level"], "KEY=VALUE"),
        (["chaos", "run", "earthquake"], "invalid choice"),
        (["chaos", "run", "kill", "--size", "5"], "64 to"),
        (["chaos", "run", "kill", "--minutes", "-1"], "above 0"),
        (["chaos", "run", "kill", "--nodes", "4"], "invalid choice"),
    ],
)
def test_a_wrong_call_is_told(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == EXIT_USAGE
    assert words in capsys.readouterr().err


def test_the_base_port_leaves_room_for_the_others() -> None:
    assert base_port("45000") == 45_000
    with pytest.raises(argparse.ArgumentTypeError):
        base_port("45001")

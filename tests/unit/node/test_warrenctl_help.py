"""`warrenctl help COMMAND`, as of rabbitmqctl."""

import pytest

from node.cli.warrenctl import EXIT_USAGE, main


@pytest.mark.parametrize("words", [["help", "list_queues"], ["help", "-q", "list_queues"]])
def test_help_for_a_command_is_that_of_the_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == main(["list_queues", "--help"]) == 0
    first, second = capsys.readouterr().out.split("usage: ")[1:]
    assert first == second and first.startswith("warrenctl list_queues")


def test_help_alone_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "listing queues" in capsys.readouterr().out


def test_help_for_an_unknown_command_names_those_that_are_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help", "list_queue"]) == EXIT_USAGE
    assert "no command 'list_queue'; known: list_queues" in capsys.readouterr().err

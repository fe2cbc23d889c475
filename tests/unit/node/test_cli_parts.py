"""Parts of `warrenctl` that need no node: words in their order, tables, secrets, completion."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from node.cli.changes import CHANGES
from node.cli.cluster.commands import COMMANDS
from node.cli.completion import SHELLS, script
from node.cli.diagnostics import DIAGNOSTICS, flat
from node.cli.limits import LIMITS
from node.cli.lists import LISTS
from node.cli.node_commands import RUNNING, bytes_of, share_of
from node.cli.observer import RATES, Look, picture, rates
from node.cli.progress import Progress, shown_while
from node.cli.queue_messages import LETTERS
from node.cli.report import HIDDEN, without_secrets
from node.cli.status import STATUS
from node.cli.streams import STREAMS
from node.cli.tables import duration, size, write_table
from node.cli.verbs import BadCall, Options
from node.cli.warrenctl import OWN, main, make_parser, parted

ALL = (STATUS, CHANGES, LISTS, COMMANDS, DIAGNOSTICS, RUNNING, LETTERS, LIMITS, STREAMS, OWN)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list_queues -q --formatter json name", "-q --formatter json list_queues name"),
        ("--timeout=3 ping -s", "--timeout=3 -s ping"),
        ("queues grow n all", "grow n all"),
        ("diagnostics", "diagnostics"),
        ("ctl ping", "ping"),
        ("add_user ann -- -q", "add_user ann -- -q"),
        ("ping --formatter", "--formatter ping"),
        (
            "-q -n rabbit list_users --formatter json",
            "-q --node-name rabbit --formatter json list_users",
        ),
        ("--node rabbit@here -q list_users", "--node-name rabbit@here -q list_users"),
        ("--node=n2 ping", "--node-name n2 ping"),
        ("listeners --node n2", "listeners --node n2"),
        ("-p v -q list_queues name", "-q list_queues -p v name"),
        ("--vhost=v ctl list_queues", "list_queues --vhost=v"),
        ("--user ann list_users", "--user ann list_users"),
        ("list_user_limits --user ann", "list_user_limits --username ann"),
        ("list_users --user ann", "--user ann list_users"),
    ],
)
def test_options_of_the_tool_may_stand_anywhere(words: str, expected: str) -> None:
    own, rest = parted(words.split())
    assert own + rest == expected.split()


def test_no_name_is_in_two_tables() -> None:
    names = [name for table in ALL for name in table]
    assert len(names) == len(set(names))


def test_csv_is_quoted_where_it_must_be() -> None:
    out = io.StringIO()
    write_table(("a", "b"), [['x,"y"', None], [{"k": 1}, True]], out, True, "csv")
    assert out.getvalue() == 'a,b\n"x,""y""",\n"{""k"": 1}",true\n'


def test_a_pretty_table_is_drawn_into_a_pipe_too() -> None:
    out = io.StringIO()
    write_table(("name",), [["q"]], out, True, "pretty_table")
    assert "┃ name ┃" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "count"), [("7", 7), ("2GB", 2 * 10**9), ("3MiB", 3 << 20), ("1k", 1024)]
)
def test_bytes_may_have_a_unit(text: str, count: int) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "x", "1.5GB", "-1", "1 GB", "3zz", "٣"])
def test_what_is_no_number_of_bytes_is_a_wrong_call(text: str) -> None:
    with pytest.raises(BadCall):
        bytes_of(text)


@pytest.mark.parametrize("text", ["", "x", "nan", "-1", "101"])
def test_what_is_no_share_is_a_wrong_call(text: str) -> None:
    with pytest.raises(BadCall):
        share_of(text)


def test_a_report_has_no_secrets_in_it() -> None:
    shown = without_secrets(
        {
            "password_hash": "abc",
            "users": [{"name": "ann", "password": "x"}],
            "src-uri": "amqp://ann:s3cret@host:5672/%2F",
            "metrics_need_login": True,
            "tls": {"private_key": "k", "cert": "c"},
            "token_count": 3,
            "uris": ["amqps://a:b@h1", "plain"],
        }
    )
    assert shown == {
        "password_hash": HIDDEN,
        "users": [{"name": "ann", "password": HIDDEN}],
        "src-uri": f"amqp://{HIDDEN}@host:5672/%2F",
        "metrics_need_login": True,
        "tls": {"private_key": HIDDEN, "cert": "c"},
        "token_count": 3,
        "uris": [f"amqps://{HIDDEN}@h1", "plain"],
    }
    assert "s3cret" not in json.dumps(shown)


def test_a_configuration_is_shown_flat() -> None:
    assert list(flat({"a": {"b": {"c": 1}, "d": {}}, "e": [2]})) == [
        ("a.b.c", 1),
        ("a.d", {}),
        ("e", [2]),
    ]


def test_rates_are_what_was_counted_between_two_looks() -> None:
    before = Look(10.0, {"message_stats": {"publish": 100, "ack": 50}}, [])
    now = Look(12.0, {"message_stats": {"publish": 500, "ack": 10}}, [])
    found = rates(now, before)
    assert (found["publish"], found["ack"], found["confirm"]) == (200.0, 0, 0)
    assert set(rates(now, None).values()) == {0.0}
    assert set(found) == {key for key, _ in RATES}


def test_the_picture_has_what_there_is() -> None:
    from rich.console import Console

    queue = {"vhost": "/", "name": "[red]q", "type": "quorum", "leader": "n1", "messages": 7}
    node = {"name": "n1", "running": True, "mem_used": 3 << 20, "disk_free_alarm": True}
    held = [f"c{n} is held back by log (no credit)" for n in range(12)]
    out = io.StringIO()
    Console(file=out, width=120).print(picture(Look(1.0, {}, [node], [queue], held), None))
    printed = out.getvalue()
    for words in ("n1", "3 MiB", "disk", "[red]q", "c0 is held back by log", "and 4 more"):
        assert words in printed


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_is_for_a_terminal_alone() -> None:
    quiet = Options(quiet=True, formatter="table")
    asked = Options(quiet=False, formatter="table")
    for options, out in ((quiet, Terminal()), (asked, io.StringIO())):
        assert shown_while(lambda: 7, lambda: Progress(1, 2), "Growing", options, out) == 7
        assert out.getvalue() == ""
    terminal = Terminal()
    assert shown_while(lambda: 8, lambda: Progress(1, 2), "Growing", asked, terminal) == 8
    assert "Growing" in terminal.getvalue()


def test_a_fault_of_the_work_ends_the_bar_and_is_told() -> None:
    asked = Options(quiet=False, formatter="table")

    def fail() -> None:
        raise BadCall("no")

    with pytest.raises(BadCall, match="no"):
        shown_while(fail, lambda: Progress(1, 2), "Growing", asked, Terminal())


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_all_commands(shell: str, tmp_path: Path) -> None:
    text = script(shell, make_parser())
    for table in ALL:
        for name in table:
            assert name in text
    assert "consumer_capacity" in text and "no-table-headers" in text
    if shutil.which(shell) is not None:
        file = tmp_path / "completion"
        file.write_text(text)
        assert subprocess.run([shell, "-n", str(file)], timeout=20, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_columns(tmp_path: Path) -> None:
    file = tmp_path / "completion"
    file.write_text(script("bash", make_parser()))

    def completed(*words: str) -> list[str]:
        line = " ".join(f'"{word}"' for word in words)
        place = len(words) - 1
        asked = f"COMP_WORDS=({line}); COMP_CWORD={place}; _warrenctl"
        run = ["bash", "--norc", "-c", f'source {file}; {asked}; echo "${{COMPREPLY[@]}}"']
        done = subprocess.run(run, timeout=20, check=True, capture_output=True, text=True)
        return done.stdout.split()

    assert completed("warrenctl", "list_que") == ["list_queues"]
    assert completed("warrenctl", "list_queues", "consumer_c") == ["consumer_capacity"]
    assert completed("warrenctl", "-q", "list_queues", "--on") == ["--online"]
    assert "table" not in completed("warrenctl", "completion", "z")
    assert completed("warrenctl", "completion", "z") == ["zsh"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_names_that_the_node_tells(tmp_path: Path) -> None:
    """The tool is one that says how it was called, as if that were names."""
    tool = tmp_path / "warrenctl"
    tool.write_text('#!/bin/sh\nfor word in "$@"; do printf \'%s\\tmore\\n\' "$word"; done\n')
    tool.chmod(0o755)
    file = tmp_path / "completion"
    file.write_text(script("bash", make_parser()))

    def names(line: str) -> list[str]:
        place = len(line.split())
        asked = f"COMP_WORDS=({line} ''); COMP_CWORD={place}; _warrenctl"
        run = f'PATH={tmp_path}:$PATH; source {file}; {asked}; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(
            ["bash", "--norc", "-c", run], timeout=20, check=True, capture_output=True, text=True
        )
        return done.stdout.split()

    found = names("warrenctl purge_queue -p shop")
    assert "list_queues" in found and "shop" in found and "more" not in found
    assert "list_users" in names("warrenctl delete_user")


def test_sizes_and_times_are_told_in_units_for_people() -> None:
    assert [size(each) for each in (0, 1023, 1536, 300 << 20, 5 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "300 MiB", "5.0 TiB",
    ]  # fmt: skip
    assert [duration(each * 1000) for each in (5, 65, 7260, 180_000)] == [
        "5 s", "1 min 5 s", "2 h 1 min", "2 d 2 h",
    ]  # fmt: skip


def test_help_of_a_command_names_what_may_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "set_log_level"]) == 0
    shown = capsys.readouterr().out
    assert "one of: debug, info, warning, error, critical, none" in " ".join(shown.split())


def test_a_wrong_word_for_a_choice_is_a_wrong_call() -> None:
    assert main(["completion", "powershell"]) == 64
    assert main(["memory_breakdown", "--unit", "pages"]) == 64
    assert main(["set_vm_memory_high_watermark"]) == 64
    assert main(["set_vm_memory_high_watermark", "2"]) == 64
    assert main(["observer", "--interval", "x"]) == 64
    assert main(["peek", "q", "0"]) == 64


def test_who_is_asked_may_be_said_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = make_parser().parse_args(["ping"])
    assert (options.node_url, options.user) == ("http://127.0.0.1:15672", "guest")
    monkeypatch.setenv("WARREN_CTL_URL", "https://there:15671")
    monkeypatch.setenv("WARREN_CTL_USER", "ann")
    options = make_parser().parse_args(["ping"])
    assert (options.node_url, options.user) == ("https://there:15671", "ann")
    assert make_parser().parse_args(["--user", "bo", "ping"]).user == "bo"


def test_a_command_that_is_none_is_answered_with_what_is_like_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-q", "list_queue"]) == 64
    assert capsys.readouterr().err.startswith("warrenctl: no command 'list_queue'; known: list_qu")
    assert main(["nothing_like_it"]) == 64
    assert "warrenctl --help" in capsys.readouterr().err
    assert main(["--url", "http://127.0.0.1:1", "status"]) == 64
    assert capsys.readouterr().err.startswith("warrenctl: no option '--url' before a command; see")
    assert main(["--node-url", "nonsense", "status"]) == 64
    assert capsys.readouterr().err.startswith("warrenctl: --node-url nonsense: no URL such as http")


def test_help_shows_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    for table in ALL:
        assert [shown.count(name) for name in table] == [1] * len(table)


def test_a_command_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add_user", "--help"]) == 0
    assert CHANGES["add_user"].help in capsys.readouterr().out

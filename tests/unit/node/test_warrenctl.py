"""`warrenctl` against the real management listener: exit codes first, then what it prints."""

import asyncio
import io
import json
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from msgspec.structs import replace

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import hash_password
from node.cli.absent_commands import ABSENT
from node.cli.tables import cell, write_table
from node.cli.warrenctl import TABLES, main
from node.management.access import Context
from node.management.rows.view import CorruptView, RecoveryView
from node.management.server import ManagementServer
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker, connection_view, node_view, queue_view
from tests.unit.node.fake_operations import FakeOperations

SHA256 = "rabbit_password_hashing_sha256"
Call = Callable[..., int]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def with_node(test: Callable[[Call], None], broker: FakeBroker | None = None) -> None:
    """Run a test in a thread while a management listener is up on a free port."""

    async def run() -> None:
        stored = hash_password("s3cret", "rabbit_password_hashing_sha256", b"salt")
        access = FakeAccess(users={"ada": FakeUser(stored, SHA256, ("administrator",))})
        harness = LoginChecks(access, LoginRules())
        server = ManagementServer(Context(broker or filled(), access, harness, FakeOperations()))
        port = await server.start("127.0.0.1", 0)

        def call(url: str, *arguments: str, user: str = "ada", password: str = "s3cret") -> int:
            login = ["--node-url", url, "--user", user, "--password", password]
            return main([*login, *arguments])

        try:
            await asyncio.to_thread(test, partial(call, f"http://127.0.0.1:{port}/"))
        finally:
            await server.stop()
            harness.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def filled() -> FakeBroker:
    broker = FakeBroker()
    broker.queues["/", "orders"] = queue_view("/", "orders", ready=4)
    broker.queues["/", "bells"] = queue_view("/", "bells")
    broker.connections["c"] = connection_view("c", "ada")
    return broker


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["none"],
        ["--no-such-option", "ping"],
        ["--formatter", "xml", "ping"],
        ["ping", "more"],
        ["list_queues", "no_such_column"],
        ["--timeout", "x", "ping"],
    ],
)
def test_a_wrong_call_is_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err != ""


def test_a_command_of_rabbitmq_that_is_not_there_says_what_to_do_instead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {name for _, table in TABLES for name in table}
    assert not known & set(ABSENT)
    for command, words in ABSENT.items():
        assert main(["--quiet", command, "some", "--flag"]) == 64
        assert capsys.readouterr().err == f"warrenctl: no command '{command}': {words}\n"
    named = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", " ".join(ABSENT.values()))
    assert set(named) - known == {"secret_file"}  # A setting.


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://127.0.0.1:1", 69), ("nonsense", 64), ("http://[", 64), ("ftp:x", 64), ("http:", 64)],
)
def test_a_node_that_is_not_there_is_69_and_a_url_that_is_none_is_64(
    url: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--node-url", url, "ping"]) == code
    said = capsys.readouterr().err
    assert said.startswith("warrenctl: ")
    assert code != 69 or "--node-url URL or WARREN_CTL_URL names the node to ask" in said


def test_the_option_n_selects_a_node_of_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """A second node listens elsewhere; the one that is asked knows where."""
    broker = filled()
    other = filled()
    other.queues["/", "elsewhere"] = queue_view("/", "elsewhere")

    def with_another(ask_other: Call) -> None:
        port = urlsplit(ask_other.args[0]).port  # type: ignore[attr-defined]
        broker.the_node = node_view(listeners=(("amqp", 5672), ("http", port or 0)))

        def test(call: Call) -> None:
            listed = ("list_queues", "-q", "--no-table-headers", "name")
            for name in ("rabbit", "rabbit@host", None):
                assert call(*(() if name is None else ("-n", name)), *listed) == 0
                assert "elsewhere" not in capsys.readouterr().out
            assert call("-n", "warren@here", *listed) == 0
            assert "elsewhere" in capsys.readouterr().out
            assert call("-n", "absent", *listed) == 64
            text = "warrenctl: -n absent: no such node; members of the cluster: warren@here\n"
            assert capsys.readouterr().err == text
            broker.the_node = node_view(listeners=(("amqp", 5672),))
            assert call("-n", "warren@here", *listed) == 64
            assert "has no listener for the HTTP API" in capsys.readouterr().err

        with_node(test, broker)

    with_node(with_another, other)


def test_what_was_asked_for_is_printed_with_quiet_too(capsys: pytest.CaptureFixture[str]) -> None:
    def test(call: Call) -> None:
        for words in (["version"], ["server_version"]):
            assert call("-q", *words) == 0
            assert capsys.readouterr().out == "0.1.0\n"
        assert call("-q", "ping") == 0
        assert capsys.readouterr().out == ""

    with_node(test)


def test_a_refused_login_is_77(capsys: pytest.CaptureFixture[str]) -> None:
    def test(call: Call) -> None:
        assert call("ping", password="wrong") == 77
        assert capsys.readouterr().err == "warrenctl: 401: Login failed\n"

    with_node(test)


def test_an_unknown_vhost_is_65_and_a_node_out_of_service_is_69(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = filled()
    broker.the_node = node_view(in_service=False)

    def test(call: Call) -> None:
        assert call("list_queues", "-p", "none") == 65
        assert call("ping") == 69
        assert "503: this node is not in service" in capsys.readouterr().err

    with_node(test, broker)


def test_an_answer_that_is_not_json_or_not_a_list_is_70() -> None:
    async def text(request: web.Request) -> web.Response:
        return web.Response(text="<html>" if request.path == "/api/queues/%2F" else "{}")

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{anything:.*}", text)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        for command in ("list_queues", "list_connections"):
            assert await asyncio.to_thread(main, ["--node-url", url, command]) == 70
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_ping_and_lists_print_what_scripts_expect(capsys: pytest.CaptureFixture[str]) -> None:
    def test(call: Call) -> None:
        assert call("ping") == 0
        assert capsys.readouterr().out == "Ping succeeded\n"
        assert call("list_queues") == 0
        assert capsys.readouterr().out == (
            "Listing queues for vhost / ...\nname\tmessages\nbells\t1\norders\t5\n"
        )
        assert call("-q", "--no-table-headers", "list_queues", "name", "durable", "policy") == 0
        assert capsys.readouterr().out == "bells\ttrue\t\norders\ttrue\t\n"
        assert call("-q", "list_connections", "user", "peer_port") == 0
        assert capsys.readouterr().out == "user\tpeer_port\nada\t40000\n"
        assert call("-q", "list_bindings") == 0
        assert "\torders\tqueue\torders\t{}\n" in capsys.readouterr().out
        assert call("list_exchanges") == 0

    with_node(test)


def test_json_is_the_answer_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    def test(call: Call) -> None:
        assert call("--formatter", "json", "list_queues", "name", "arguments") == 0
        assert json.loads(capsys.readouterr().out) == [
            {"name": "bells", "arguments": {"x-max-length": 10}},
            {"name": "orders", "arguments": {"x-max-length": 10}},
        ]
        assert call("--formatter", "json", "status") == 0
        assert json.loads(capsys.readouterr().out)["node"]["name"] == "warren@here"
        assert call("--formatter", "json", "ping") == 0
        assert json.loads(capsys.readouterr().out) == {"result": "ok"}

    with_node(test)


def test_all_damage_is_accepted_at_once_and_told_queue_by_queue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = filled()
    crashed = (("/", "bills"), ("/", "orders"), ("other", "orders"))
    broker.the_node = replace(broker.the_node, crashed_queues=crashed)

    def test(call: Call) -> None:
        assert call("accept_all_damage", "--vhost-pattern", "(") == 65
        assert call("-q", "accept_all_damage", "--queue-pattern", "^o") == 0
        assert broker.accepted == [("/", "orders"), ("other", "orders")]
        broker.accept_refusal = "the queue is not damaged"
        capsys.readouterr()
        assert call("-q", "accept_all_damage", "--vhost-pattern", "^/$") == 0
        told = "the queue is not damaged"
        assert capsys.readouterr().out.splitlines() == [
            "vhost\tname\tresult", f"/\tbills\t{told}", f"/\torders\t{told}",
        ]  # fmt: skip

    with_node(test, broker)


def test_accepting_damage_asks_the_node_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    broker = filled()

    def test(call: Call) -> None:
        assert call("accept_damage", "orders") == 0
        assert capsys.readouterr().out == "Queue orders in vhost / is served again\n"
        assert broker.accepted == [("/", "orders")]
        assert call("accept_damage", "nowhere") == 65
        broker.accept_refusal = "the queue is not damaged"
        assert call("accept_damage", "orders") == 65
        assert "the queue is not damaged" in capsys.readouterr().err

    with_node(test, broker)


def test_status_says_what_the_start_has_met(capsys: pytest.CaptureFixture[str]) -> None:
    broker = filled()
    corrupt = CorruptView(file="/d/wal-1", offset=7, record="PUBLISH", queues=(("/", "orders"),))
    lost = CorruptView(file="/d/wal-1", offset=9, record="SETTLE", queues=())
    recovery = RecoveryView(clean=False, torn=("/d/wal-2", 5), corrupt=(corrupt, lost))
    broker.the_node = replace(broker.the_node, recovery=recovery)

    def test(call: Call) -> None:
        assert call("status") == 0
        printed = capsys.readouterr().out
        assert "Last stop\tnot clean\n" in printed
        assert "Torn end cut\t/d/wal-2 at offset 5\n" in printed
        assert "Corrupt\t/d/wal-1 at offset 7, hits queue 'orders' in vhost '/'\n" in printed
        assert "Corrupt\t/d/wal-1 at offset 9\n" in printed

    with_node(test, broker)


def test_status_names_alarms_and_listeners(capsys: pytest.CaptureFixture[str]) -> None:
    broker = filled()
    details = ("disk: 3 bytes are free, the limit is 4", "reserve of the log: no space")
    broker.the_node = replace(
        broker.the_node, memory_alarm=True, disk_alarm=True, alarm_details=details
    )

    def test(call: Call) -> None:
        assert call("status") == 0
        printed = capsys.readouterr().out
        assert "Node\twarren@here\n" in printed
        assert "Alarms\tmemory, disk\n" in printed
        assert "".join(f"Alarm\t{each}\n" for each in details) in printed
        assert "Listener\tamqp 0.0.0.0:5672\n" in printed
        assert "Messages ready\t4\n" in printed
        assert "details" not in printed

    with_node(test, broker)


def test_the_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_CTL_PASSWORD", "s3cret")

    def test(call: Call) -> None:
        assert call("ping", password="") == 0

    with_node(test)


def test_a_terminal_gets_a_drawn_table_with_nothing_cut_off() -> None:
    out = Terminal()
    write_table(["name", "messages"], [["q" * 200, 5]], out)
    assert "┃" in out.getvalue()
    assert out.getvalue().count("q") == 200


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        ({"a": 1}, '{"a": 1}'),
        ("tab\there", "tab\\there"),
        ("\x1b[2J", "\\u001b[2J"),
        ("[red]ä", "[red]ä"),
    ],
)
def test_a_cell_stays_on_its_line_and_leaves_the_terminal_alone(value: object, shown: str) -> None:
    assert cell(value) == shown

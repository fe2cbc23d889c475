"""`warrenctl` with RabbitMQ's command names, against a real node."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from node.cli.changes import CHANGES
from node.cli.lists import LISTS
from node.cli.warrenctl import main
from tests.conformance.broker import CONFIG
from warren.testing import Node
from warren.testing.http_api import HttpApi

SHOVEL: Final = {  # to nowhere
    "src-uri": "amqp://127.0.0.1:1",
    "src-queue": "q",
    "dest-uri": "amqp://127.0.0.1:1",
    "dest-queue": "q",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="ctl", config=CONFIG) as running:
        yield running


class Ctl:
    """Runs commands; keeps what the last one has printed."""

    def __init__(self, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = node.management_url
        self._capsys = capsys
        self.errors = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        found = main(["--node-url", self._url, *words])
        printed = self._capsys.readouterr()
        assert found == code, printed.err
        self.errors = printed.err
        return printed.out

    def json(self, *words: str) -> Any:
        return json.loads(self("--formatter", "json", *words))


@pytest.fixture
def ctl(node: Node, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return Ctl(node, capsys)


@pytest.fixture(scope="module")
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


def test_users_and_their_rights(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ctl("add_user", "ann", "one") == 'Adding user "ann" ...\n'
    ctl("add_user", "ann", "two", code=64)
    ctl("set_user_tags", "ann", "monitoring", "management")
    monkeypatch.setattr("sys.stdin", io.StringIO("three\n"))
    ctl("change_password", "ann")
    assert "Success" in ctl("authenticate_user", "ann", "three")
    ctl("authenticate_user", "ann", "one", code=77)
    ctl("set_user_tags", "ann")
    assert "Success" in ctl("authenticate_user", "ann", "three")  # No tag, and a right password.
    ctl("set_user_tags", "ann", "monitoring", "management")
    ctl("set_permissions", "-p", "/", "ann", "^a", "^b", "^c")
    assert ctl("-q", "list_user_permissions", "ann").splitlines() == [
        "vhost\tconfigure\twrite\tread",
        "/\t^a\t^b\t^c",
    ]
    assert ctl.json("list_user_permissions", "ann") == [
        {"vhost": "/", "configure": "^a", "write": "^b", "read": "^c"}
    ]
    ctl("set_topic_permissions", "ann", "amq.topic", "^x", "^y")
    assert "ann\tamq.topic\t^x\t^y" in ctl("list_topic_permissions")
    ctl("clear_topic_permissions", "ann")
    ctl("clear_permissions", "ann")
    ctl("clear_permissions", "ann", code=65)
    ctl("set_user_limits", "ann", '{"max-connections": 3, "max-channels": 9}')
    limits = {"max-connections": 3, "max-channels": 9}
    assert ctl.json("list_user_limits") == [{"user": "ann", "value": limits}]
    assert ctl.json("-n", "rabbit", "list_user_limits", "--user", "ann") == limits
    ctl("clear_user_limits", "ann", "all")
    assert ctl("-q", "list_user_limits", "--user", "ann") == "{}\n"
    ctl("clear_password", "ann")
    assert [each["tags"] for each in ctl.json("list_users") if each["user"] == "ann"] == [
        ["monitoring", "management"]
    ]
    ctl("delete_user", "ann")
    ctl("delete_user", "ann", code=65)
    assert "404" in ctl.errors


def test_vhosts_policies_and_parameters(ctl: Ctl, api: HttpApi) -> None:
    ctl("add_vhost", "v", "--description", "d", "--default-queue-type", "quorum")
    assert "v\td" in ctl("list_vhosts")
    ctl("set_vhost_limits", "-p", "v", '{"max-queues": 2}')
    assert {"vhost": "v", "value": {"max-queues": 2}} in ctl.json("list_vhost_limits", "--global")
    assert ctl("-q", "-p", "v", "-n", "rabbit", "list_vhost_limits") == '{"max-queues": 2}\n'
    assert ctl("-q", "list_vhost_limits") == "{}\n"
    ctl("clear_vhost_limits", "-p", "v")
    ctl("set_policy", "-p", "v", "p", "^q", '{"max-length":1}', "--priority", "3")
    ctl("set_policy", "-p", "v", "p", "^q", "{", code=64)
    ctl("set_policy", "-p", "v", "p", "^q", '{"max-length":1}', "--priority", "high", code=64)
    ctl("set_policy", "-p", "v", "p", "^q", '{"none":1}', code=65)
    assert "are not recognised policy settings" in ctl.errors
    assert ctl("-q", "list_policies", "-p", "v").splitlines()[1] == (
        'v\tp\t^q\tall\t{"max-length": 1}\t3'
    )
    ctl("set_operator_policy", "-p", "v", "o", "^q", '{"expires":1}', "--apply-to", "queues")
    assert [each["name"] for each in ctl.json("list_operator_policies", "-p", "v")] == ["o"]
    ctl("clear_operator_policy", "-p", "v", "o")
    ctl("clear_policy", "-p", "v", "p")
    ctl("set_parameter", "-p", "v", "shovel", "s", '{"a":1}', code=65)
    ctl("set_parameter", "-p", "v", "shovel", "s", json.dumps(SHOVEL))
    assert "shovel\ts\t" in ctl("list_parameters", "-p", "v")
    assert "shovel" not in ctl("list_parameters")
    ctl("clear_parameter", "-p", "v", "shovel", "s")
    ctl("set_global_parameter", "g", "1")
    ctl("clear_global_parameter", "g")
    ctl("set_cluster_name", "c")
    assert ctl.json("list_global_parameters") == [{"name": "cluster_name", "value": "c"}]
    assert 'cluster_name\t"c"' in ctl("list_global_parameters")
    ctl("delete_vhost", "v")
    ctl("delete_vhost", "v", code=65)


def test_queues_and_definitions(ctl: Ctl, api: HttpApi, tmp_path: Path) -> None:
    api.put("/queues/%2F/q", {"durable": True})
    body = {"routing_key": "q", "properties": {}, "payload": "", "payload_encoding": "string"}
    api.post("/exchanges/%2F/amq.default/publish", body)
    ctl("delete_queue", "q", "--if-empty", code=65)
    ctl("purge_queue", "q")
    target = tmp_path / "definitions.json"
    ctl("export_definitions", str(target))
    ctl("delete_queue", "q", "--if-empty", "--if-unused")
    ctl("import_definitions", str(target))
    assert api.get("/queues/%2F/q")["durable"] is True
    assert json.loads(ctl("export_definitions", "-"))["queues"][0]["name"] == "q"
    ctl("import_definitions", str(tmp_path / "none"), code=64)
    ctl("close_connection", "none", "because", code=65)
    assert "Closed 0 connections" in ctl("close_all_connections", "because")


def test_every_command_says_what_it_does(ctl: Ctl) -> None:
    for name in (*CHANGES, *LISTS):
        assert name in ctl(name, "--help")


def test_lists_have_columns_to_choose_from_and_formats(ctl: Ctl, api: HttpApi) -> None:
    api.put("/queues/%2F/cols", {"durable": True})
    assert ctl("list_queues", "-q", "--formatter", "csv", "name", "owner_pid").splitlines() == [
        "name,owner_pid",
        *sorted(f"{each['name']}," for each in api.get("/queues/%2F")),
    ]
    assert ctl("-s", "list_queues", "--offline") == ""
    assert "cols" in ctl("list_queues", "--online", "--local")
    assert "┃" in ctl("--formatter", "pretty_table", "list_vhosts", "name")
    ctl("list_vhosts", "none", code=64)
    api.delete("/queues/%2F/cols")


def test_limits_and_listeners_of_a_running_node(ctl: Ctl, api: HttpApi) -> None:
    before = api.get("/nodes/ctl")
    ctl("set_disk_free_limit", "1MB")
    assert api.get("/nodes/ctl")["disk_free_limit"] == 10**6
    ctl("set_disk_free_limit", str(before["disk_free_limit"]))
    said = ctl("set_vm_memory_high_watermark", "absolute", "64GiB")
    assert said == "Setting memory threshold to absolute 64GiB ...\n"
    assert api.get("/nodes/ctl")["mem_limit"] == 64 << 30
    ctl("set_vm_memory_high_watermark", "0.6", "--node", "ctl")
    ctl("set_vm_memory_high_watermark", "absolute", code=64)
    ctl("suspend_listeners")
    ctl("resume_listeners")
    ctl("trace_on", "-p", "none", code=65)
    ctl("update_vhost_metadata", "/", "--description", "the first")
    assert api.get("/vhosts/%2F")["description"] == "the first"


def test_diagnostics_of_a_good_node(ctl: Ctl, node: Node) -> None:
    ctl("await_startup")
    ctl("diagnostics", "is_running")
    assert f"\t{node.port}\tamqp" in ctl("listeners")
    ctl("check_port_listener", str(node.port))
    ctl("check_port_listener", "1", code=69)
    ctl("check_protocol_listener", "amqp")
    ctl("check_port_connectivity")
    ctl("check_virtual_hosts")
    ctl("check_if_new_quorum_queue_replicas_have_finished_initial_sync")
    assert "nothing that looks stuck" in ctl("maybe_stuck")
    assert ctl("-s", "list_unresponsive_queues") == ""
    assert "up to 100 bytes" in ctl("message_size_stats")
    assert ctl.json("resolve_hostname", "127.0.0.1") == [{"address": "127.0.0.1"}]
    ctl("resolve_hostname", "no.such.host.invalid", code=69)
    assert ctl("hash_password", "x").strip() not in ("", "None")
    assert "limits.channel_max\t" in ctl("environment")
    assert "binary\t" in ctl("memory_breakdown", "--unit", "kb")
    ctl("check_certificate_expiration", "--within", "1", "--unit", "days")
    assert "connection" in ctl("list_channels", "connection", "name")
    assert ctl("-s", "list_consumers") == ""
    assert "auth_attempts" in ctl("list_node_auth_attempt_stats", "ctl")


def test_policies_that_match_are_listed_the_strongest_first(ctl: Ctl, api: HttpApi) -> None:
    api.put("/queues/%2F/orders", {"durable": True})
    ctl("set_policy", "weak", "^o", '{"max-length":1}')
    ctl("set_policy", "strong", "^orders$", '{"max-length":2}', "--priority", "5")
    ctl("set_policy", "other", "^x", '{"max-length":2}', "--apply-to", "queues")
    found = ctl.json("list_policies_that_match", "orders")
    assert [each["name"] for each in found] == ["strong", "weak"]
    assert found == ctl.json("list_policies_that_match", "orders", "--object-type", "queue")
    of_exchange = ("list_policies_that_match", "-p", "/", "amq.direct", "--object-type", "exchange")
    assert ctl.json(*of_exchange) == []
    assert "match queue 'orders' in vhost '/'" in ctl("list_policies_that_match", "orders")
    ctl("list_policies_that_match", "orders", "--object-type", "user", code=64)
    ctl("list_policies_that_match", "queues", "orders", code=64)
    for name in ("weak", "strong", "other"):
        ctl("clear_policy", name)
    api.delete("/queues/%2F/orders")


def test_a_message_is_looked_at_and_stays(ctl: Ctl, api: HttpApi) -> None:
    api.put("/queues/%2F/seen", {"durable": True})
    for payload in ("first", "second"):
        body = {"routing_key": "seen", "properties": {}, "payload": payload}
        api.post("/exchanges/%2F/amq.default/publish", {**body, "payload_encoding": "string"})
    assert "payload\tsecond" in ctl("queues", "peek", "seen", "2")
    assert "redelivered\tfalse" in ctl("peek", "seen", "1")
    ctl("peek", "seen", "3", code=69)
    assert len(api.post("/queues/%2F/seen/get", {
        "count": 5, "ackmode": "ack_requeue_false", "encoding": "auto",
    })) == 2  # fmt: skip
    api.delete("/queues/%2F/seen")


def test_a_report_has_all_parts_and_no_secret(ctl: Ctl, api: HttpApi, tmp_path: Path) -> None:
    secret = "n0t-to-be-seen"
    api.put("/users/reported", {"password": secret, "tags": ""})
    value = SHOVEL | {"src-uri": f"amqp://u:{secret}@127.0.0.1:1"}
    shovel = {"component": "shovel", "name": "moved", "value": value}
    api.post("/definitions/%2F", {"parameters": [shovel]})
    printed = ctl("report")
    assert secret not in printed
    assert api.get("/users/reported")["password_hash"] not in printed
    for part in ("overview", "nodes", "queues", "flow", "metrics"):
        assert f"=== {part}\n" in printed
    target = tmp_path / "report.tar.gz"
    ctl("report", "--file", str(target))
    with tarfile.open(target) as archive:
        assert "warren-report/metrics.txt" in archive.getnames()
    ctl("report", "--file", str(tmp_path / "none" / "r.tar.gz"), code=64)
    ctl("clear_parameter", "shovel", "moved")
    ctl("delete_user", "reported")


def test_the_observer_draws_the_cluster(ctl: Ctl) -> None:
    printed = ctl("observer", "--count", "2", "--interval", "0.1")
    assert "Queues with the most messages" in printed
    assert "running" in printed


def test_events_traces_and_levels_are_switched(ctl: Ctl, api: HttpApi) -> None:
    name = api.get("/overview")["node"]
    ctl("trace_on")
    assert api.get("/vhosts/%2F")["tracing"] is True
    ctl("trace_off")
    assert api.get("/vhosts/%2F")["tracing"] is False
    ctl("enable_event_exchange", "-p", "/")
    wish = api.get("/global-parameters/event-exchange")["value"]
    assert wish == {"enabled": True, "vhost": "/"}
    ctl("disable_event_exchange")
    assert api.get("/global-parameters/event-exchange")["value"] == {"enabled": False}
    ctl("clear_global_parameter", "event-exchange")
    ctl("set_log_level", "debug", "--category", "connection")
    assert api.get(f"/nodes/{name}/log-level")["connection"] == "debug"
    ctl("set_log_level", "info", "--category", "connection")
    ctl("set_log_level", "loud", code=64)


def test_ansible_s_modules_can_read_what_they_ask_rabbitmqctl_for(ctl: Ctl, api: HttpApi) -> None:
    """Calls and forms of community.rabbitmq 1.3.0, all of whose modules were run by hand."""
    api.put("/policies/%2F/an", {"pattern": "^an$", "definition": {"max-length": 1}})
    api.put("/parameters/shovel/%2F/an", {"value": SHOVEL})
    asked = ("-q", "-n", "rabbit")
    version = re.search("RabbitMQ version: (?P<version>.*)", ctl(*asked, "status"))
    assert version is not None and version["version"] == "4.3.0"
    status = json.loads(ctl(*asked, "status", "--formatter", "json"))
    assert status["rabbitmq_version"] == "4.3.0"
    users = json.loads(ctl(*asked, "list_users", "--formatter", "json"))
    assert {each["user"]: each["tags"] for each in users}["guest"] == ["administrator"]
    assert "/\tfalse" in ctl(*asked, "list_vhosts", "name", "tracing").splitlines()
    header, policy = ctl(*asked, "list_policies", "-p", "/").splitlines()
    assert header and policy.split("\t")[1:4] == ["an", "^an$", "all"]
    assert json.loads(policy.split("\t")[4]) == {"max-length": 1}
    lines = ctl(*asked, "list_parameters", "-p", "/").splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["component", "name"], ["shovel", "an"]]
    flags = ctl(*asked, "list_feature_flags").splitlines()
    assert ["quorum_queue", "enabled"] in [line.split("\t") for line in flags]
    assert json.loads(ctl("-q", "-p", "/", "list_vhost_limits").splitlines()[0]) == {}
    api.delete("/parameters/shovel/%2F/an")
    api.delete("/policies/%2F/an")


def test_errors_name_the_object_and_the_option(
    ctl: Ctl, api: HttpApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ctl("delete_user", "absent", code=65)
    assert "404: user 'absent' not found" in ctl.errors
    ctl("clear_policy", "-p", "/", "none", code=65)
    assert "404: policy 'none' in vhost '/' not found" in ctl.errors
    for command in ("add_user", "change_password"):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        ctl(command, "guest" if command == "change_password" else "empty", code=64)
        assert "the password is empty" in ctl.errors
    assert "empty" not in ctl("list_users")
    assert main(["--node-url", "http://127.0.0.1:1", "list_users"]) == 69
    assert "--node-url URL or WARREN_CTL_URL" in capsys.readouterr().err


def test_n_selects_the_node(ctl: Ctl, api: HttpApi) -> None:
    name = api.get("/overview")["node"]
    for words in (("-n", name), (f"--node={name}",), ("-n", "rabbit@somewhere")):
        assert "guest" in ctl(*words, "list_users")
    ctl("-n", "n9", "list_users", code=64)
    assert f"-n n9: no such node; members of the cluster: {name}" in ctl.errors


def test_a_limit_is_announced_as_it_was_given(ctl: Ctl, api: HttpApi) -> None:
    before = api.get("/nodes")[0]["mem_limit"]
    said = ctl("set_vm_memory_high_watermark", "absolute", str(before))
    assert said == f"Setting memory threshold to absolute {before} ...\n"
    said = ctl("set_vm_memory_high_watermark", "0")
    assert said == "Setting memory threshold to 0 ...\n"
    ctl("set_vm_memory_high_watermark", "absolute", str(before))

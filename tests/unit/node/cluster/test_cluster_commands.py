"""Commands of `warrenctl` about the cluster, against the API of one of three nodes."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import hash_password
from node.cli.warrenctl import main
from node.management.access import Context
from node.management.server import ManagementServer
from tests.unit.node.cluster.test_cluster_view import SHA256, Site, shared
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_operations import FakeOperations

Call = Callable[..., int]
Captured = pytest.CaptureFixture[str]


class FakeDoor:
    """Opens and closes."""

    def close(self) -> None:
        """No connection arrives."""

    async def open(self) -> None:
        """They do again."""


def with_cluster(site: Site, test: Callable[[Call], None]) -> None:
    """Run a test in a thread while the first node's listener is up."""

    async def run() -> None:
        stored = hash_password("s3cret", SHA256, b"salt")
        access = FakeAccess(users={"ada": FakeUser(stored, SHA256, ("administrator",))})
        harness = LoginChecks(access, LoginRules())
        operations = FakeOperations()
        operations.metadata = shared(site)
        server = ManagementServer(
            Context(site.views[1], access, harness, operations, cluster=site.harnesses[1])
        )
        port = await server.start("127.0.0.1", 0)
        login = ["--node-url", f"http://127.0.0.1:{port}", "--user", "ada", "--password", "s3cret"]
        try:
            await asyncio.to_thread(test, lambda *words: main([*login, *words]))
        finally:
            await server.stop()
            harness.close()

    site.run(run())


def answer(captured: Captured) -> Any:
    return json.loads(captured.readouterr().out)


def test_the_status_of_the_cluster_is_told(capsys: Captured) -> None:
    site = Site()
    site.world.stop(3)

    def test(call: Call) -> None:
        assert call("cluster_status") == 0
        printed = capsys.readouterr().out
        assert "Cluster name: warren@here\n" in printed
        assert "n2\trunning\tnot under maintenance\t0.1.0\tnone\tnone\t" in printed
        assert "n3\tnot running\tnot under maintenance\t" in printed
        assert call("--formatter", "json", "cluster_status") == 0
        told = answer(capsys)
        assert told["running_nodes"] == ["n1", "n2"]
        assert told["disk_nodes"] == ["n1", "n2", "n3"]
        assert told["partitions"] == {}

    with_cluster(site, test)


@pytest.mark.parametrize(
    "words",
    [
        ["grow", "n3", "some"],
        ["grow_to_count", "many", "all"],
        ["rebalance", "streams"],
        ["await_online_nodes", "x"],
        ["add_member", "q"],
        ["add_member", "q", "n3", "--membership", "witness"],
        ["grow", "n3", "all", "--membership", "non_voter"],
        ["quorum_status"],
    ],
)
def test_a_wrong_call_is_64(words: list[str]) -> None:
    def test(call: Call) -> None:
        assert call(*words) == 64

    with_cluster(Site(), test)


def test_members_and_leaders_are_changed(capsys: Captured) -> None:
    site = Site()
    queue = site.world.queue("q", (1, 2), leader=1)

    def test(call: Call) -> None:
        assert call("add_member", "q", "n3") == 0
        assert capsys.readouterr().out == "Adding a replica for queue q on node n3...\n"
        assert call("add_member", "q", "n3") == 65
        assert "already" in capsys.readouterr().err
        assert call("transfer_leadership", "q", "n2") == 0
        assert site.world.leader_of(queue) == 2
        assert call("-q", "quorum_status", "q") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].startswith("Node Name\tRaft State") or lines[0].startswith("Node Name")
        assert "n2\tleader\tvoter\t9" in "\n".join(lines)
        assert call("delete_member", "q", "n1") == 0
        assert site.world.members_of(queue) == (2, 3)
        capsys.readouterr()
        assert call("-q", "grow", "n1", "even") == 0
        assert capsys.readouterr().out == "vhost\tname\tsize\tresult\n/\tq\t3\tok\n"
        assert call("-q", "grow", "n1", "all", "--queue-pattern", "none") == 0
        assert call("-q", "shrink", "n1", "--errors-only") == 0
        assert capsys.readouterr().out.count("\n") == 2
        errors_only = ("--errors-only", "--membership", "voter")
        assert call("-q", "grow", "n1", "all", *errors_only) == 0
        assert capsys.readouterr().out == "vhost\tname\tsize\tresult\n"
        assert call("delete_member", "q", "n1") == 0
        assert call("add_member", "q", "n1", "--membership", "promotable") == 0
        assert call("delete_member", "q", "n1") == 0
        assert call("-q", "grow_to_count", "3", "all") == 0
        assert sorted(site.world.members_of(queue)) == [1, 2, 3]
        capsys.readouterr()
        assert call("--formatter", "json", "rebalance", "quorum") == 0
        assert [row["node"] for row in answer(capsys)] == ["n1", "n2", "n3"]

    with_cluster(site, test)


def test_memberships_that_no_member_can_have_are_refused(capsys: Captured) -> None:
    site = Site()
    queue = site.world.queue("q", (1, 2), leader=1)

    def test(call: Call) -> None:
        assert call("add_member", "q", "n3", "--membership", "non_voter") == 64
        error = capsys.readouterr().err
        assert "non_voter" in error and "promotable" in error and "voter" in error
        assert site.world.members_of(queue) == (1, 2)

    with_cluster(site, test)


def test_checks_fail_with_69_and_the_reason(capsys: Captured) -> None:
    site = Site()

    def test(call: Call) -> None:
        for check in ("check_if_node_is_quorum_critical", "check_alarms", "check_local_alarms"):
            assert call(check) == 0, check
        assert call("check_running") == 0
        assert call("check_for_quorum_queues_without_an_elected_leader") == 0
        site.world.queue("q", (1, 2, 3))
        assert call("check_for_quorum_queues_without_an_elected_leader") == 69
        site.world.stop(3)
        assert call("check_if_node_is_quorum_critical") == 69
        error = capsys.readouterr().err
        assert "lose their quorum" in error and "queue 'q' in vhost '/'" in error

    with_cluster(site, test)


def test_waiting_ends_when_it_is_so_or_when_the_time_is_over(capsys: Captured) -> None:
    site = Site()

    def test(call: Call) -> None:
        assert call("await_online_nodes", "3") == 0
        assert call("await_online_quorum_plus_one") == 0
        assert call("--timeout", "0.3", "await_online_nodes", "4") == 69
        assert "fewer than 4 nodes are running" in capsys.readouterr().err
        site.world.stop(3)
        assert call("--timeout", "0.3", "await_online_quorum_plus_one") == 69

    with_cluster(site, test)


def test_nodes_are_drained_revived_and_forgotten(capsys: Captured) -> None:
    site = Site()
    queue = site.world.queue("q", (1, 2, 3), leader=1)
    for node in site.world.nodes.values():
        node.operating.open_to(FakeDoor())

    def test(call: Call) -> None:
        assert call("drain") == 0
        printed = capsys.readouterr().out
        assert "node n1 into maintenance mode" in printed
        assert "n1: 1 connections closed, 1 leaders moved\n" in printed
        assert site.world.leader_of(queue) != 1
        assert site.world.machine.roster.members[1].draining
        assert call("revive") == 0
        assert not site.world.machine.roster.members[1].draining
        assert call("drain", "n2") == 0
        assert call("revive", "n2") == 0
        assert call("drain", "n9") == 65
        assert call("forget_cluster_node", "n3") == 65
        site.world.stop(3)
        assert call("forget_cluster_node", "n3") == 0
        assert sorted(site.world.machine.roster.members) == [1, 2]

    with_cluster(site, test)

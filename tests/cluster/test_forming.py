"""Processes that form one cluster, in every order; and those that must not come in."""

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from tests.cluster.leaders import without_node
from tests.waiting import eventually
from warren.testing.cluster import ClusterOfNodes
from warren.testing.node import Node, NodeFailed, free_port

QUICK = {"cluster.minority_wait_ms": "1000"}
LONG = os.environ.get("WARREN_LONG") == "1"


def vhosts(node: Node) -> set[str]:
    return {row["name"] for row in node.api("GET", "/api/vhosts")}


def share_a_vhost(cluster: ClusterOfNodes, name: str, source: int) -> None:
    """What is declared on one node is known on all that run, once it is answered."""
    cluster.node(source).api("PUT", f"/api/vhosts/{name}", {})
    for node in cluster.nodes:
        if node.is_running():
            assert name in vhosts(node)


def members(node: Node) -> dict[str, int]:
    """By name: the member ids of the cluster, as the node's data directory knows it."""
    held = json.loads((node.data_dir / "membership").read_text().split("\n", 1)[1])
    return {"self": held["member"], **{f"peer {row[0]}": row[3] for row in held["peers"]}}


def knows_peer(node: Node, member: int) -> bool:
    return f"peer {member}" in members(node)


def has_logged(node: Node, words: str) -> bool:
    return words in node.log()


@pytest.fixture(scope="module")
def three() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3, settings=QUICK) as cluster:
        yield cluster


def test_three_nodes_form_a_cluster_and_share_definitions(three: ClusterOfNodes) -> None:
    for number in (1, 2, 3):
        share_a_vhost(three, f"from-{number}", number)
        assert members(three.node(number))["self"] == number


def test_what_a_cluster_begins_with_is_made_once(three: ClusterOfNodes) -> None:
    hashes = {node.api("GET", "/api/users/guest")["password_hash"] for node in three.nodes}
    assert len(hashes) == 1


def test_a_node_that_was_killed_comes_back_as_the_same_member(three: ClusterOfNodes) -> None:
    with without_node(three, 2):
        share_a_vhost(three, "while-2-was-away", 1)
    assert members(three.node(2))["self"] == 2
    assert "while-2-was-away" in vhosts(three.node(2))
    share_a_vhost(three, "after-2-came-back", 2)


def test_all_at_once_come_back_with_what_they_knew(three: ClusterOfNodes) -> None:
    share_a_vhost(three, "before-the-power-cut", 3)
    three.kill9()
    three.start()
    for node in three.nodes:
        assert "before-the-power-cut" in vhosts(node)
    share_a_vhost(three, "after-the-power-cut", 1)


def test_a_member_without_a_majority_serves_what_it_knows_and_says_so(
    three: ClusterOfNodes,
) -> None:
    share_a_vhost(three, "known", 1)
    three.stop()
    alone = three.node(3)
    alone.start()
    assert "known" in vhosts(alone)
    assert "no majority of the cluster can be reached" in alone.log()
    three.start([1, 2])
    share_a_vhost(three, "together-again", 3)


def test_a_wiped_node_comes_back_as_a_new_member(three: ClusterOfNodes) -> None:
    share_a_vhost(three, "before-the-wipe", 1)
    node = three.node(2)
    with without_node(three, 2):
        node.wipe()
    assert members(node)["self"] == 4
    assert "before-the-wipe" in vhosts(node)
    share_a_vhost(three, "after-the-wipe", 2)
    for number in (1, 3):
        eventually(partial(knows_peer, three.node(number), 4))
        assert "peer 2" not in members(three.node(number))
    with without_node(three, 1):  # The new member counts: two of three are a majority.
        share_a_vhost(three, "without-node-1", 2)


@pytest.mark.skipif(not LONG, reason="the test of four seeds has one absent, too")
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_cluster_forms_and_starts_again_in_every_order_with_one_absent(
    order: tuple[int, int, int],
) -> None:
    first, second, absent = order
    cluster = ClusterOfNodes(3, settings=QUICK)
    try:
        cluster.begin([first])
        eventually(partial(has_logged, cluster.node(first), "1 of 3 seeds are here, 2 are needed"))
        cluster.begin([second])
        for number in (first, second):
            cluster.node(number).await_ready()
        share_a_vhost(cluster, "early", first)
        cluster.node(absent).start()
        assert members(cluster.node(absent))["self"] == absent
        assert "early" in vhosts(cluster.node(absent))
        share_a_vhost(cluster, "late", absent)
        cluster.kill9()
        for node in (*cluster.begin([first]), *cluster.begin([second])):
            node.await_ready()
        share_a_vhost(cluster, "again", second)
        cluster.node(absent).start()
        assert "again" in vhosts(cluster.node(absent))
    finally:
        cluster.close()


@pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it")
def test_two_halves_that_are_started_apart_found_one_cluster_when_they_meet() -> None:
    cluster = ClusterOfNodes(4, settings=QUICK, proxied=True)
    try:
        cluster.links.start()
        cluster.links.part([1, 2], [3, 4])
        nodes = cluster.begin()
        for node in nodes:
            eventually(partial(has_logged, node, "2 of 4 seeds are here, 3 are needed"))
        assert not any((node.data_dir / "membership").exists() for node in nodes)
        cluster.links.heal()
        for node in nodes:
            node.await_ready()
        share_a_vhost(cluster, "of-both-halves", 1)
        share_a_vhost(cluster, "of-all", 4)
    finally:
        cluster.close()


def test_half_of_the_seeds_found_nothing_until_one_more_comes_and_the_last_one_later() -> None:
    cluster = ClusterOfNodes(4, settings=QUICK)
    try:
        for number in (1, 2):
            cluster.node(number).begin()
        for number in (1, 2):
            eventually(
                partial(has_logged, cluster.node(number), "2 of 4 seeds are here, 3 are needed")
            )
        assert not (cluster.node(1).data_dir / "membership").exists()
        cluster.node(4).begin()
        for number in (1, 2, 4):
            cluster.node(number).await_ready()
        share_a_vhost(cluster, "of-three", 4)
        cluster.node(3).start()
        assert members(cluster.node(3))["self"] == 3
        assert "of-three" in vhosts(cluster.node(3))
    finally:
        cluster.close()


def refused(node: Node, *, code: int = 1) -> str:
    """The log of a node that does not start."""
    node.begin()
    try:
        assert node.await_end() == code
        return node.log()
    finally:
        node.close()


def stranger(three: ClusterOfNodes, **settings: str) -> Node:
    """A fourth node, with settings of its own."""
    own = {key.replace("__", "."): value for key, value in settings.items()}
    port = free_port()
    return Node(
        "n4",
        settings={**three.node(1).settings, "listeners.cluster": f"127.0.0.1:{port}", **own},
    )


def test_a_node_with_another_secret_learns_nothing(three: ClusterOfNodes, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("quite another secret than theirs")
    node = stranger(three, cluster__secret_file=str(secret))
    node.begin()
    try:
        eventually(partial(has_logged, node, "do not have the same cluster secret"))
        assert not (node.data_dir / "membership").exists()
        with pytest.raises(NodeFailed):
            node.await_ready(0.3)
        node.stop()  # Also while it waits.
    finally:
        node.close()


def test_a_secret_that_others_can_read_ends_the_start(
    three: ClusterOfNodes, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret that is not one at all")
    secret.chmod(0o644)
    node = stranger(three, cluster__secret_file=str(secret))
    assert "its mode is 0644" in refused(node)


def test_a_fourth_node_is_taken_in_and_refused_when_it_was_forgotten(
    three: ClusterOfNodes,
) -> None:
    node = stranger(three)
    try:
        node.start()
        assert members(node)["self"] >= 4
        node.api("PUT", "/api/vhosts/from-the-fourth", {})
        for each in three.nodes:
            assert "from-the-fourth" in vhosts(each)
        node.stop()
        three.node(1).api("DELETE", "/api/nodes/n4")
        node.begin()
        assert node.await_end() == 1
        assert "this node was removed from the cluster" in node.log()
    finally:
        node.close()


def test_nodes_with_different_founding_lists_do_not_found() -> None:
    cluster = ClusterOfNodes(3, settings=QUICK)
    nodes = cluster.nodes[:2]
    try:
        seeds = nodes[0].settings["cluster.seeds"].split(",")
        nodes[1].settings["cluster.seeds"] = ",".join(seeds[:2])
        for node in nodes:
            node.begin()
        # The node that asks first ends.
        eventually(lambda: not all(node.is_running() for node in nodes))
        ended = next(node for node in nodes if not node.is_running())
        assert ended.await_end() == 1
        assert "--seed must be the same on every node" in ended.log()
        assert not any((node.data_dir / "membership").exists() for node in nodes)
    finally:
        cluster.close()


def test_a_data_directory_is_of_one_kind(three: ClusterOfNodes, tmp_path: Path) -> None:
    used = tmp_path / "used"
    (used / "log").mkdir(parents=True)
    (used / "log" / "a-file-of-the-log").touch()
    node = stranger(three)
    node.data_dir = used
    assert "begin with an empty data directory" in refused(node)
    held = tmp_path / "held"
    held.mkdir()
    shutil.copy(three.node(3).data_dir / "membership", held)
    assert "must not be copied" in refused(Node("n3", data_dir=held))

"""The settings of the nodes of a cluster: the same founding list, ports of their own, a secret."""

import stat
from itertools import permutations
from pathlib import Path

import pytest

from warren.testing import ClusterOfNodes


def value(cluster: ClusterOfNodes, number: int, key: str) -> str:
    return cluster.node(number).settings[key]


def test_all_nodes_have_the_same_founding_list_in_the_order_of_their_numbers() -> None:
    cluster = ClusterOfNodes(5)
    lists = {value(cluster, number, "cluster.seeds") for number in range(1, 6)}
    cluster.close()
    (seeds,) = lists
    assert seeds.split(",") == [f"127.0.0.1:{port}" for port in cluster.peer_ports]
    assert cluster.peer_ports == sorted(cluster.peer_ports)
    own = [value(cluster, number, "listeners.cluster") for number in range(1, 6)]
    assert own == seeds.split(",")


def test_no_two_ports_of_a_cluster_are_the_same() -> None:
    cluster = ClusterOfNodes(7)
    ports = [*cluster.peer_ports]
    for node in cluster.nodes:
        ports += [node.port, node.management_port]
    cluster.close()
    assert len(set(ports)) == 21


def test_founders_are_the_first_nodes() -> None:
    cluster = ClusterOfNodes(3, founders=2)
    cluster.close()
    assert len(value(cluster, 3, "cluster.seeds").split(",")) == 2


def test_the_secret_is_for_its_owner_alone_and_stays_with_the_data(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        cluster = ClusterOfNodes(3, data_dir=tmp_path)
        path = Path(value(cluster, 1, "cluster.secret_file"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        texts.append(path.read_text())
        cluster.close()
    assert texts[0] == texts[1]
    assert len(texts[0]) == 64


def test_a_base_port_decides_all_ports(tmp_path: Path) -> None:
    cluster = ClusterOfNodes(3, data_dir=tmp_path, base_port=5672)
    cluster.close()
    assert [node.port for node in cluster.nodes] == [5672, 5673, 5674]
    assert [node.management_port for node in cluster.nodes] == [15672, 15673, 15674]
    assert cluster.peer_ports == [25672, 25673, 25674]
    assert cluster.node(2).log_path == tmp_path / "n2.log"


def test_settings_of_one_node_win_over_those_of_all() -> None:
    cluster = ClusterOfNodes(
        3, settings={"log.level": "info"}, node_settings={2: {"log.level": "debug"}}
    )
    cluster.close()
    assert [value(cluster, number, "log.level") for number in (1, 2)] == ["info", "debug"]


def test_without_proxies_there_are_no_links_to_break() -> None:
    cluster = ClusterOfNodes(3)
    cluster.close()
    with pytest.raises(AssertionError):
        cluster.links  # noqa: B018


def test_every_node_has_a_way_of_its_own_to_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_TOXIPROXY", "/a/program/that/is/not/started")
    cluster = ClusterOfNodes(3, proxied=True)
    cluster.close()
    dialed = []
    for source, target in permutations((1, 2, 3), 2):
        ways = value(cluster, source, "testing.peer_routes").split(",")
        asked = f"127.0.0.1:{cluster.peer_ports[target - 1]}"
        dialed.append(ways[1 + 2 * ways[::2].index(asked)])
    assert len(set(dialed)) == 6

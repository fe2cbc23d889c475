"""Which ports, folders and limits the nodes of a host get."""

from pathlib import Path

import pytest

from node.config.settings import Config, ConfigError, load
from node.host.plan import node_name, plans_of


def config(*sets: str) -> Config:
    return load(sets=["node.name=w@h", "node.data_dir=/d", "listeners.amqp=0.0.0.0:5672", *sets])


def test_each_node_has_a_name_a_folder_and_ports_of_its_own() -> None:
    one, two = plans_of(config(), 2)
    assert (one.name, two.name) == ("w-1@h", "w-2@h")
    assert (one.data, two.data) == (Path("/d/node-1"), Path("/d/node-2"))
    assert one.settings["listeners.direct"] == "0.0.0.0:5673"
    assert two.settings["listeners.direct"] == "0.0.0.0:5674"
    assert one.settings["listeners.management"] == "127.0.0.1:15672"
    assert two.settings["listeners.management"] == "127.0.0.1:15673"
    assert one.settings["listeners.cluster"] == "127.0.0.1:25672"
    assert two.settings["listeners.cluster"] == "127.0.0.1:25673"
    both = "127.0.0.1:25672,127.0.0.1:25673"
    assert one.settings["cluster.seeds"] == two.settings["cluster.seeds"] == both
    assert two.settings["cluster.secret_file"] == "/d/cluster.secret"
    assert "listeners.amqp" not in one.settings


def test_the_limit_of_memory_is_shared() -> None:
    [one, _] = plans_of(config("vm_memory_high_watermark.relative=0.5"), 2)
    assert one.settings["vm_memory_high_watermark.relative"] == "0.250000"
    [one, _, _, _] = plans_of(config("vm_memory_high_watermark.absolute=4096MiB"), 4)
    assert one.settings["vm_memory_high_watermark.absolute"] == str(1024 * 1024 * 1024)


def test_what_is_configured_is_that_of_the_first_node() -> None:
    given = config(
        "listeners.cluster=10.0.0.1:7000",
        "cluster.secret_file=/s",
        "cluster.seeds=10.0.0.1:7000,10.0.0.2:7000",
        "listeners.metrics=127.0.0.1:9000",
        "listeners.amqp_advertised=broker:1000",
        "log.file=/var/log/warren.log",
    )
    _, two = plans_of(given, 2)
    assert two.settings["listeners.cluster"] == "10.0.0.1:7001"
    assert two.settings["cluster.seeds"] == "10.0.0.1:7000,10.0.0.2:7000"
    assert two.settings["cluster.secret_file"] == "/s"
    assert two.settings["listeners.metrics"] == "127.0.0.1:9001"
    assert two.settings["listeners.amqp_advertised"] == "broker:1002"
    assert two.settings["log.file"] == "/var/log/warren-2.log"


@pytest.mark.parametrize(
    ("key", "text"),
    [("listeners.amqp", "127.0.0.1:0"), ("listeners.management", "127.0.0.1:0")],
)
def test_ports_that_the_system_chooses_cannot_be_shared(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = 127.0.0.1:0: allowed for `warren host`"):
        plans_of(config(f"{key}={text}"), 2)


def test_ports_beyond_the_last_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="would need port 65536"):
        plans_of(config("listeners.management=127.0.0.1:65535"), 2)


def test_a_direct_address_is_for_one_node() -> None:
    with pytest.raises(ConfigError, match=r"listeners\.direct: not allowed"):
        plans_of(config("listeners.direct=127.0.0.1:9"), 2)


def test_a_node_name_keeps_its_host() -> None:
    assert node_name("warren@h", 3) == "warren-3@h"
    assert node_name("n", 1) == "n-1"

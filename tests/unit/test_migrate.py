"""The definitions that deploy/migrate.py imports."""

from typing import Any

import pytest

from deploy.migrate import is_ours, parsed, prepared

OLD: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "users": [{"name": "guest"}, {"name": "app"}],
    "parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": {}}],
    "global_parameters": [
        {"name": "cluster_name", "value": "old"},
        {"name": "internal_cluster_id", "value": "id"},
        {"name": "mine", "value": 1},
    ],
    "policies": [
        {
            "vhost": "/",
            "name": "limits",
            "pattern": "^a",
            "apply-to": "all",
            "priority": -7,
            "definition": {"max-length": 10},
        },
        {
            "vhost": "/",
            "name": "routes",
            "pattern": ".*",
            "apply-to": "exchanges",
            "priority": 0,
            "definition": {"alternate-exchange": "x"},
        },
    ],
}
FOUND = prepared(OLD, "guest", "amqp://u:p@old", 50)


def policies(vhost: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in FOUND["policies"] if each["vhost"] == vhost}


def test_the_new_cluster_keeps_its_identity_and_the_user_of_the_script() -> None:
    assert [each["name"] for each in FOUND["global_parameters"]] == ["mine"]
    assert [each["name"] for each in FOUND["users"]] == ["app"]


def test_shovels_are_left_out_and_each_vhost_has_an_upstream() -> None:
    rows = [(each["component"], each["vhost"], each["name"]) for each in FOUND["parameters"]]
    assert rows == [
        ("federation-upstream", "/", "migration"),
        ("federation-upstream", "shop", "migration"),
    ]
    value = FOUND["parameters"][0]["value"]
    assert value == {"uri": "amqp://u:p@old", "prefetch-count": 50, "ack-mode": "on-confirm"}


def test_policies_for_queues_are_doubled_and_originals_stay() -> None:
    root = policies("/")
    assert root["limits"] == OLD["policies"][0]
    assert root["routes"] == OLD["policies"][1]
    twin = root["migration-quorum: limits"]
    assert twin["definition"] == {"max-length": 10, "federation-upstream": "migration"}
    assert (twin["apply-to"], twin["pattern"]) == ("quorum_queues", "^a")
    assert not any("routes" in name for name in root if name != "routes")


def test_each_twin_is_above_all_originals_and_the_catch_all_below_all() -> None:
    root = policies("/")
    originals = [each["priority"] for each in root.values() if not is_ours(each)]
    twins = [each["priority"] for name, each in root.items() if ": " in name]
    assert len(twins) == 2 and min(twins) > max(originals)
    assert root["migration-classic"]["priority"] < min(originals)
    assert sorted(policies("shop")) == ["migration-classic", "migration-quorum"]


def test_an_upstream_with_a_vhost_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["start", "--old", "http://a", "--new", "http://b", "--upstream", "amqp://a/%2F"])
    assert "--upstream has a vhost" in capsys.readouterr().err

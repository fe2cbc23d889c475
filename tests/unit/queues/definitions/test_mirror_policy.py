"""The `ha-*` keys of policies: texts of RabbitMQ 3.13, and the nodes that they select."""

import pytest

from queues.definitions.mirror_policy import (
    MirrorPolicy,
    Wanted,
    mirror_fault,
    mirror_policy,
    wanted_members,
)

WITHOUT_MODE = (
    "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
)
RUNNING = {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"ha-mode": "some"}, '<<"some">> is not a valid ha-mode value'),
        ({"ha-mode": ["all"]}, '[<<"all">>] is not a valid ha-mode value'),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        (
            {"ha-mode": "exactly", "ha-params": "2"},
            'ha-mode="exactly" takes an integer, <<"2">> given',
        ),
        ({"ha-mode": 7}, "7 is not a valid ha-mode value"),
        ({"ha-mode": "all", "ha-params": []}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": -1}, 'ha-mode="exactly" takes an integer, -1 given'),
        ({"ha-mode": "exactly", "ha-params": 1.5}, 'ha-mode="exactly" takes an integer, 1.5 given'),
        (
            {"ha-mode": "exactly", "ha-params": True},
            'ha-mode="exactly" takes an integer, true given',
        ),
        (
            {"ha-mode": "exactly", "ha-params": ["a"]},
            'ha-mode="exactly" takes an integer, [<<"a">>] given',
        ),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": 2}, 'ha-mode="nodes" takes a list, 2 given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        (
            {"ha-mode": "nodes", "ha-params": ["a", 1]},
            'ha-mode="nodes" takes a list of strings, [1] was not a string',
        ),
        (
            {"ha-mode": "all", "ha-sync-mode": "often"},
            'ha-sync-mode must be "manual" or "automatic", got <<"often">>',
        ),
        (
            {"ha-mode": "all", "ha-sync-mode": True},
            'ha-sync-mode must be "manual" or "automatic", got true',
        ),
        (
            {"ha-mode": "all", "ha-sync-batch-size": "many"},
            'ha-sync-batch-size takes an integer greater than 0, <<"many">> given',
        ),
        (
            {"ha-mode": "all", "ha-sync-batch-size": 1.5},
            "ha-sync-batch-size takes an integer greater than 0, 1.5 given",
        ),
        (
            {"ha-mode": "some", "ha-params": 0, "ha-sync-mode": "often"},
            '<<"some">> is not a valid ha-mode value',
        ),
        ({"ha-params": 2}, WITHOUT_MODE),
        ({"ha-sync-mode": "manual"}, WITHOUT_MODE),
        ({"ha-sync-batch-size": 10}, WITHOUT_MODE),
        ({"ha-promote-on-shutdown": "always"}, WITHOUT_MODE),
        (
            {"ha-mode": "all", "ha-sync-batch-size": 0},
            "ha-sync-batch-size takes an integer greater than 0, 0 given",
        ),
        (
            {"ha-mode": "all", "ha-sync-nonblocking": "no"},
            'ha-sync-nonblocking must be true or false, got <<"no">>',
        ),
        (
            {"ha-mode": "all", "ha-promote-on-shutdown": 1},
            'ha-promote-on-shutdown must be "always" or "when-synced", got 1',
        ),
        (
            {"ha-mode": "all", "ha-promote-on-failure": "never"},
            'ha-promote-on-failure must be "always" or "when-synced", got <<"never">>',
        ),
        ({"ha-promote-on-failure": "always"}, WITHOUT_MODE),
    ],
)
def test_a_wrong_key_is_refused_with_the_text_of_rabbitmq(
    definition: dict[str, object], text: str
) -> None:
    assert mirror_fault(definition) == text


def test_good_keys_have_no_fault() -> None:
    assert mirror_fault({}) is None
    assert mirror_fault({"max-length": 1}) is None
    for params in ({"ha-mode": "all"}, {"ha-mode": "nodes", "ha-params": ["a"]}):
        assert mirror_fault({**params, "ha-sync-mode": "automatic"}) is None


def policy(**settings: object) -> MirrorPolicy:
    found = mirror_policy({key.replace("_", "-"): each for key, each in settings.items()}, True)
    assert found is not None
    return found


def test_defaults_are_those_of_rabbitmq_but_for_the_synchronisation() -> None:
    assert mirror_policy({"max-length": 1}, True) is None
    found = policy(ha_mode="all")
    assert found == MirrorPolicy("all", 0, (), True, 4096, True, False)
    found = policy(ha_mode="all", ha_sync_mode="manual", ha_promote_on_shutdown="always")
    assert (found.synchronises, found.always_on_shutdown) == (False, True)
    assert not policy(ha_mode="all", ha_sync_nonblocking=True).blocks
    assert policy(ha_mode="all", ha_sync_nonblocking=False).blocks


def test_all_nodes_are_mirrors() -> None:
    found = wanted_members(policy(ha_mode="all"), 2, [], [2], RUNNING)
    assert found == Wanted(2, (1, 3, 4))


def test_exactly_so_many_nodes_keep_the_mirrors_that_there_are() -> None:
    three = policy(ha_mode="exactly", ha_params=3)
    assert wanted_members(three, 2, [4], [2], RUNNING) == Wanted(2, (4, 1))
    assert wanted_members(three, 2, [4, 3, 1], [2], RUNNING) == Wanted(2, (4, 3))
    assert wanted_members(policy(ha_mode="exactly", ha_params=1), 2, [4], [2], RUNNING) == Wanted(
        2, ()
    )
    nine = policy(ha_mode="exactly", ha_params=9)
    assert wanted_members(nine, 2, [], [2], RUNNING) == Wanted(2, (1, 3, 4))


def test_a_leader_that_is_not_listed_stays_until_a_listed_mirror_is_synchronised() -> None:
    listed = policy(ha_mode="nodes", ha_params=["c", "d", "gone"])
    assert wanted_members(listed, 1, [2], [1, 2], RUNNING) == Wanted(1, (3, 4))
    assert wanted_members(listed, 1, [3, 4], [1, 4], RUNNING) == Wanted(4, (3,))
    assert wanted_members(listed, 3, [], [3], RUNNING) == Wanted(3, (4,))
    nowhere = policy(ha_mode="nodes", ha_params=["gone"])
    assert wanted_members(nowhere, 1, [2], [1, 2], RUNNING) == Wanted(1, ())

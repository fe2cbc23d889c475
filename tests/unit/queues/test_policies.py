"""Policies: which one holds for what, what it says beside arguments, and what is refused."""

import json
import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Policy, Uid
from queues.definitions.policies import APPLY_TO, NOTHING, PolicyTable, with_policy
from queues.definitions.policy_keys import KEYS, OPERATOR_KEYS, policy_fault
from queues.definitions.policy_kinds import has_effect
from queues.definitions.policy_warnings import policy_warnings
from queues.definitions.queue_arguments import RULES
from queues.definitions.retroactive import RETROACTIVE
from queues.definitions.without_effect import KEYS_WITHOUT_EFFECT


def policy(
    name: str,
    pattern: str = ".*",
    *,
    apply_to: str = "all",
    priority: int = 0,
    operator: bool = False,
    **definition: object,
) -> Policy:
    said = {key.replace("_", "-"): value for key, value in definition.items()}
    text = json.dumps(said).encode()
    return Policy(Uid(99), "/", name, operator, pattern, apply_to, priority, text)


def table(*policies: Policy) -> PolicyTable:
    made = PolicyTable()
    for each in policies:
        made.put(each)
    return made


def fault(definition: object, operator: bool = False) -> str | None:
    return policy_fault(".*", "all", 0, definition, operator)


def test_the_highest_priority_wins_then_the_first_name() -> None:
    rules = table(
        policy("c", max_length=3),
        policy("b", priority=5, max_length=2),
        policy("a", priority=5, max_length=1),
        policy("z", "^no$", priority=9, max_length=9),
    )
    assert rules.effective("classic", "q").policy_name == "a"
    assert rules.effective("classic", "no").policy_name == "z"
    assert table(policy("x", "^y$", max_length=1)).effective("classic", "q") == NOTHING


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
        ("exchanges", {"exchange"}),
    ],
)
def test_a_policy_holds_for_what_it_applies_to(apply_to: str, kinds: set[str]) -> None:
    rules = table(policy("p", apply_to=apply_to, expires=9))
    found = {
        kind
        for kind in ("classic", "quorum", "stream", "exchange")
        if rules.effective(kind, "q").policy is not None
    }
    assert found == kinds


def test_an_expression_is_found_anywhere_in_the_name() -> None:
    rules = table(policy("p", "b+", expires=9))
    assert rules.effective("classic", "abc").policy_name == "p"
    assert rules.effective("classic", "ac").policy_name is None


def test_a_policy_that_is_put_again_or_removed_no_longer_holds() -> None:
    rules = table(policy("p", expires=9), policy("p", "^x", expires=8))
    assert rules.effective("classic", "q") == NOTHING
    rules.remove(policy("p"))
    assert rules.is_empty() and rules.effective("classic", "x") == NOTHING


def test_the_operator_sets_limits_to_what_users_say() -> None:
    said = {
        "message_ttl": 10,
        "max_length": 10,
        "overflow": "drop-head",
        "dead_letter_exchange": "x",
    }
    limits = {"message_ttl": 20, "max_length": 5, "overflow": "reject-publish", "expires": 7}
    rules = table(policy("p", **said), policy("o", operator=True, **limits))  # type: ignore[arg-type]
    found = rules.effective("classic", "q")
    assert (found.policy_name, found.operator_name) == ("p", "o")
    assert found.definition == {
        "message-ttl": 10,
        "max-length": 5,
        "overflow": "reject-publish",
        "dead-letter-exchange": "x",
        "expires": 7,
    }


@pytest.mark.parametrize("value", [-1, "60000", True, 1 << 40])
def test_a_policy_may_say_how_long_consumers_of_lost_nodes_keep_messages(value: object) -> None:
    key = "consumer-disconnected-timeout"
    assert fault({key: 0}) is fault({key: 315_360_000_000}) is None
    assert "is not a valid consumer disconnected timeout" in str(fault({key: value}))
    assert with_policy({f"x-{key}": 5_000}, {key: 2_000})[f"x-{key}"] == 2_000
    assert with_policy({f"x-{key}": 1_000}, {key: 2_000})[f"x-{key}"] == 1_000


@pytest.mark.parametrize(
    ("user", "operator", "holds"), [(5, 3, 3), (3, 5, 3), (-1, 5, 5), (5, -1, 5), (-1, -1, -1)]
)
def test_an_unlimited_delivery_count_gives_way_to_a_limited_one(
    user: int, operator: int, holds: int
) -> None:
    rules = table(
        policy("p", delivery_limit=user), policy("o", operator=True, delivery_limit=operator)
    )
    assert rules.effective("quorum", "q").definition == {"delivery-limit": holds}
    assert with_policy({"x-delivery-limit": user}, {"delivery-limit": operator}) == {
        "x-delivery-limit": holds
    }


def test_of_numbers_the_smaller_holds_and_of_the_rest_the_argument() -> None:
    arguments: dict[str, object] = {
        "x-max-length": 5,
        "x-message-ttl": 100,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "mine",
        "x-queue-mode": "lazy",
    }
    said = {
        "max-length": 9,
        "message-ttl": 50,
        "overflow": "drop-head",
        "dead-letter-exchange": "theirs",
        "dead-letter-routing-key": "k",
        "queue-mode": "default",
        "expires": 1,
    }
    assert with_policy(arguments, said) == {
        **arguments,
        "x-message-ttl": 50,
        "x-dead-letter-routing-key": "k",
        "x-expires": 1,
    }
    assert arguments["x-message-ttl"] == 100
    assert with_policy({}, {"alternate-exchange": "a"}) == {"alternate-exchange": "a"}


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        ({"nonsense": 1}, '[{<<"nonsense">>,1}] are not recognised policy settings'),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "1"}, '<<"1">> is not a valid message TTL'),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
        ({"max-length-bytes": 1 << 63}, f"{1 << 63} is not a valid maximum length in bytes"),
        ({"overflow": "explode"}, '<<"explode">> is not a valid overflow value'),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        ({"alternate-exchange": None}, "undefined is not a valid alternate exchange name"),
        (
            {"ha-mode": "all", "queue-version": 2},
            '[{<<"queue-version">>,2}] are not recognised policy settings; '
            "'queue-version' has no effect: this version has no versions of classic queue storage",
        ),
        ([], "definition should be a map, actually was []"),
    ],
)
def test_what_a_policy_cannot_say_is_refused_in_a_sentence(definition: object, text: str) -> None:
    assert fault(definition) == f"Validation failed\n\n{text}\n"


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"max-age": "1x"}, '<<"1x">> is not a valid max age'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        (
            {"ha-sync-mode": "manual"},
            "ha-mode must be specified to specify ha-params, ha-sync-mode or"
            " ha-promote-on-shutdown",
        ),
        ({"nonsense": 1}, '[{<<"nonsense">>,1}] are not recognised policy settings'),
    ],
)
def test_an_imported_policy_is_checked_too(definition: object, text: str) -> None:
    found = policy_fault(".*", "all", 0, definition, False, imported=True)
    assert found == f"Validation failed\n\n{text}\n"


UPSTREAM_KEYS = ("federation-upstream", "federation-upstream-set", "federation-upstream-pattern")


@pytest.mark.parametrize(("one", "other"), list(combinations(UPSTREAM_KEYS, 2)))
def test_policy_names_its_upstreams_in_one_way(one: str, other: str) -> None:
    assert fault({one: "u"}) is None
    assert fault({other: "u"}) is None
    text = f"cannot specify both {one} and {other} together"
    assert fault({one: "u", other: "u"}) == f"Validation failed\n\n{text}\n"


@pytest.mark.parametrize("key", sorted(KEYS_WITHOUT_EFFECT))
def test_a_key_without_effect_is_kept_at_import_and_shown_as_a_warning(key: str) -> None:
    definition: dict[str, object] = {key: 2}
    assert fault(definition) is not None
    assert policy_fault("(", "all", 0, definition, False, imported=True) is None
    rules = table(policy("p", max_length=5, **definition))  # type: ignore[arg-type]
    found = rules.effective("classic", "q")
    assert found.definition == {"max-length": 5}
    assert any(f"'{key}' has no effect" in each for each in found.warnings)
    (stored,) = rules
    assert len(policy_warnings(stored)) == len(definition)


@pytest.mark.parametrize(
    ("kind", "definition", "ignored"),
    [
        ("classic", {"max-length": 5}, ("delivery-limit", "max-age", "target-group-size")),
        ("quorum", {"expires": 5, "delivery-limit": 3}, ("max-age", "ha-mode", "queue-mode")),
        ("stream", {"max-length-bytes": 5}, ("dead-letter-exchange", "ha-mode", "message-ttl")),
        ("exchange", {"alternate-exchange": "x"}, ("max-length", "expires")),
        ("classic", {"federation-upstream": "u"}, ("alternate-exchange", RETROACTIVE)),
    ],
)
@pytest.mark.parametrize("operator", [False, True])
def test_keys_that_a_kind_does_not_know_do_not_hold_for_it_and_are_named(
    kind: str, definition: dict[str, object], ignored: tuple[str, ...], operator: bool
) -> None:
    rules = table(policy("p", operator=operator, **definition, **dict.fromkeys(ignored, 1)))  # type: ignore[arg-type]
    found = rules.effective(kind, "q")
    assert found.definition == definition
    things = "exchanges" if kind == "exchange" else f"{kind} queues"
    assert found.warnings == tuple(f"'{key}' has no effect on {things}" for key in ignored)


def test_a_limit_of_the_operator_is_not_merged_with_what_does_not_hold() -> None:
    rules = table(policy("p", max_age="1h"), policy("o", operator=True, delivery_limit=4))
    found = rules.effective("classic", "q")
    assert (found.policy_name, found.operator_name, found.definition) == ("p", "o", {})
    assert len(found.warnings) == 2


@pytest.mark.parametrize(
    ("apply_to", "warned"),
    [("streams", True), ("exchanges", True), ("classic_queues", False), ("queues", False)],
)
def test_a_policy_is_warned_of_if_none_of_its_kinds_knows_a_key(
    apply_to: str, warned: bool
) -> None:
    stored = policy("p", apply_to=apply_to, message_ttl=5)
    assert [("'message-ttl' has no effect on" in each) for each in policy_warnings(stored)] == (
        [True] if warned else []
    )


def test_every_key_is_known_to_the_kinds_that_have_its_argument() -> None:
    for rule in RULES:
        key = rule.name.removeprefix("x-")
        if key in KEYS and key not in KEYS_WITHOUT_EFFECT:
            assert all(has_effect(key, (kind,)) for kind in rule.types), key


def test_a_stored_pattern_that_cannot_be_compiled_is_a_warning() -> None:
    (warning,) = policy_warnings(policy("p", r"(a)\1", max_length=1))
    assert warning.startswith("policy 'p' in vhost '/' matches nothing: pattern '(a)\\1': ")


def test_operators_may_only_set_limits() -> None:
    assert fault({"max-length": 1}, operator=True) is None
    refused = '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'
    assert (
        fault({"dead-letter-exchange": "x"}, operator=True) == f"Validation failed\n\n{refused}\n"
    )
    assert KEYS.keys() >= OPERATOR_KEYS


@pytest.mark.parametrize(
    ("field", "value", "beginning"),
    [
        ("pattern", "(", "pattern should be regular expression but is invalid: "),
        ("pattern", 5, "pattern should be a binary but was 5"),
        ("priority", "high", 'priority should be a number, actually was <<"high">>'),
        ("priority", 1 << 31, "priority should be a number"),
        ("apply_to", "everything", "apply-to 'everything' unrecognised; should be one of: "),
    ],
)
def test_the_other_fields_are_looked_at_too(field: str, value: object, beginning: str) -> None:
    given: dict[str, object] = {"pattern": ".*", "apply_to": "all", "priority": 0, field: value}
    text = policy_fault(
        given["pattern"], given["apply_to"], given["priority"], {"expires": 1}, False
    )
    assert text is not None
    assert text.startswith(f"Validation failed\n\n{beginning}")


@pytest.mark.parametrize("pattern", ["(", "(a+)+$", r"(a)\1"])
def test_a_stored_pattern_that_is_bad_matches_nothing_and_takes_no_time(pattern: str) -> None:
    rules = table(policy("p", pattern, max_length=1))
    start = time.thread_time()
    assert rules.effective("classic", "a" * 254 + "!").policy is None
    assert time.thread_time() - start < 1.0


@settings(max_examples=100, deadline=None, database=None)
@given(st.sampled_from(sorted(KEYS)), st.none() | st.booleans() | st.integers() | st.text())
def test_what_is_found_good_can_be_merged_into_arguments(key: str, value: object) -> None:
    if fault({key: value}) is None:
        with_policy({"x-max-length": 4, "x-delivery-limit": 2}, {key: value})
        rules = table(policy("p", **{key: value}))  # type: ignore[arg-type]
        found = [rules.effective(kind, "q") for kind in APPLY_TO["all"]]
        assert {key: value} in [each.definition for each in found]

"""Which upstreams a policy means, and what the link to one of them is like."""

from collections.abc import Mapping

import pytest

from federation.upstreams import EXCHANGE, QUEUE, link_config, meant
from queues.definitions.arguments import encode_arguments

UPSTREAMS: Mapping[str, Mapping[str, object]] = {
    "paris": {"uri": "amqp://paris", "prefetch-count": 10},
    "lyon": {"uri": "amqp://lyon"},
}


@pytest.mark.parametrize(
    ("definition", "sets", "names"),
    [
        ({"federation-upstream": "paris"}, {}, ["paris"]),
        ({"federation-upstream": "nice"}, {}, []),
        ({"federation-upstream-set": "all"}, {}, ["paris", "lyon"]),
        ({"federation-upstream-set": "all"}, {"all": [{"upstream": "lyon"}]}, ["lyon"]),
        ({"federation-upstream-set": "s"}, {}, []),
        ({"federation-upstream-set": "s"}, {"s": [{"upstream": "lyon"}]}, ["lyon"]),
        ({"federation-upstream-pattern": "^p|n$"}, {}, ["paris", "lyon"]),
        ({"federation-upstream-pattern": "^x"}, {}, []),
        ({"max-length": 1}, {}, []),
    ],
)
def test_policy_means_the_upstreams_that_exist(
    definition: dict[str, object], sets: dict[str, object], names: list[str]
) -> None:
    assert [each["upstream"] for each in meant(definition, UPSTREAMS, sets)] == names


@pytest.mark.parametrize(
    "sets",
    [
        {"s": [{"upstream": "s"}]},
        {"s": [{"upstream": "t"}], "t": [{"upstream": "s"}]},
        {"s": "paris"},
        {"s": [None, {"upstream": ["paris"]}]},
    ],
)
def test_set_that_names_itself_or_no_upstream_means_nothing(sets: dict[str, object]) -> None:
    """Members of a set are upstreams, never sets, so that sets form no circle."""
    assert meant({"federation-upstream-set": "s"}, UPSTREAMS, sets) == []


def test_member_of_a_set_overrides_its_upstream() -> None:
    sets = {"s": [{"upstream": "paris", "prefetch-count": 3, "max-hops": 2, "queue": "other"}]}
    (value,) = meant({"federation-upstream-set": "s"}, UPSTREAMS, sets)
    link = link_config(QUEUE, "/", "q", value, "", True, False, encode_arguments({}))
    assert (link.uris, link.prefetch, link.max_hops) == (("amqp://paris",), 3, 2)
    assert (link.remote_queue, link.consumer_tag) == ("other", "federation-link-paris")


def test_link_without_parameters_has_the_defaults_of_rabbitmq() -> None:
    value = {"uri": "amqp://lyon", "upstream": "lyon"}
    link = link_config(EXCHANGE, "/", "x", value, "topic", True, False, encode_arguments({}))
    assert (link.prefetch, link.reconnect_s, link.max_hops) == (1000, 5.0, 1)
    assert (link.ack_mode, link.trust_user_id, link.cleans_up) == ("on-confirm", False, True)
    assert (link.queue_type, link.expires, link.message_ttl) == ("classic", None, None)
    assert link.remote_exchange == "x"

"""URIs of the other side: what they say, and that their passwords stay secret."""

import pytest

from federation.shovel_parameters import shovel_faults, stored_shovel_faults
from federation.upstreams import stored_upstream_faults, upstream_faults
from federation.uris import (
    BadUri,
    SecretBox,
    check_options,
    obscured,
    parse_uri,
    without_credentials,
)
from node.federating.stored_uris import opened, sealed, shown

NONCE = bytes(range(16))
URI = "amqp://user:p%40ss@host:5673/v%2Fw?heartbeat=5"


def test_a_uri_names_host_user_vhost_and_options() -> None:
    uri = parse_uri(URI)
    assert (uri.host, uri.port, uri.user, uri.password) == ("host", 5673, "user", "p@ss")
    assert (uri.vhost, uri.query) == ("v/w", {"heartbeat": "5"})
    assert uri.dialled("/") == "amqp://user:p%40ss@host:5673/v%2Fw"
    assert "p@ss" not in repr(uri)


@pytest.mark.parametrize(
    ("text", "vhost", "is_local"),
    [
        ("amqp://", None, True),
        ("amqp:///v", "v", True),
        ("amqp://u:p@/v", "v", True),
        ("amqp://host", None, False),
        ("amqps://host/", "/", False),
    ],
)
def test_a_uri_without_host_is_the_broker_itself(
    text: str, vhost: str | None, is_local: bool
) -> None:
    uri = parse_uri(text)
    assert (uri.vhost, uri.is_local) == (vhost, is_local)


@pytest.mark.parametrize(
    "text", ["http://h", "h", "amqp://h:x", "amqp://h?heartbeat=a", "amqp://[h"]
)
def test_what_is_no_uri_is_refused(text: str) -> None:
    with pytest.raises(BadUri):
        parse_uri(text)


def test_a_sealed_uri_opens_under_its_key_alone() -> None:
    box = SecretBox(b"one")
    text = box.seal(URI, NONCE)
    assert "user" not in text
    assert box.open(text) == URI
    assert box.open(URI) == URI
    for other in (SecretBox(b"two").open, lambda each: box.open(each[:-5] + "AAAA=")):
        with pytest.raises(BadUri):
            other(text)


def test_uris_are_shown_without_passwords() -> None:
    assert obscured(URI) == "amqp://user:***@host:5673/v%2Fw?heartbeat=5"
    assert without_credentials(URI) == "amqp://host:5673/v%2Fw"
    assert obscured("amqp://u:p@[x") == "a URI that cannot be read"


def test_a_value_that_was_shown_is_stored_as_it_was() -> None:
    box = SecretBox(b"one")
    value = {"src-uri": [URI, "amqp://"], "src-queue": "q", "n": 1}
    stored = sealed(value, box)
    assert isinstance(stored, dict)
    assert stored["src-uri"][0].startswith("encrypted:")
    assert opened(stored, box) == value
    assert sealed(shown(stored, box), box, stored) == stored
    assert sealed(value, box, stored) == stored
    assert sealed(stored, box) == stored


@pytest.mark.parametrize(
    ("query", "mechanisms"),
    [
        ("", ()),
        ("?auth_mechanism=plain", ("PLAIN",)),
        ("?auth_mechanism=PLAIN", ("PLAIN",)),
        ("?auth_mechanism=external&auth_mechanism=amqplain", ("EXTERNAL", "AMQPLAIN")),
        ("?auth_mechanism=amqp_auth_mechanisms:plain", ("PLAIN",)),
    ],
)
def test_mechanisms_of_a_uri_are_tried_in_their_order(
    query: str, mechanisms: tuple[str, ...]
) -> None:
    assert parse_uri(f"amqp://host{query}").mechanisms == mechanisms


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("auth_mechanism=nonsense", '{unknown_mechanism,"nonsense"}: allowed: plain, amqplain'),
        ("server_name_indication=.x", '{invalid_ssl_parameter,server_name_indication,".x"}'),
        ("server_name_indication=a%20b", '{invalid_ssl_parameter,server_name_indication,"a b"}'),
    ],
)
def test_option_without_sense_is_refused_when_it_is_set_and_kept_when_it_is_stored(
    option: str, text: str
) -> None:
    value = {"uri": ["amqp://host", f"amqp://host?{option}"]}
    (fault,) = upstream_faults("up", value)
    assert text in fault
    assert stored_upstream_faults("up", value) == []
    shovel = {"src-uri": f"amqp://host?{option}", "src-queue": "q", "dest-uri": "amqp://"}
    (fault,) = shovel_faults("shovel", shovel)
    assert text in fault
    assert stored_shovel_faults("shovel", shovel) == []
    with pytest.raises(BadUri):
        check_options(parse_uri(f"amqp://host?{option}"))

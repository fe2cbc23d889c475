"""Events of logins: which facts of the connection they carry."""

from node.auth.login_events import FAILURE, SUCCESS, login_teller
from node.auth.source import Source
from node.events.events import Events
from node.tls.certificate import TlsPeer

PLAIN = Source("10.0.0.9", "amqp091", "", 50_000, "10.0.0.1", 5672, "PLAIN")
TLS = Source(
    "10.0.0.9", "amqp10", "", 50_000, "10.0.0.1", 5671, "EXTERNAL",
    TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead", "anna", "CN=anna", "CN=ca", "2026"),
)  # fmt: skip


def told(source: Source, why_not: str) -> list[tuple[str, dict[str, object]]]:
    events = Events("n1", lambda: 5)
    found: list[tuple[str, dict[str, object]]] = []
    events.subscribe(lambda event: found.append((event.name, event.properties)))
    login_teller(events)(source, "anna", why_not)
    return found


def test_a_success_carries_host_port_and_mechanism() -> None:
    assert told(PLAIN, "") == [
        (
            SUCCESS,
            {
                "name": "anna",
                "protocol": "amqp091",
                "peer_host": "10.0.0.9",
                "peer_port": 50_000,
                "host": "10.0.0.1",
                "port": 5672,
                "auth_mechanism": "PLAIN",
                "ssl": False,
            },
        )
    ]


def test_a_failure_over_tls_carries_its_facts_and_the_reason() -> None:
    ((name, properties),) = told(TLS, "no such user")
    assert (name, properties["error"]) == (FAILURE, "no such user")
    assert (properties["port"], properties["auth_mechanism"]) == (5671, "EXTERNAL")
    assert (properties["ssl"], properties["ssl_protocol"]) == (True, "tlsv1.3")
    assert properties["peer_cert_subject"] == "CN=anna"


def test_a_login_over_http_is_told_only_when_it_fails() -> None:
    source = Source("10.0.0.9", "http")
    assert told(source, "") == []
    ((_, properties),) = told(source, "bad password")
    assert properties == {
        "name": "anna",
        "protocol": "http",
        "peer_host": "10.0.0.9",
        "ssl": False,
        "error": "bad password",
    }

"""A rabbitmq.conf becomes a configuration that a node starts with; nothing is left out silently."""

from io import StringIO
from pathlib import Path

import pytest

from node.__main__ import make_parser
from node.cli.convert_config import main
from node.config.rabbitmq_conf import RULES, BadLine, convert, toml_of
from node.config.settings import KEYS, load

REALISTIC = """
# A file as many teams have it.
listeners.tcp.default = 5672
listeners.ssl.default = 5671
ssl_options.cacertfile = /etc/tls/ca.pem
ssl_options.certfile = /etc/tls/cert.pem
ssl_options.keyfile = /etc/tls/key.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
ssl_options.versions.2 = tlsv1.2
heartbeat = 30
channel_max = 0
max_message_size = 67108864
vm_memory_high_watermark.relative = 0.7
disk_free_limit.absolute = 2GB
default_user = ops
default_pass = 'a # b'
default_user_tags.administrator = true
default_permissions.configure = .*
loopback_users.guest = false
management.tcp.port = 15672
management.tcp.ip = 10.0.0.1   # of this machine
log.console.level = warning
log.console.formatter = json
cluster_name = shop
cluster_partition_handling = pause_minority
collect_statistics_interval = 10000
consumer_disconnected_timeout = 30000
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
quorum_queue.continuous_membership_reconciliation.target_group_size = 3
tcp_listen_options.backlog = 4096
"""


def test_logins_by_token_are_carried_over() -> None:
    converted = convert(
        """
auth_backends.1 = rabbit_auth_backend_oauth2
auth_backends.2 = internal
auth_oauth2.resource_server_id = shop
auth_oauth2.jwks_uri = https://id.example/keys
auth_oauth2.preferred_username_claims.1 = email
auth_oauth2.additional_scopes_key = roles extra
auth_oauth2.verify_aud = false
"""
    )
    assert converted.notes == []
    assert converted.settings == {
        "oauth.resource_server_id": "shop",
        "oauth.jwks_uri": "https://id.example/keys",
        "oauth.user_claims": ["email", "sub", "client_id"],
        "oauth.scope_claims": ["scope", "roles", "extra"],
        "oauth.verify_audience": False,
    }


def test_services_that_know_users_are_carried_over(tmp_path: Path) -> None:
    converted = convert(
        """
auth_backends.1 = internal
auth_backends.2 = cache
auth_cache.cached_backend = http
auth_cache.cache_ttl = 30000
auth_backends.3.authn = ldap
auth_backends.3.authz = internal
auth_http.http_method = post
auth_http.user_path = http://auth.example/user
auth_http.vhost_path = http://auth.example/vhost
auth_http.resource_path = http://auth.example/resource
auth_http.topic_path = http://auth.example/topic
auth_ldap.servers.1 = ldap1.example
auth_ldap.servers.2 = ldap2.example
auth_ldap.user_dn_pattern = cn=${username},dc=example
"""
    )
    assert converted.notes == []
    path = tmp_path / "warren.toml"
    path.write_text(toml_of(converted))
    config = load(path)
    assert config.auth_backends == ("internal", "http:http", "ldap:internal")
    assert config.auth_http.topic_path == "http://auth.example/topic"
    assert config.auth_ldap.servers == ("ldap1.example", "ldap2.example")
    assert config.auth_cache.cache_ttl == 30_000


def test_a_realistic_file_is_carried_over(tmp_path: Path) -> None:
    converted = convert(REALISTIC)
    assert [note.text for note in converted.notes if note.is_lost] == []
    path = tmp_path / "warren.toml"
    path.write_text(toml_of(converted))
    config = load(path)
    assert str(config.listeners.amqp) == "0.0.0.0:5672"
    assert str(config.listeners.amqps) == "0.0.0.0:5671"
    assert str(config.listeners.management) == "10.0.0.1:15672"
    assert config.tls.verify == "verify_peer" and config.tls.fail_if_no_peer_cert
    assert config.tls.versions == ("tlsv1.3", "tlsv1.2")
    assert (config.limits.heartbeat_s, config.limits.channel_max) == (30, 65_535)
    assert config.limits.max_message_size == 64 * 1024 * 1024
    assert config.vm_memory_high_watermark.relative == 0.7
    assert config.disk_free_limit.absolute == 2_000_000_000
    assert (config.default_user, config.default_pass) == ("ops", "a # b")
    assert config.loopback_users == ()
    assert (config.log.level, config.log.format) == ("warning", "json")
    assert config.cluster.name == "shop"
    assert config.consumer_disconnected_timeout == 30_000
    assert config.auth.mechanisms == ("PLAIN", "AMQPLAIN")
    assert config.management.rates_interval_ms == 10_000
    assert config.quorum_queue.continuous_membership_reconciliation.target_group_size == 3


def test_partition_strategies_are_carried_over(tmp_path: Path) -> None:
    converted = convert(
        """
cluster_partition_handling = pause_if_all_down
cluster_partition_handling.pause_if_all_down.recover = autoheal
cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit@one
cluster_partition_handling.pause_if_all_down.nodes.2 = rabbit@two
"""
    )
    assert converted.notes == []
    path = tmp_path / "warren.toml"
    path.write_text(toml_of(converted))
    cluster = load(path).cluster
    assert cluster.partition_handling == "pause_if_all_down"
    assert cluster.pause_if_all_down.nodes == ("rabbit@one", "rabbit@two")
    assert cluster.pause_if_all_down.recover == "autoheal"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("mqtt.listeners.tcp.default = 1883", "Warren has no MQTT"),
        ("auth_backends.1 = ldap", "Warren has no back end 'ldap' for logins"),
        ("auth_backends.1.authn = internal", "no back end 'internal:' for logins"),
        ("auth_http.connection_timeout = 5", "no such setting of its HTTP back end"),
        ("auth_ldap.vhost_access_query = {constant, true}", "no such setting of LDAP"),
        ("auth_oauth2.oauth_providers.a.issuer = b", "Warren has no such setting of OAuth 2"),
        ("cluster_partition_handling = heal", "'heal' is not one of pause_minority, pause_if_"),
        ("default_permissions.write = ^a", "the default user has all permissions"),
        ("disk_free_limit.relative = 1.5", "set disk_free_limit.absolute"),
        ("cluster_formation.classic_config.nodes.1 = rabbit@a", "cluster.seeds with a:25672"),
        ("frame_max = 0", "0 (no limit) is not allowed here"),
        ("heartbeat = soon", "'soon' is not a whole number"),
        ("log.file = rabbit.log", "log.file of Warren is a whole path"),
        ("auth_mechanisms.1 = RABBIT-CR-DEMO", "is not one of PLAIN"),
        ("ssl_options.versions.1 = tlsv1.1", "is not one of tlsv1.2"),
        ("unheard.of = 5", "Warren has no setting for 'unheard.of'"),
        ("vm_memory_high_watermark.absolute = much", "'much' is not a number of bytes"),
        ("ssl_options.fail_if_no_peer_cert = perhaps", "neither true nor false"),
    ],
)
def test_what_is_not_carried_over_is_named_with_its_reason(line: str, reason: str) -> None:
    converted = convert(f"\n{line}\n")
    [note] = converted.notes
    assert (note.line, note.text, note.is_lost) == (2, line, True)
    assert reason in note.reason
    assert converted.settings == {}
    assert f"# {line}" in toml_of(converted)


def test_what_warren_does_by_itself_is_not_a_loss() -> None:
    [note] = convert("tcp_listen_options.nodelay = true").notes
    assert not note.is_lost


def test_a_second_listener_is_not_dropped_silently() -> None:
    converted = convert("listeners.tcp.a = 127.0.0.1:5672\nlisteners.tcp.b = [::1]:5673")
    assert converted.settings == {"listeners.amqp": "127.0.0.1:5672"}
    [note] = converted.notes
    assert note.line == 2 and "one address for tcp" in note.reason


def test_listeners_of_the_stream_protocol_are_carried_over() -> None:
    converted = convert("stream.listeners.tcp.1 = 5552\nstream.listeners.ssl.1 = [::1]:5551")
    places = {"listeners.stream": "0.0.0.0:5552", "listeners.stream_tls": "[::1]:5551"}
    assert converted.settings == places
    assert convert("stream.listeners.tcp = none").settings == {}


@pytest.mark.parametrize("kind", ["quorum", "rabbit_quorum_queue"])
def test_settings_of_queue_types_are_carried_over(kind: str) -> None:
    relaxed = "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration"
    converted = convert(f"default_queue_type = {kind}\n{relaxed} = true\n")
    assert converted.notes == []
    assert converted.settings == {"default_queue_type": "quorum", relaxed: True}


def test_message_interceptors_are_carried_over() -> None:
    keys = {
        "message_interceptors.incoming.set_header_timestamp.overwrite": False,
        "message_interceptors.incoming.set_header_routing_node.overwrite": True,
        "message_interceptors.outgoing.timestamp.enabled": True,
    }
    lines = [f"{key} = {str(value).lower()}" for key, value in keys.items()]
    converted = convert("\n".join(lines))
    assert converted.notes == [] and converted.settings == keys


def test_listeners_without_tls_can_be_off() -> None:
    assert convert("listeners.tcp = none").settings == {"listeners.plain": False}


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("loopback_users = none", []),
        ("loopback_users.guest = true", ["guest"]),
        ("loopback_users.guest = false\nloopback_users.ops = true", ["ops"]),
    ],
)
def test_users_of_loopback(text: str, users: list[str]) -> None:
    assert convert(text).settings["loopback_users"] == users


def test_all_keys_that_are_written_exist() -> None:
    assert {name for name, _ in RULES.values()} <= set(KEYS)


def test_a_line_that_is_no_setting_is_refused() -> None:
    with pytest.raises(BadLine, match="line 2: '\\[rabbit,' is not KEY = VALUE"):
        convert("# the old format\n[rabbit,")


def run(path: Path) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    status = main(make_parser().parse_args(["convert-config", str(path)]), out, err)
    return status, out.getvalue(), err.getvalue()


def test_the_command_writes_the_result_and_names_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("heartbeat = 30\nstomp.default_user = guest\n")
    status, out, err = run(path)
    assert status == 1
    assert out.startswith("[limits]\nheartbeat_s = 30\n")
    assert f"{path}:2: not carried over: stomp.default_user = guest: Warren has no STOMP" in err
    path.write_text("heartbeat = 30\n")
    assert run(path) == (0, "[limits]\nheartbeat_s = 30\n", "")


def test_the_command_says_what_a_node_would_refuse(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("listeners.ssl.default = 5671\n")
    status, _, err = run(path)
    assert status == 1 and "the result needs a change before a node starts with it" in err


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert run(tmp_path / "none")[0] == 66
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert run(tmp_path / "binary")[0] == 65
    (tmp_path / "old").write_text("[{rabbit, []}].")
    assert run(tmp_path / "old")[0] == 65

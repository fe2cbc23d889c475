"""Configuration: what is refused and with which words, who wins, and what the defaults are."""

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import fields

from node.cluster.cluster_node import member_of
from node.cluster.peering.link_settings import link_settings
from node.config.config_layers import parse_address, parse_byte_count
from node.config.config_view import HIDDEN, shown
from node.config.settings import KEYS, Address, Config, ConfigError, load
from node.tls.tls_listeners import MANAGEMENT_TLS, settings_of, tls_listeners


def refusal(
    text: str = "",
    sets: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    *,
    directory: Path | None = None,
) -> str:
    """The words with which this configuration is refused."""
    file = None
    if directory is not None:
        file = directory / "warren.toml"
        file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(file, {}, sets, environment)
    return str(raised.value)


def from_file(directory: Path, text: str, *sets: str, **environment: str) -> Config:
    file = directory / "warren.toml"
    file.write_text(text)
    return load(file, {}, sets, environment)


def test_an_unknown_key_in_the_file_is_refused_with_the_nearest_known(tmp_path: Path) -> None:
    text = refusal("[limits]\nchanel_max = 5\n", directory=tmp_path)
    assert text.startswith("unknown key limits.chanel_max (")
    assert "warren.toml): allowed: limits.channel_max" in text


def test_an_unknown_key_is_answered_with_its_section_or_with_the_sections() -> None:
    text = refusal(sets=("limits.nothing_like_it=1",))
    assert "limits.channel_max" in text and "amqp10" not in text
    text = refusal(sets=("nothing.like_it=1",))
    assert "allowed: addresses.*, amqp10.*, " in text and "limits.channel_max" not in text


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    assert "unknown key limit " in refusal("[limit]\nchannel_max = 5\n", directory=tmp_path)


def test_a_value_where_a_table_belongs_is_refused(tmp_path: Path) -> None:
    assert "limits = 5" in refusal("limits = 5\n", directory=tmp_path)


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    assert "is not TOML" in refusal("[limits\n", directory=tmp_path)
    (tmp_path / "latin").write_bytes(b"compat = '\xff'")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(tmp_path / "latin")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*No such file"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("limits.channel_max=70000", ["limits.channel_max = '70000' (--set)", "<= 65535"]),
        ("limits.channel_max=many", ["'many'", "a whole number >= 1 <= 65535"]),
        ("limits.channel_max=", ["limits.channel_max = ''"]),
        ("limits.channel_max=true", ["a whole number"]),
        ("limits.heartbeat_s=1.5", ["a whole number <= 65535"]),
        ("limits.frame_max=4095", [">= 8192"]),
        ("limits.max_message_size=513MiB", ["<= 536870912"]),
        ("limits.max_message_size=16XB", ["'16XB' is not a number of bytes", "1MiB"]),
        ("limits.max_message_size=-1", ["'-1' is not a number of bytes"]),
        ("log.format=xml", ["log.format = 'xml'", "'text', 'json'"]),
        ("compat=2.x", ["'3.x'"]),
        ("node.name=a b", ["node.name = 'a b'"]),
        ("node.data_dir=", ["a path"]),
        ("listeners.amqp=5672", ["'5672' is not HOST:PORT", "allowed: HOST:PORT"]),
        ("listeners.amqp=localhost:65536", ["HOST:PORT"]),
        ("cluster.seeds=a:1,b", ["'b' is not HOST:PORT", "a list of HOST:PORT"]),
        ("credit_flow_default_credit=[400]", ["a list of 2: a whole number"]),
        ("credit_flow_default_credit=400,401", ["the second from 1 to the first"]),
        ("msg_store_credit_disc_bound=4,0", ["msg_store_credit_disc_bound = [4, 0]"]),
        ("vm_memory_high_watermark.relative=60", ["<= 1.0"]),
        ("limits.connection_inflight_bytes=65536", ["at least limits.frame_max (131072)"]),
        ("cluster.silence_ms=150", ["at least twice cluster.beat_interval_ms (100)"]),
        ("vhosts=[]", ["vhosts: allowed: one or more names"]),
        ("vhosts=/,/", ["each of them once"]),
        ("management.metrics_need_login=1", ["true or false"]),
        ("no.such=1", ["unknown key no.such (--set)"]),
        ("limits=1", ["unknown key limits (--set)"]),
        ("limits.channel_max", ["allowed: KEY=VALUE"]),
        ("warnings=a", ["unknown key warnings"]),
    ],
)
def test_a_bad_setting_is_refused_with_key_value_and_what_is_allowed(
    setting: str, words: list[str]
) -> None:
    text = refusal(sets=(setting,))
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ("[{}]", "required field `name`"),
        ("[{name=''}]", "length >= 1"),
        ("[{name='a'}]", "one of password and password_hash"),
        ("[{name='a', password=''}]", "the password is empty"),
        ("[{name='a', password='x', password_hash='y'}]", "one of password and password_hash"),
        ("[{name='a', password_hash='!'}]", "password_hash: not base64"),
        ("[{name='a', password_hash='AAAA'}]", "3 bytes where"),
        ("[{name='a', password_hash='AAAA', hashing='argon2id'}]", "not of the form $argon2id$"),
        ("[{name='a', password_hash='AAAA', hashing='md5'}]", "users (--set)"),
        ("[{name='a', password='s3cret', tags=['king']}]", "users (--set)"),
        ("[{name='a', password='s3cret', colour='red'}]", "unknown key colour"),
        ("[{name='a', password='s3cret', permissions=[{wrote=''}]}]", "unknown key wrote"),
        ("[{name='a', password='s3cret', permissions=[{vhost='x'}]}]", "vhost 'x': allowed: /"),
        ("[{name='a', password='s3cret', permissions=[{write='('}]}]", "write: '(' is not a reg"),
        ("[{name='a', password='s'}, {name='a', password='s'}]", "'a' is there twice"),
        ("5", "a list of tables with name"),
    ],
)
def test_bad_users_are_refused_and_their_passwords_are_not_shown(users: str, words: str) -> None:
    text = refusal(sets=(f"users={users}",))
    assert words in text
    assert "s3cret" not in text


def test_seeds_without_a_secret_are_refused() -> None:
    assert "cluster.secret_file is not" in refusal(sets=("cluster.seeds=a:1",))
    assert "cluster.secret_file is not" in refusal(sets=("listeners.cluster=a:1",))
    given = ["cluster.seeds=a:1,[::1]:2", "cluster.secret_file=/run/secret"]
    config = load(sets=[*given, "listeners.cluster=a:1"])
    assert config.cluster.seeds == (Address("a", 1), Address("::1", 2))
    assert config.cluster.secret_file == Path("/run/secret")


def test_a_node_that_others_could_not_reach_is_refused() -> None:
    secret = "cluster.secret_file=/run/secret"
    assert "listeners.cluster is not" in refusal(sets=("cluster.seeds=a:1", secret))
    assert "listeners.cluster is not" in refusal(sets=("cluster.advertised=a:1", secret))
    for address in ("0.0.0.0:1", "[::]:1", "a:0"):
        text = refusal(sets=(f"listeners.cluster={address}", secret))
        assert f"other nodes cannot connect to {address}" in text
        config = load(sets=[f"listeners.cluster={address}", "cluster.advertised=b:2", secret])
        assert config.cluster.advertised == Address("b", 2)


def test_tags_of_a_node_are_keys_with_values(tmp_path: Path) -> None:
    place = "listeners.cluster=a:1", "cluster.secret_file=/run/secret"
    text = '[node]\ntags = ["rack=r1", "power = b"]\n'
    config = from_file(tmp_path, text, *place)
    assert member_of(config, 7).tags == (("power", "b"), ("rack", "r1"))
    assert member_of(load(sets=place), 7).tags == ()
    for wrong in ("rack", "=r1", "rack=", "rack=a=b", "r" * 65 + "=a"):
        assert "node.tags = " in refusal(sets=(f"node.tags={wrong}",))


def test_ways_to_peers_are_pairs_of_addresses() -> None:
    assert "testing.peer_routes has 3 addresses; allowed: pairs" in refusal(
        sets=("testing.peer_routes=a:1,b:2,c:3",)
    )
    config = load(None, {}, ("testing.peer_routes=a:1,b:2",))
    settings = link_settings(config.cluster, config.testing)
    assert settings.way_to(("a", 1)) == ("b", 2)
    assert settings.way_to(("b", 2)) == ("b", 2)


def test_a_wrong_name_in_the_environment_is_refused_and_a_foreign_one_is_reported() -> None:
    text = refusal(environment={"WARREN_LIMITS_CHANEL_MAX": "5"})
    assert "WARREN_LIMITS_CHANEL_MAX (environment): allowed: WARREN_LIMITS_CHANNEL_MAX" in text
    foreign = {"WARREN_PORT_5672_TCP": "x", "WARREN_NODE_SERVICE_HOST": "y", "WARREN_PURE": "1"}
    foreign |= {"WARREN_TOOLS": "z", "WARREN_TOXIPROXY": "z"}
    warnings = load(environment=foreign).warnings
    assert [each.split()[2] for each in warnings] == [
        "WARREN_NODE_SERVICE_HOST",
        "WARREN_PORT_5672_TCP",
    ]


def test_flags_win_over_set_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "warren.toml"
    file.write_text("[limits]\nheartbeat_s = 1\n")
    key = "limits.heartbeat_s"
    environment = {"WARREN_LIMITS_HEARTBEAT_S": "2"}
    assert load().limits.heartbeat_s == 60
    assert load(file).limits.heartbeat_s == 1
    assert load(file, {}, [], environment).limits.heartbeat_s == 2
    assert load(file, {}, [f"{key}=3"], environment).limits.heartbeat_s == 3
    assert load(file, {key: "4"}, [f"{key}=3"], environment).limits.heartbeat_s == 4


def test_a_bad_value_that_another_layer_overrides_is_still_refused(tmp_path: Path) -> None:
    file = tmp_path / "warren.toml"
    file.write_text("[limits]\nheartbeat_s = 'x'\n")
    with pytest.raises(ConfigError, match="heartbeat_s"):
        load(file, {}, ["limits.heartbeat_s=3"])


SECURITY: Final = {
    "default_user": "u", "default_pass": "p", "load_definitions": "d",
    "limits.channel_max_per_node": "9",
    "listeners.plain": "true", "listeners.amqps": "h:1",
    "listeners.management_tls": "[::1]:2", "listeners.proxy_protocol": "amqp,amqps",
    "listeners.proxy_trusted": "10.0.0.0/8,::1", "cluster.tls": "true",
    "tls.cacertfile": "a", "tls.certfile": "b", "tls.keyfile": "c",
    "tls.password": "p", "tls.verify": "verify_peer",
    "tls.fail_if_no_peer_cert": "true", "tls.versions": "tlsv1.3",
    "tls.ciphers": "HIGH", "tls.handshake_timeout_ms": "100",
    "tls.reload_interval_ms": "0", "tls.peer_check_hostname": "false",
    "tls.cert_login_from": "common_name", "tls.cert_login_san_type": "uri",
    "tls.cert_login_san_index": "1",
    **{
        f"tls.{place}.{name}": text
        for place in ("management", "cluster")
        for name, text in {
        "certfile": "d", "keyfile": "e", "cacertfile": "f",
        "verify": "verify_peer", "fail_if_no_peer_cert": "true",
        }.items()
    },
    "auth.mechanisms": "PLAIN,EXTERNAL", "auth.password_hashing": "sha256",
    "auth.rehash_on_login": "true", "auth.production": "true",
    "auth.failures_max": "5", "auth.failures_window_ms": "1000",
    "auth.failures_pause_ms": "100", "auth.track_attempt_source": "true",
}  # fmt: skip


WEB_AMQP: Final = {
    "listeners.web_amqp": "h:9", "web_amqp.enabled": "false",
    "web_amqp.allowed_origins": "https://a, *", "web_amqp.max_message_bytes": "8192",
}  # fmt: skip
OAUTH: Final = {
    "oauth.resource_server_id": "", "oauth.scope_prefix": "w.", "oauth.issuer": "https://i",
    "oauth.jwks_uri": "https://i/keys", "oauth.jwks_file": "/k",
    "oauth.verify_audience": "false", "oauth.user_claims": "email,sub",
    "oauth.scope_claims": "scope,roles", "oauth.leeway_s": "5", "oauth.keys_max_age_s": "60",
}  # fmt: skip
BACK_ENDS: Final = {
    "auth_backends": "internal,http:internal,ldap:internal", "auth_cache.cache_ttl": "100",
    "auth_http.http_method": "get", "auth_http.user_path": "https://h/u",
    "auth_http.vhost_path": "https://h/v", "auth_http.resource_path": "https://h/r",
    "auth_http.topic_path": "https://h/t",
    "auth_http.request_timeout": "100", "auth_http.requests_max": "1",
    "auth_http.cacertfile": "/a", "auth_http.certfile": "/b", "auth_http.keyfile": "/c",
    "auth_ldap.servers": "a,b", "auth_ldap.port": "1", "auth_ldap.use_ssl": "true",
    "auth_ldap.use_starttls": "false", "auth_ldap.cacertfile": "/d",
    "auth_ldap.verify": "verify_none", "auth_ldap.timeout": "100",
    "auth_ldap.connections_max": "1", "auth_ldap.user_dn_pattern": "cn=${username}",
    "auth_ldap.dn_lookup_attribute": "uid", "auth_ldap.dn_lookup_base": "o=b",
    "auth_ldap.dn_lookup_bind": "account", "auth_ldap.bind_dn": "cn=n",
    "auth_ldap.bind_password": "x", "auth_ldap.group_lookup_base": "o=g",
    "auth_ldap.grants": "[{group='g', tags=['monitoring']}]",
}  # fmt: skip
OTHERS = {
    **SECURITY,
    **OAUTH,
    **BACK_ENDS,
    **WEB_AMQP,
    "listeners.direct": "h:8",
    "listeners.reuse_port": "true",
    "testing.definitions_save_entries": "1",
    "addresses.max_disk_usage": "90",
    "addresses.global_max_size": "1GB",
    "streams.offload_store": "s3://bucket/prefix",
    "streams.s3_endpoint": "http://127.0.0.1:9000",
    "streams.s3_region": "eu-central-1",
    "streams.s3_access_key": "key",
    "streams.s3_secret_key": "secret",
    "leases.count_max": "0",
    "leases.messages_max": "10",
    "leases.bytes_max": "1MB",
    "cluster.partition_handling": "pause_if_all_down",
    "cluster.pause_if_all_down.nodes": "n1,n2",
    "cluster.pause_if_all_down.recover": "ignore",
    "default_queue_type": "quorum",
    "message_interceptors.incoming.set_header_timestamp.overwrite": "true",
    "message_interceptors.incoming.set_header_routing_node.overwrite": "false",
    "message_interceptors.outgoing.timestamp.enabled": "true",
    "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration": "true",
}


STREAM_TEXTS = {
    "listeners.stream": "h:8", "listeners.stream_tls": "h:9",
    "listeners.stream_advertised": "h:8", "listeners.stream_tls_advertised": "h:9",
}  # fmt: skip


def test_every_key_can_be_set_by_text() -> None:
    texts = {
        "compat": "3.x", "node.name": "7", "node.data_dir": "/d", "listeners.amqp": "h:1",
        "listeners.management": "[::1]:0", "management.metrics_need_login": "true",
        "management.rates_interval_ms": "200",
        "listeners.cluster": "h:2", "listeners.amqp_advertised": "h:3", "listeners.metrics": "h:6",
        "listeners.amqps_advertised": "h:7", **STREAM_TEXTS,
        "listeners.management_advertised": "h:4", "cluster.advertised": "h:5",
        "cluster.name": "c", "cluster.minority_wait_ms": "0", "node.host_id": "m", "node.zone": "z",
        "node.tags": "rack=r1, power=b",
        "cluster.beat_interval_ms": "50", "cluster.silence_ms": "9000",
        "cluster.change_timeout_ms": "100", "cluster.process_grace_ms": "500",
        "cluster.coordination": "false",
        "cluster.handshake_timeout_ms": "200", "cluster.home_down_ms": "900",
        "cluster.peer_bytes_max": "2MiB", "cluster.mirroring_sync_max_throughput": "1MiB",
        "cluster.secret_file": "/s", "cluster.seeds": "a:1, b:2", "limits.channel_max": "9",
        "limits.frame_max": "9000", "limits.heartbeat_s": "0", "limits.handshake_timeout_ms": "100",
        "limits.max_message_size": "1MiB", "limits.connection_max": "-1",
        "limits.connection_inflight_bytes": "1MB", "limits.dead_letter_hops_max": "9",
        "limits.topic_binding_hashes_max": "2", "credit_flow_default_credit": "20,10",
        "msg_store_credit_disc_bound": "[20, 10]", "vm_memory_high_watermark.relative": "1",
        "vm_memory_high_watermark.absolute": "1GiB", "disk_free_limit.absolute": "1G",
        "memory.body_budget_bytes": "2000000", "storage.wal_file_bytes": "1MiB",
        "storage.wal_group_bytes": "4096", "storage.accept_lost_definitions": "true",
        "storage.direct_io": "false", "storage.rewrite_bytes_per_s": "2MiB",
        "loopback_users": "", "anonymous_login_user": "5", "consumer_disconnected_timeout": "1",
        "anonymous_login_pass": "x", "users": "[{name='a', password='b'}]", "vhosts": "/,v",
        "default_operator_policies": "[{name='d', definition={max-length=5}}]",
        "log.format": "json", "log.level": "error", "log.file": "/l", "log.audit": "all",
        "events.exchange": "true", "events.vhost": "v", "consumer_timeout": "0",
        "sac_handover": "drain", "quorum_queue.global_qos": "true",
            "quorum_queue.delivery_limit_counts": "failed",
            "quorum_queue.initial_group_size": "5", "quorum_queue.auto_rebalance": "false",
            "quorum_queue.leader_follows_traffic.share": "70",
            "quorum_queue.leader_follows_traffic.time": "1000",
            "quorum_queue.leader_follows_traffic.transfers_max": "1",
            "quorum_queue.continuous_membership_reconciliation.enabled": "false",
            "quorum_queue.continuous_membership_reconciliation.auto_remove": "false",
            "quorum_queue.continuous_membership_reconciliation.interval": "1000",
            "quorum_queue.continuous_membership_reconciliation.trigger_interval": "100",
            "quorum_queue.continuous_membership_reconciliation.target_group_size": "3",
            "quorum_queue.continuous_membership_reconciliation.dead_after": "1000",
            "queue_leader_locator": "balanced",
        "amqp10.session_max": "1", "amqp10.link_max": "1", "amqp10.max_incoming_window": "1",
        "amqp10.max_link_credit": "1", "amqp10.max_queue_credit": "1", "default_vhost": "v",
        "amqp10.locality_hints": "off", "testing.slow_queues": "a,b", "testing.slow_ms": "1",
        "testing.adjustable_clock": "true", "testing.peer_routes": "a:1,b:2", **OTHERS,
    }  # fmt: skip
    assert set(texts) == set(KEYS)
    by_set = load(sets=[f"{key}={text}" for key, text in texts.items()])
    names = {"WARREN_" + key.upper().replace(".", "_"): text for key, text in texts.items()}
    assert load(environment=names) == by_set
    assert by_set.node.name == "7"
    assert by_set.listeners.management == Address("::1", 0)
    assert str(by_set.listeners.management) == "[::1]:0"
    assert by_set.limits.max_message_size == 1024 * 1024
    assert by_set.limits.connection_inflight_bytes == 1_000_000
    assert by_set.credit_flow_default_credit == (20, 10)
    assert by_set.loopback_users == ()
    assert by_set.vhosts == ("/", "v")


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([], "cluster.pause_if_all_down.nodes; allowed: names of nodes"),
        (["cluster.pause_if_all_down.nodes=a"], "recover; allowed: ignore, autoheal"),
    ],
)
def test_pause_if_all_down_needs_its_nodes_and_what_follows(sets: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(sets=["cluster.partition_handling=pause_if_all_down", *sets])


def test_the_defaults_are_those_of_the_current_release() -> None:
    config = load()
    assert config.cluster.partition_handling == "pause_minority"
    assert config.node.name.startswith("warren@")
    assert config.listeners.amqp == Address("0.0.0.0", 5672)
    assert config.listeners.management == Address("127.0.0.1", 15672)
    assert config.limits.max_message_size == 16_777_216
    assert config.vm_memory_high_watermark.relative == 0.6
    assert config.credit_flow_default_credit == (400, 200)
    assert config.disk_free_limit.absolute == 50_000_000
    assert config.loopback_users == ("guest",)
    (user,) = config.first_users()
    assert (user.name, user.password, user.tags) == ("guest", "guest", ("administrator",))


def test_the_3x_profile_changes_defaults_and_no_setting(tmp_path: Path) -> None:
    config = from_file(tmp_path, "compat = '3.x'\nlimits = { max_message_size = '1MiB' }\n")
    assert config.vm_memory_high_watermark.relative == 0.4
    assert config.credit_flow_default_credit == (200, 50)
    assert config.limits.max_message_size == 1024 * 1024


def test_users_of_the_file_take_the_place_of_guest(tmp_path: Path) -> None:
    config = from_file(
        tmp_path,
        """
        vhosts = ["/", "shop"]
        [[users]]
        name = "anna"
        password = "s3cret"
        tags = ["monitoring"]
        permissions = [{vhost = "shop", configure = "^shop-", write = ".*", read = ".*"}]
        """,
    )
    (anna,) = config.first_users()
    assert anna.name == "anna"
    assert anna.permissions[0].configure == "^shop-"
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize("text", ["", "h", "h:", ":1", "::1:5", "[h]:1", "h:-1", "h:٣", "h:1x"])
def test_what_is_not_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("12", 12), ("2k", 2048), ("2 KB", 2000), ("1GiB", 1024**3)]
)
def test_numbers_of_bytes_take_units(text: str, count: int) -> None:
    assert parse_byte_count(text) == count


TLS = ("tls.certfile=c.pem", "tls.keyfile=c.key")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("listeners.amqps=::1:5671",), "'::1:5671' is not HOST:PORT"),
        (("listeners.amqps=h:5671",), "listeners.amqps is set and tls.certfile is not"),
        (("listeners.amqps=h:5671", TLS[0]), "listeners.amqps is set and tls.keyfile is not"),
        (("listeners.management_tls=h:1",), "listeners.management_tls is set and tls.certfile"),
        (("cluster.tls=true", *TLS), "cluster.tls = true: allowed: only with listeners.cluster"),
        (("tls.verify=verify_peer",), "tls.verify = verify_peer and tls.cacertfile is not set"),
        (("tls.fail_if_no_peer_cert=true",), "only with tls.verify = verify_peer"),
        (("tls.cluster.verify=verify_peer",), "tls.cluster.verify = verify_peer and"),
        (("tls.management.fail_if_no_peer_cert=true",), "only with tls.management.verify"),
        (("tls.versions=tlsv1.1",), "'tlsv1.2', 'tlsv1.3'"),
        (("tls.verify=maybe",), "'verify_none', 'verify_peer'"),
        (("listeners.plain=false",), "listeners.plain = false and listeners.amqps is not set"),
        (("listeners.proxy_protocol=amqp",), "listeners.proxy_trusted is not"),
        (
            ("listeners.proxy_protocol=amqp", "listeners.proxy_trusted=10.0.0.1/8"),
            "allowed: addresses or networks",
        ),
        (("listeners.proxy_protocol=http",), "'amqp', 'amqps'"),
        (("auth.mechanisms=[]",), "auth.mechanisms: none is left"),
        (("auth.mechanisms=ANONYMOUS", "auth.production=true"), "auth.mechanisms: none is left"),
        (("auth.mechanisms=NTLM",), "'PLAIN', 'AMQPLAIN', 'ANONYMOUS', 'EXTERNAL'"),
        (("auth.password_hashing=md5",), "'argon2id', 'sha256', 'sha512'"),
        (("auth.production=true", "users=[{name='a', password='a'}]"), "its own name as password"),
    ],
)
def test_tls_and_logins_are_refused_where_something_is_missing(
    settings: tuple[str, ...], words: str
) -> None:
    assert words in refusal(sets=settings)


def test_listeners_over_tls_have_what_tls_says_but_for_their_own() -> None:
    config = load(
        sets=(
            "listeners.amqps=0.0.0.0:5671",
            "listeners.management_tls=0.0.0.0:15671",
            *TLS,
            "tls.cacertfile=ca.pem",
            "tls.verify=verify_peer",
            "tls.management.verify=verify_none",
            "tls.management.certfile=web.pem",
            "tls.cluster.fail_if_no_peer_cert=false",
        )
    )
    assert tls_listeners(config) == ["listeners.amqps", "listeners.management_tls"]
    amqps, web = settings_of(config, "listeners.amqps"), settings_of(config, MANAGEMENT_TLS)
    among_nodes = settings_of(config, "cluster.tls")
    assert (str(amqps.certfile), amqps.verify, amqps.fail_if_no_peer_cert) == ("c.pem", True, False)
    assert (str(web.certfile), str(web.keyfile), web.verify) == ("web.pem", "c.key", False)
    assert among_nodes.fail_if_no_peer_cert  # Nodes have certificates, whatever clients have.


def test_the_default_user_has_the_names_of_rabbitmqs_image(tmp_path: Path) -> None:
    secret = tmp_path / "pass"
    secret.write_text("s3cret\n")
    environment = {
        "RABBITMQ_DEFAULT_USER": "shop",
        "RABBITMQ_DEFAULT_PASS_FILE": str(secret),
        "RABBITMQ_DEFAULT_VHOST": "orders",
        "RABBITMQ_ERLANG_COOKIE": "x",
    }
    config = load(environment=environment)
    (user,) = config.first_users()
    assert (user.name, user.password, user.tags) == ("shop", "s3cret", ("administrator",))
    assert [permission.vhost for permission in user.permissions] == ["orders"]
    assert config.first_vhosts() == ("/", "orders")
    assert config.warnings == (
        "environment variable RABBITMQ_ERLANG_COOKIE of RabbitMQ was not used",
    )
    ours = load(environment={**environment, "WARREN_DEFAULT_USER": "own"}).first_users()
    assert [each.name for each in ours] == ["own"]
    missing = {"RABBITMQ_DEFAULT_PASS_FILE": str(tmp_path / "none")}
    assert "RABBITMQ_DEFAULT_PASS_FILE: cannot read" in refusal(environment=missing)


def test_a_node_that_loads_definitions_has_no_guest() -> None:
    assert load(sets=("load_definitions=d.json",)).first_users() == ()
    named = load(sets=("load_definitions=d.json", "default_user=own")).first_users()
    assert [each.name for each in named] == ["own"]


def test_in_production_there_is_no_default_user_and_nobody_is_anonymous() -> None:
    config = load(sets=("auth.production=true",))
    assert config.first_users() == ()
    assert "ANONYMOUS" not in config.auth.offered
    assert [user.name for user in load().first_users()] == ["guest"]


def test_secrets_are_read_from_files_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\nsecond line\n")
    monkeypatch.setenv("OF_ANNA", "pä")
    text = (
        f"anonymous_login_pass = 'file:{file}'\n"
        "users = [{name='anna', password='env:OF_ANNA'}, {name='otto', password='plain:env:x'}]\n"
    )
    config = from_file(tmp_path, text)
    assert config.anonymous_login_pass == "s3cret"
    assert [each.password for each in config.users] == ["pä", "env:x"]
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize("written", ["file:/no/such/file", "env:NOT_THERE"])
def test_a_secret_that_is_not_there_is_refused(written: str) -> None:
    text = refusal(sets=(f"tls.password={written}",))
    assert text.startswith("tls.password (--set): ")
    assert written.partition(":")[2] in text


def test_an_empty_file_is_no_secret_and_a_bad_one_is_not_quoted(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "begins with an empty line" in refusal(sets=(f"tls.password=file:{empty}",))
    assert "s3cret" not in refusal("[tls]\npassword = ['s3cret']\n", directory=tmp_path)


def test_the_configuration_is_shown_without_its_secrets(tmp_path: Path) -> None:
    text = (
        "anonymous_login_pass = 's3cret'\n"
        "users = [{name='anna', password='s3cret', tags=['management']},"
        " {name='otto', password_hash='kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR'}]\n"
        "[tls]\npassword = 's3cret'\ncertfile = '/etc/c.pem'\n"
    )
    told = shown(from_file(tmp_path, text))
    assert "s3cret" not in repr(told) and "kI3G" not in repr(told)
    assert set(told) == {each.name for each in fields(Config)} - {"warnings"}
    tls = told["tls"]
    assert isinstance(tls, dict)
    assert (tls["password"], tls["certfile"], tls["keyfile"]) == (HIDDEN, "/etc/c.pem", None)
    assert load().listeners.amqp == Address("0.0.0.0", 5672)
    assert shown(load().listeners)["amqp"] == "0.0.0.0:5672"


def test_settings_are_printed_without_secrets() -> None:
    config = load(sets=("default_pass=hunter2", "auth_ldap.bind_password=hunter2"))

    assert config.default_pass == "hunter2"
    assert "hunter2" not in repr(config)
    assert "hunter2" not in repr(config.auth_ldap)

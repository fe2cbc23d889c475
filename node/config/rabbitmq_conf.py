"""A `rabbitmq.conf` as a configuration of Warren, and what of it cannot be carried over. Pure.

    converted = convert(text)       # BadLine: a line is not `key = value`
    toml = toml_of(converted)

Sections and values follow RabbitMQ's schema (`rabbit.schema` and those of its plugins).
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from node.config.config_layers import parse_byte_count
from node.config.default_policies import DefaultPolicy, fault_in

Value = bool | int | float | str | list[str]

LINE: Final = re.compile(r"^(?P<key>[^\s=#]+)\s*=\s*(?P<value>.*?)\s*$")
LEVELS: Final = {
    "debug": "debug", "info": "info", "notice": "info", "warning": "warning", "error": "error",
    "critical": "error",
}  # fmt: skip
FORMATS: Final = {"plaintext": "text", "json": "json"}
HASHINGS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
}
PEER_PORT: Final = 25672
ANY: Final = "0.0.0.0"


class BadLine(ValueError):
    """A line that is no setting."""


class Unfit(ValueError):
    """A value that cannot be carried over; the text says why."""


class Note(Struct, frozen=True):
    """A line that is not in the result. `is_lost`: the broker will behave differently."""

    line: int
    text: str
    reason: str
    is_lost: bool


class Converted(Struct):
    """Settings by their key, and what is not among them."""

    settings: dict[str, Value] = field(default_factory=dict)
    operator_policies: list[DefaultPolicy] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def integer(text: str) -> Value:
    if not re.fullmatch(r"-?\d+", text):
        raise Unfit(f"'{text}' is not a whole number")
    return int(text)


def number(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        raise Unfit(f"'{text}' is not a number") from None


def byte_count(text: str) -> Value:
    """Also `512MiB`, `2GB` and `2Gi`."""
    try:
        return parse_byte_count(f"{text}b" if text.lower().endswith("i") else text)
    except ValueError as error:
        raise Unfit(str(error)) from None


def boolean(text: str) -> Value:
    if text not in ("true", "false", "on", "off"):
        raise Unfit(f"'{text}' is neither true nor false")
    return text in ("true", "on")


def plain(text: str) -> Value:
    return text


def one_of(allowed: Mapping[str, str]) -> Callable[[str], Value]:
    def chosen(text: str) -> Value:
        if text not in allowed:
            raise Unfit(f"'{text}' is not one of {', '.join(allowed)}")
        return allowed[text]

    return chosen


def same(*allowed: str) -> Callable[[str], Value]:
    return one_of({each: each for each in allowed})


def at_most(limit: int) -> Callable[[str], Value]:
    """A whole number of which 0 means `limit`."""
    return lambda text: integer(text) or limit


def no_zero(text: str) -> Value:
    if integer(text) == 0:
        raise Unfit("0 (no limit) is not allowed here; the default of Warren applies")
    return integer(text)


def or_unlimited(text: str) -> Value:
    return -1 if text == "infinity" else integer(text)


def or_none(text: str) -> Value:
    return "" if text == "none" else text


UNITS_MS: Final = {
    "f": 14 * 86_400_000, "w": 7 * 86_400_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000,
    "s": 1000, "ms": 1,
}  # fmt: skip


def duration_ms(text: str) -> Value:
    """Milliseconds as a number, or with units: `1h30m`."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    if not re.fullmatch(r"(\d+(ms|[fwdhms]))+", text):
        raise Unfit(f"'{text}' is not a time: allowed: milliseconds, or as in 1h30m")
    parts = re.findall(r"(\d+)(ms|[fwdhms])", text)
    return sum(int(count) * UNITS_MS[unit] for count, unit in parts)


# `default_policies.operator.NAME.KEY`; those below `classic_queues` are of the same policy, and
# other queues ignore them.
POLICY_KEY: Final = re.compile(
    r"default_policies\.operator\.(?P<name>.+?)\.(?:classic_queues\.)?(?P<key>[^.]+)"
)
POLICY_RULES: Final[Mapping[str, Callable[[str], Value]]] = {
    **dict.fromkeys(("vhost_pattern", "queue_pattern", "apply_to"), plain),
    **dict.fromkeys(("expires", "message_ttl"), duration_ms),
    **dict.fromkeys(("max_length_bytes", "max_in_memory_bytes"), byte_count),
    **dict.fromkeys(("max_length", "max_in_memory_length", "delivery_limit"), integer),
    **dict.fromkeys(("queue_version", "target_group_size", "ha_sync_batch_size"), integer),
    **dict.fromkeys(("ha_mode", "ha_sync_mode", "overflow"), plain),
    **dict.fromkeys(("ha_promote_on_failure", "ha_promote_on_shutdown"), plain),
    "ha_params": lambda text: integer(text) if text.isdecimal() else text,
}

STRATEGIES: Final = same("pause_minority", "pause_if_all_down", "autoheal", "ignore")
PARTITIONS: Final = "cluster_partition_handling"
ALL_DOWN: Final = "pause_if_all_down"
RELAXED: Final = "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration"
RECEIVED_AT: Final = "message_interceptors.incoming.set_header_timestamp.overwrite"
ROUTED_BY: Final = "message_interceptors.incoming.set_header_routing_node.overwrite"
SENT_AT: Final = "message_interceptors.outgoing.timestamp.enabled"
# A file may name the module that makes such queues.
QUEUE_TYPES: Final = {
    name: kind
    for kind in ("classic", "quorum", "stream")
    for name in (kind, f"rabbit_{kind}_queue")
}
RECONCILIATION: Final = "quorum_queue.continuous_membership_reconciliation"
# Key of RabbitMQ: key of Warren, and how the value is read.
RULES: Final[Mapping[str, tuple[str, Callable[[str], Value]]]] = {
    "heartbeat": ("limits.heartbeat_s", integer),
    "frame_max": ("limits.frame_max", no_zero),
    "channel_max": ("limits.channel_max", at_most(65_535)),
    "channel_max_per_node": ("limits.channel_max_per_node", or_unlimited),
    "connection_max": ("limits.connection_max", or_unlimited),
    "max_message_size": ("limits.max_message_size", byte_count),
    "handshake_timeout": ("limits.handshake_timeout_ms", integer),
    "consumer_timeout": ("consumer_timeout", integer),
    "consumer_disconnected_timeout": ("consumer_disconnected_timeout", integer),
    "vm_memory_high_watermark.relative": ("vm_memory_high_watermark.relative", number),
    "vm_memory_high_watermark.absolute": ("vm_memory_high_watermark.absolute", byte_count),
    "disk_free_limit.absolute": ("disk_free_limit.absolute", byte_count),
    "default_vhost": ("default_vhost", plain),
    "default_user": ("default_user", plain),
    "default_pass": ("default_pass", plain),
    "anonymous_login_user": ("anonymous_login_user", or_none),
    "anonymous_login_pass": ("anonymous_login_pass", plain),
    "cluster_name": ("cluster.name", plain),
    PARTITIONS: ("cluster.partition_handling", STRATEGIES),
    f"{PARTITIONS}.{ALL_DOWN}.recover": (
        f"cluster.{ALL_DOWN}.recover",
        same("ignore", "autoheal"),
    ),
    "mirroring_sync_max_throughput": ("cluster.mirroring_sync_max_throughput", byte_count),
    "queue_leader_locator": ("queue_leader_locator", same("client-local", "balanced")),
    "default_queue_type": ("default_queue_type", one_of(QUEUE_TYPES)),
    RELAXED: (RELAXED, boolean),
    RECEIVED_AT: (RECEIVED_AT, boolean),
    ROUTED_BY: (ROUTED_BY, boolean),
    SENT_AT: (SENT_AT, boolean),
    "load_definitions": ("load_definitions", plain),
    "management.load_definitions": ("load_definitions", plain),
    "definitions.local.path": ("load_definitions", plain),
    "password_hashing_module": ("auth.password_hashing", one_of(HASHINGS)),
    "collect_statistics_interval": ("management.rates_interval_ms", integer),
    "auth_oauth2.resource_server_id": ("oauth.resource_server_id", plain),
    "auth_oauth2.scope_prefix": ("oauth.scope_prefix", plain),
    "auth_oauth2.jwks_uri": ("oauth.jwks_uri", plain),
    "auth_oauth2.jwks_url": ("oauth.jwks_uri", plain),
    "auth_oauth2.issuer": ("oauth.issuer", plain),
    "auth_oauth2.verify_aud": ("oauth.verify_audience", boolean),
    "auth_http.http_method": ("auth_http.http_method", same("get", "post")),
    "auth_http.user_path": ("auth_http.user_path", plain),
    "auth_http.vhost_path": ("auth_http.vhost_path", plain),
    "auth_http.resource_path": ("auth_http.resource_path", plain),
    "auth_http.topic_path": ("auth_http.topic_path", plain),
    "auth_http.request_timeout": ("auth_http.request_timeout", integer),
    "auth_http.ssl_options.cacertfile": ("auth_http.cacertfile", plain),
    "auth_http.ssl_options.certfile": ("auth_http.certfile", plain),
    "auth_http.ssl_options.keyfile": ("auth_http.keyfile", plain),
    "auth_ldap.port": ("auth_ldap.port", integer),
    "auth_ldap.use_ssl": ("auth_ldap.use_ssl", boolean),
    "auth_ldap.use_starttls": ("auth_ldap.use_starttls", boolean),
    "auth_ldap.timeout": ("auth_ldap.timeout", integer),
    "auth_ldap.user_dn_pattern": ("auth_ldap.user_dn_pattern", plain),
    "auth_ldap.dn_lookup_attribute": ("auth_ldap.dn_lookup_attribute", plain),
    "auth_ldap.dn_lookup_base": ("auth_ldap.dn_lookup_base", plain),
    "auth_ldap.ssl_options.cacertfile": ("auth_ldap.cacertfile", plain),
    "auth_cache.cache_ttl": ("auth_cache.cache_ttl", integer),
    "ssl_options.cacertfile": ("tls.cacertfile", plain),
    "ssl_options.certfile": ("tls.certfile", plain),
    "ssl_options.keyfile": ("tls.keyfile", plain),
    "ssl_options.password": ("tls.password", plain),
    "ssl_options.verify": ("tls.verify", same("verify_peer", "verify_none")),
    "ssl_options.fail_if_no_peer_cert": ("tls.fail_if_no_peer_cert", boolean),
    "ssl_handshake_timeout": ("tls.handshake_timeout_ms", integer),
    "ssl_cert_login_from": (
        "tls.cert_login_from",
        same("distinguished_name", "common_name", "subject_alternative_name"),
    ),
    "ssl_cert_login_san_type": (
        "tls.cert_login_san_type",
        one_of({"dns": "dns", "ip": "ip", "email": "email", "uri": "uri"}),
    ),
    "ssl_cert_login_san_index": ("tls.cert_login_san_index", integer),
    "management.ssl.cacertfile": ("tls.management.cacertfile", plain),
    "management.ssl.certfile": ("tls.management.certfile", plain),
    "management.ssl.keyfile": ("tls.management.keyfile", plain),
    "management.ssl.verify": ("tls.management.verify", same("verify_peer", "verify_none")),
    "management.ssl.fail_if_no_peer_cert": ("tls.management.fail_if_no_peer_cert", boolean),
    "log.default.level": ("log.level", one_of(LEVELS)),
    "log.console.level": ("log.level", one_of(LEVELS)),
    "log.file.level": ("log.level", one_of(LEVELS)),
    "log.console.formatter": ("log.format", one_of(FORMATS)),
    "log.file.formatter": ("log.format", one_of(FORMATS)),
    f"{RECONCILIATION}.enabled": (f"{RECONCILIATION}.enabled", boolean),
    f"{RECONCILIATION}.auto_remove": (f"{RECONCILIATION}.auto_remove", boolean),
    f"{RECONCILIATION}.interval": (f"{RECONCILIATION}.interval", integer),
    f"{RECONCILIATION}.trigger_interval": (f"{RECONCILIATION}.trigger_interval", integer),
    f"{RECONCILIATION}.target_group_size": (f"{RECONCILIATION}.target_group_size", integer),
}
# Listeners of which RabbitMQ sets the port and the address by two keys.
PLACES: Final = {
    "management.tcp": ("listeners.management", 15_672),
    "management.ssl": ("listeners.management_tls", 15_671),
    "prometheus.tcp": ("listeners.metrics", 15_692),
}
LISTENERS: Final = {
    "tcp": "listeners.amqp",
    "ssl": "listeners.amqps",
    "stream.tcp": "listeners.stream",
    "stream.ssl": "listeners.stream_tls",
}
# Who checks passwords and who says what users may, and the entry of `auth_backends`; empty: access
# tokens need none.
BACKENDS: Final = {
    ("internal", "internal"): "internal",
    ("oauth2", "oauth2"): "",
    ("http", "http"): "http:http",
    ("http", "internal"): "http:internal",
    ("ldap", "internal"): "ldap:internal",
}
BACKEND_KEY: Final = re.compile(r"auth_backends\.(\d+)(\.authn|\.authz)?")
CACHED: Final = "auth_cache.cached_backend"  # what the back end `cache` stands for
TOKEN_USERS: Final = "auth_oauth2.preferred_username_claims"
TOKEN_SCOPES: Final = "auth_oauth2.additional_scopes_key"
LISTS: Final = {"auth_mechanisms": "auth.mechanisms", "ssl_options.versions": "tls.versions"}
LISTED: Final = {
    "auth.mechanisms": ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"),
    "tls.versions": ("tlsv1.2", "tlsv1.3"),
}
# What a Warren does by itself, or has no use for.
WITHOUT_EFFECT: Final = {
    "tcp_listen_options": "Warren chooses the options of sockets",
    "num_acceptors": "Warren accepts connections in one loop",
    "default_user_tags.administrator": "the default user is an administrator",
    "definitions.import_backend": "definitions come from a local file or directory",
    "definitions.skip_if_unchanged": "unchanged definitions are always skipped",
    "management.rates_mode": "rates are always kept",
    "log.file.rotation": "send SIGHUP after the file was moved",
    "log.console": "the log goes to standard error unless log.file is set",
    "hipe_compile": "a setting of Erlang",
    "net_ticktime": "a setting of Erlang; cluster.silence_ms is similar",
    "distribution": "a setting of Erlang",
    "raft": "a setting of the Raft library of RabbitMQ",
    "mnesia_table_loading_retry_timeout": "a setting of Mnesia",
    "mnesia_table_loading_retry_limit": "a setting of Mnesia",
    "background_gc_enabled": "a setting of Erlang",
    "background_gc_target_interval": "a setting of Erlang",
    "vm_memory_calculation_strategy": "memory is what the operating system reports",
    "vm_memory_high_watermark_paging_ratio": "bodies above a budget leave memory at once",
    "reverse_dns_lookups": "connections are named by their addresses",
    "queue_index_embed_msgs_below": "a setting of RabbitMQ's message store",
    "classic_queue.default_version": "classic queues have one version",
}
# Prefixes of keys whose feature Warren does not have.
MISSING: Final = {
    "mqtt": "Warren has no MQTT",
    "web_mqtt": "Warren has no MQTT",
    "stomp": "Warren has no STOMP",
    "web_stomp": "Warren has no STOMP",
    "auth_oauth2": "Warren has no such setting of OAuth 2",
    "auth_ldap": "Warren has no such setting of LDAP (docs/guide/security.md)",
    "auth_http": "Warren has no such setting of its HTTP back end",
    "auth_cache": "Warren has no such setting of its cache of answers",
    "trust_store": "clients' certificates are checked by tls.cacertfile",
    "disk_free_limit.relative": "set disk_free_limit.absolute to a number of bytes",
    "log.syslog": "the log goes to standard error or to a file",
    "log.exchange": "log lines are not published; events are (amq.rabbitmq.event)",
    "default_password": "this is not a key of RabbitMQ; default_pass is",
}


def convert(text: str) -> Converted:
    """Read the whole file. BadLine: a line is not `key = value`."""
    reading = _Reading()
    for place, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        found = LINE.match(bare)
        if found is None:
            raise BadLine(f"line {place}: '{bare[:80]}' is not KEY = VALUE")
        reading.take(place, bare, found["key"], _unquoted(found["value"]))
    return reading.end()


def _unquoted(value: str) -> str:
    """Without the quotes of cuttlefish, and without a comment behind the value."""
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1]
    return re.split(r"\s+#", value, maxsplit=1)[0]


class _Backend(Struct):
    """One of `auth_backends`; a name is empty if it is not given."""

    place: int
    line: str
    authn: str = ""
    authz: str = ""


class _Policy(Struct):
    """One of `default_policies.operator`: where it begins, and what was read of it."""

    place: int
    line: str
    values: dict[str, Value] = field(default_factory=dict)

    def made(self, name: str) -> DefaultPolicy:
        """Unfit: no node would take it."""
        values = dict(self.values)
        places = {
            field: str(values.pop(key))
            for key, field in (
                ("vhost_pattern", "vhost_pattern"),
                ("queue_pattern", "pattern"),
                ("apply_to", "apply_to"),
            )
            if key in values
        }
        definition = {key.replace("_", "-"): value for key, value in sorted(values.items())}
        try:
            written = {"name": name, "definition": definition, **places}
            policy = msgspec.convert(written, DefaultPolicy)
        except msgspec.ValidationError as error:
            raise Unfit(f"'{name}': {error}") from None
        fault = fault_in([policy])
        if fault is not None:
            raise Unfit(fault)
        return policy


class _Reading:
    """What the lines so far have set."""

    def __init__(self) -> None:
        self._converted = Converted()
        self._places: dict[str, tuple[str, str]] = {}  # by key of Warren: host and port
        self._loopback: set[str] | None = None
        self._peers: list[str] = []
        self._backends: dict[int, _Backend] = {}
        self._cached = ""
        self._policies: dict[str, _Policy] = {}

    def take(self, place: int, line: str, key: str, value: str) -> None:
        try:
            self._set(place, line, key, value)
        except Unfit as error:
            self._note(place, line, str(error), is_lost=True)

    def end(self) -> Converted:
        settings = self._converted.settings
        for key, (host, port) in self._places.items():
            settings[key] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._set_backends()
        self._set_policies()
        if self._loopback is not None:
            settings["loopback_users"] = sorted(self._loopback)
        claims = settings.get("oauth.user_claims")
        if isinstance(claims, list):  # RabbitMQ looks at these two afterwards.
            settings["oauth.user_claims"] = [*claims, "sub", "client_id"]
        return self._converted

    def _note(self, place: int, line: str, reason: str, *, is_lost: bool) -> None:
        self._converted.notes.append(Note(place, line, reason, is_lost))

    def _set(self, place: int, line: str, key: str, value: str) -> None:
        rule = RULES.get(key)
        if rule is not None:
            name, read = rule
            self._converted.settings[name] = read(value)
        elif key.startswith(("listeners.", "stream.listeners.")):
            self._listener(place, line, key, value)
        elif key.startswith("loopback_users"):
            self._loopback_user(key, value)
        elif key == "log.file":
            self._log_file(value)
        elif (of_place := _parent(key)) in PLACES and key.endswith((".port", ".ip")):
            self._address(of_place, key, value)
        elif of_place in LISTS:
            self._append(LISTS[of_place], value)
        elif of_place == f"{PARTITIONS}.{ALL_DOWN}.nodes":
            self._add(f"cluster.{ALL_DOWN}.nodes", value)
        elif of_place == TOKEN_USERS:
            self._add("oauth.user_claims", value)
        elif key == TOKEN_SCOPES:
            self._converted.settings["oauth.scope_claims"] = ["scope", *value.split()]
        elif found := BACKEND_KEY.fullmatch(key):
            backend = self._backends.setdefault(int(found[1]), _Backend(place, line))
            name = value.removeprefix("rabbit_auth_backend_")
            if found[2] != ".authz":
                backend.authn = name
            if found[2] != ".authn":
                backend.authz = name
        elif of_policy := POLICY_KEY.fullmatch(key):
            self._policy_key(place, line, of_policy["name"], of_policy["key"], value)
        elif key == CACHED or key.startswith(f"{CACHED}."):
            self._cached = value.removeprefix("rabbit_auth_backend_")
        elif of_place == "auth_ldap.servers":
            self._add("auth_ldap.servers", value)
        elif key.startswith("ssl_options.ciphers."):
            before = self._converted.settings.get("tls.ciphers")
            self._converted.settings["tls.ciphers"] = f"{before}:{value}" if before else value
        else:
            self._leave_out(place, line, key, value)

    def _listener(self, place: int, line: str, key: str, value: str) -> None:
        """`listeners.tcp.NAME = [HOST:]PORT`, and the same for TLS; `none` for no listener."""
        kind = key.partition("listeners.")[2].split(".")[0]
        name = LISTENERS.get(key.partition("listeners.")[0] + kind)
        if name is None:
            raise Unfit(f"there is no listener '{kind}'")
        if value == "none":
            if name == LISTENERS["tcp"]:
                self._converted.settings["listeners.plain"] = False
            return
        if name in self._places:
            raise Unfit(f"a node has one address for {kind}; run nodes behind a proxy instead")
        host, _, port = value.rpartition(":")
        self._places[name] = (host.strip("[]") or ANY, str(integer(port)))

    def _loopback_user(self, key: str, value: str) -> None:
        users = {"guest"} if self._loopback is None else self._loopback
        name = key.removeprefix("loopback_users").lstrip(".")
        if not name and value == "none":
            users = set()
        elif boolean(value):
            users.add(name)
        else:
            users.discard(name)
        self._loopback = users

    def _log_file(self, value: str) -> None:
        if value not in ("false", "true", "off", "on"):
            if not value.startswith("/"):
                raise Unfit("log.file of Warren is a whole path")
            self._converted.settings["log.file"] = value

    def _address(self, of_place: str, key: str, value: str) -> None:
        name, port = PLACES[of_place]
        host, known = self._places.get(name, (ANY, str(port)))
        if key.endswith(".port"):
            self._places[name] = (host, str(integer(value)))
        else:
            self._places[name] = (value, known)

    def _set_backends(self) -> None:
        """Users in the definitions alone need no setting."""
        entries: list[str] = []
        for _, each in sorted(self._backends.items()):
            names = [self._cached if name == "cache" else name for name in (each.authn, each.authz)]
            entry = BACKENDS.get((names[0], names[1]))
            if entry is None:
                said = names[0] if names[0] == names[1] else ":".join(names)
                reason = f"Warren has no back end '{said}' for logins"
                self._note(each.place, each.line, reason, is_lost=True)
            elif entry:
                entries.append(entry)
        if entries not in ([], ["internal"]):
            self._converted.settings["auth_backends"] = entries

    def _policy_key(self, place: int, line: str, name: str, key: str, value: str) -> None:
        read = POLICY_RULES.get(key)
        if read is None:
            raise Unfit(f"default operator policies have no key '{key}'")
        found = read(value)
        self._policies.setdefault(name, _Policy(place, line)).values[key] = found

    def _set_policies(self) -> None:
        for name, each in self._policies.items():
            try:
                self._converted.operator_policies.append(each.made(name))
            except Unfit as error:
                self._note(each.place, each.line, str(error), is_lost=True)

    def _append(self, name: str, value: str) -> None:
        if value not in LISTED[name]:
            raise Unfit(f"'{value}' is not one of {', '.join(LISTED[name])}")
        self._add(name, value)

    def _add(self, name: str, value: str) -> None:
        before = self._converted.settings.get(name)
        self._converted.settings[name] = [*before, value] if isinstance(before, list) else [value]

    def _leave_out(self, place: int, line: str, key: str, value: str) -> None:
        if key.startswith("default_permissions."):
            reason = "the default user has all permissions"
            self._note(place, line, reason, is_lost=value != ".*")
            return
        if key.startswith("cluster_formation.classic_config.nodes"):
            host = value.partition("@")[2] or value
            reason = (
                f"set cluster.seeds with {host}:{PEER_PORT}, listeners.cluster and "
                "cluster.secret_file on every node"
            )
            self._note(place, line, reason, is_lost=True)
            return
        for known, is_lost in ((WITHOUT_EFFECT, False), (MISSING, True)):
            for prefix, reason in known.items():
                if key == prefix or key.startswith(f"{prefix}."):
                    self._note(place, line, reason, is_lost=is_lost)
                    return
        self._note(place, line, f"Warren has no setting for '{key}'", is_lost=True)


def _parent(key: str) -> str:
    return key.rpartition(".")[0]


def toml_of(converted: Converted) -> str:
    """The configuration as a file: keys without a section first, notes as comments at the end."""
    sections: dict[str, list[str]] = {}
    for key, value in sorted(converted.settings.items()):
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {_written(value)}")
    lines = sections.pop("", [])
    for section, entries in sections.items():
        lines += ["", f"[{section}]", *entries] if lines else [f"[{section}]", *entries]
    for policy in converted.operator_policies:
        lines += ["", "[[default_operator_policies]]", *_policy_lines(policy)]
    if converted.notes:
        lines += ["", "# Not carried over:"]
        lines += [f"# {note.text}" + f"  # {note.reason}" for note in converted.notes]
    return "\n".join(lines) + "\n"


def _policy_lines(policy: DefaultPolicy) -> list[str]:
    inline = ", ".join(f"{key} = {_written(value)}" for key, value in policy.definition.items())
    return [
        f"name = {_written(policy.name)}",
        f"vhost_pattern = {_written(policy.vhost_pattern)}",
        f"pattern = {_written(policy.pattern)}",
        f"apply_to = {_written(policy.apply_to)}",
        f"definition = {{ {inline} }}",
    ]


def _written(value: Value) -> str:
    """TOML writes these values as JSON does."""
    return json.dumps(value, ensure_ascii=False)

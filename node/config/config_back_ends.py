"""Settings of services that check passwords, and say what users may, in place of the definitions.

`auth_backends` says which are asked, in order; see docs/guide/security.md. The names of sections
and keys are those of RabbitMQ's plug-ins where these have one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from node.auth.patterns import pattern_fault
from node.config.config_layers import ConfigError, Secret, Section

INTERNAL: Final = "internal"
HTTP: Final = "http"
LDAP: Final = "ldap"
HTTP_RIGHTS: Final = "http:http"  # the service says what users may, too
LDAP_RIGHTS: Final = "ldap:ldap"  # the directory does
PATHS: Final = ("user_path", "vhost_path", "resource_path", "topic_path")

BackEndEntry = Literal["internal", "http:internal", "http:http", "ldap:internal", "ldap:ldap"]
UserTag = Literal[
    "administrator", "monitoring", "policymaker", "management", "impersonator", "none"
]
Bind = Literal["as_user", "anon", "account"]
Timeout = Annotated[int, Meta(ge=100, le=120_000)]


def names_of(entries: Sequence[str]) -> tuple[str, ...]:
    """Who checks passwords, by the entries of `auth_backends`."""
    return tuple(each.partition(":")[0] for each in entries)


class AuthHttpSection(Section, frozen=True, kw_only=True):
    """The back end `http`: a service that answers `allow`, `allow TAG ...` or `deny` to `username`
    and `password`, and with `http:http` also to questions what the user may."""

    # How the service is asked: fields of a form, or of the query of the address, which is often
    # logged.
    http_method: Literal["post", "get"] = "post"
    # Address of the service that checks passwords.
    user_path: str = ""
    # With `http:http`: where it is asked whether a user may use a vhost (`username`, `vhost`, `ip`,
    # `tags`).
    vhost_path: str = ""
    # With `http:http`: where it is asked for access to a queue or exchange (`username`, `vhost`,
    # `resource`, `name`, `permission`, `tags`).
    resource_path: str = ""
    # With `http:http`: where it is asked for a routing key of a topic exchange (the same, and
    # `routing_key`).
    topic_path: str = ""
    # Milliseconds in which a request is answered, with the time that it waits for others.
    request_timeout: Timeout = 5000
    # Requests under way at a time; more wait.
    requests_max: Annotated[int, Meta(ge=1, le=1024)] = 64
    # PEM file with the authorities that are trusted for https; none: those of the system.
    cacertfile: Path | None = None
    # PEM file with the certificate that this node shows.
    certfile: Path | None = None
    # Its private key.
    keyfile: Path | None = None


class PermissionConfig(Section, frozen=True, kw_only=True):
    """Regular expressions of one user in one vhost; '' allows nothing."""

    vhost: str = "/"
    configure: str = ""
    write: str = ""
    read: str = ""


class LdapGrant(Section, frozen=True, kw_only=True):
    """What the members of a group of the directory may."""

    # DN of the group.
    group: Annotated[str, Meta(min_length=1)]
    # Tags that its members have.
    tags: tuple[UserTag, ...] = ()
    # Their permissions in vhosts.
    permissions: tuple[PermissionConfig, ...] = ()


class AuthLdapSection(Section, frozen=True, kw_only=True):
    """The back end `ldap`: a directory; needs `pip install warrenmq[ldap]`."""

    # Names or addresses of servers; the first that answers is used.
    servers: tuple[str, ...] = ()
    # Their port.
    port: Annotated[int, Meta(ge=1, le=65535)] = 389
    # Whether connections are over TLS from the beginning (port 636).
    use_ssl: bool = False
    # Whether connections change to TLS before anything is sent.
    use_starttls: bool = False
    # PEM file with the authorities that are trusted; none: those of the system.
    cacertfile: Path | None = None
    # Whether the certificate of the server must be good and have its name.
    verify: Literal["verify_peer", "verify_none"] = "verify_peer"
    # Milliseconds in which a login is decided, with the time that it waits for others.
    timeout: Timeout = 5000
    # Connections at a time; more wait.
    connections_max: Annotated[int, Meta(ge=1, le=64)] = 8
    # The name that binds: ${username} is what the user typed.
    user_dn_pattern: str = "${username}"
    # The attribute that is searched for what the user typed, to find the name that binds; empty:
    # the pattern is that name.
    dn_lookup_attribute: str = ""
    # Where it is searched.
    dn_lookup_base: str = ""
    # Who searches: the user after the bind, or before it an anonymous bind or `bind_dn`.
    dn_lookup_bind: Bind = "as_user"
    # The account of this node in the directory.
    bind_dn: str = ""
    # Password of that account.
    bind_password: Secret = ""
    # Where groups are searched, with `ldap:ldap` in `auth_backends`: those that have the user as
    # `member` or `uniqueMember`. The account of this node searches if it is set, or else the user.
    group_lookup_base: str = ""
    # What members of groups may, with `ldap:ldap`: group, tags, permissions (vhost, configure,
    # write, read).
    grants: tuple[LdapGrant, ...] = ()


class AuthCacheSection(Section, frozen=True, kw_only=True):
    """How long this node goes by an answer of the back ends `http` and `ldap`."""

    # Milliseconds for which a password is remembered that a back end has accepted, and, with
    # `http:http`, what a user may; of permissions at least 1000.
    cache_ttl: Annotated[int, Meta(ge=100, le=86_400_000)] = 15_000


def check_back_ends(entries: Sequence[str], http: AuthHttpSection, ldap: AuthLdapSection) -> None:
    """ConfigError: a back end is named that could not be asked."""
    names = names_of(entries)
    if not names or len(set(names)) != len(names):
        raise ConfigError(
            "auth_backends: allowed: one or more of internal, http:internal or http:http, "
            "ldap:internal or ldap:ldap, each of them once"
        )
    if HTTP in names:
        for name in PATHS if HTTP_RIGHTS in entries else PATHS[:1]:
            _check_address(name, getattr(http, name))
        if (http.certfile is None) != (http.keyfile is None):
            raise ConfigError("auth_http.certfile and auth_http.keyfile: allowed: both or none")
    if LDAP in names:
        _check_ldap(ldap)
    if LDAP_RIGHTS in entries:
        _check_grants(ldap)


def _check_address(name: str, path: str) -> None:
    try:
        parts = urlsplit(path)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
    except ValueError:
        is_fit = False
    if not is_fit:
        raise ConfigError(
            f"auth_http.{name} = '{path}': allowed with this back end in auth_backends: an http or "
            "https address without a query"
        )


def _check_ldap(ldap: AuthLdapSection) -> None:
    if not ldap.servers:
        raise ConfigError(
            "auth_ldap.servers is not set; allowed with 'ldap:internal' in auth_backends: one or "
            "more names"
        )
    if ldap.use_ssl and ldap.use_starttls:
        raise ConfigError("auth_ldap.use_ssl and auth_ldap.use_starttls: allowed: one of them")
    pattern = ldap.user_dn_pattern
    if "${username}" not in pattern:
        raise ConfigError(
            f"auth_ldap.user_dn_pattern = '{pattern}': allowed: text with ${{username}}"
        )
    if bool(ldap.dn_lookup_attribute) != bool(ldap.dn_lookup_base):
        raise ConfigError(
            "auth_ldap.dn_lookup_attribute and auth_ldap.dn_lookup_base: allowed: both or none"
        )
    if ldap.dn_lookup_bind == "account" and not (ldap.bind_dn and ldap.bind_password):
        raise ConfigError(
            "auth_ldap.dn_lookup_bind is 'account'; allowed: only with auth_ldap.bind_dn and "
            "auth_ldap.bind_password"
        )


def _check_grants(ldap: AuthLdapSection) -> None:
    if not (ldap.group_lookup_base and ldap.grants):
        raise ConfigError(
            "auth_ldap.group_lookup_base and auth_ldap.grants: both are needed with 'ldap:ldap' in "
            "auth_backends"
        )
    for grant in ldap.grants:
        for each in grant.permissions:
            for text in (each.configure, each.write, each.read):
                fault = pattern_fault(text)
                if fault is not None:
                    raise ConfigError(f"auth_ldap.grants: group '{grant.group}': {fault}")

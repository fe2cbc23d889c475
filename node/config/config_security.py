"""Settings of TLS and of logins, and the rules between them.

`tls` holds for all listeners that speak TLS; `tls.management` and `tls.cluster` say what is
different there. Which listeners do, `listeners` says. See docs/SECURITY.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from node.config.config_layers import ConfigError, Secret

Verify = Literal["verify_none", "verify_peer"]
Mechanism = Literal["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL")
PasswordHashing = Literal["argon2id", "sha256", "sha512"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOverrides:
    """Of one listener; what is not set is as in `tls`."""

    certfile: Path | None = None
    keyfile: Path | None = None
    cacertfile: Path | None = None
    verify: Verify | None = None
    fail_if_no_peer_cert: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSection:
    """Certificates and versions of listeners with TLS."""

    cacertfile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password: Secret = field(default="", repr=False)  # of the key
    verify: Verify = "verify_none"
    fail_if_no_peer_cert: bool = False
    versions: tuple[Literal["tlsv1.2", "tlsv1.3"], ...] = ("tlsv1.2", "tlsv1.3")
    ciphers: Annotated[str, Meta(max_length=4096)] = ""  # of TLS 1.2; '': OpenSSL's choice
    handshake_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    reload_interval_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 10_000  # 0: on SIGHUP alone
    peer_check_hostname: bool = True  # of other nodes, with tls.verify = verify_peer
    # Which part of a client's certificate names the user, for the mechanism EXTERNAL.
    cert_login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = (
        "distinguished_name"
    )
    cert_login_san_type: Literal["dns", "ip", "email", "uri"] = "dns"
    cert_login_san_index: Annotated[int, Meta(ge=0, le=255)] = 0
    management: TlsOverrides = TlsOverrides()
    cluster: TlsOverrides = TlsOverrides()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSection:
    """How clients log in."""

    mechanisms: tuple[Mechanism, ...] = MECHANISMS  # EXTERNAL only with a verified certificate
    password_hashing: PasswordHashing = "argon2id"  # of passwords that are set from now on
    rehash_on_login: bool = False  # hashes of another kind, when their password is shown
    production: bool = False  # no default user, no anonymous logins
    # Failed logins of an address, or of a user from wherever, in `failures_window_ms`; after them
    # further ones are refused unseen for `failures_pause_ms`. 0: no limit.
    failures_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 30
    failures_window_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 60_000
    failures_pause_ms: Annotated[int, Meta(ge=100, le=86_400_000)] = 10_000
    track_attempt_source: bool = False  # count logins by address and user as well

    @property
    def offered(self) -> tuple[Mechanism, ...]:
        """The mechanisms, as far as production lets them be."""
        unfit = ("ANONYMOUS",) if self.production else ()
        return tuple(each for each in self.mechanisms if each not in unfit)


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSection:
    """Logins by access tokens (JWT) in place of passwords; off without `resource_server_id`."""

    resource_server_id: Annotated[str, Meta(max_length=255)] = ""  # the audience of tokens
    # What stands before scopes that are meant for this broker; none: the id and a dot.
    scope_prefix: Annotated[str, Meta(max_length=255)] | None = None
    jwks_uri: str = ""  # address of the provider's keys: https, or http on this machine
    jwks_file: Path | None = None  # the keys in a file, in place of an address
    issuer: str = ""  # the claim `iss` that tokens must have; "": any
    verify_audience: bool = True
    user_claims: tuple[str, ...] = ("sub", "client_id")  # the first that is there names the user
    scope_claims: tuple[str, ...] = ("scope",)
    leeway_s: Annotated[int, Meta(ge=0, le=300)] = 0  # by which clocks may differ
    keys_max_age_s: Annotated[int, Meta(ge=60, le=86_400)] = 3600  # then keys are asked for again


def check_oauth(oauth: OauthSection) -> None:
    """ConfigError: where tokens are on, it must be clear whose keys are trusted."""
    if not oauth.resource_server_id:
        return
    if bool(oauth.jwks_uri) == (oauth.jwks_file is not None):
        raise ConfigError(
            "oauth.resource_server_id is set: allowed: one of oauth.jwks_uri and oauth.jwks_file"
        )
    parts = urlsplit(oauth.jwks_uri)
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if oauth.jwks_uri and not is_local and (parts.scheme != "https" or not parts.hostname):
        raise ConfigError(
            f"oauth.jwks_uri = {oauth.jwks_uri}: allowed: an https address, or http on this machine"
        )


def check_tls(tls: TlsSection, listening: Sequence[str]) -> None:
    """ConfigError: what the listeners need that are named is not there."""
    for key, overrides in (("tls", TlsOverrides()), *_overridden(tls)):
        verify = overrides.verify or tls.verify
        needs_one = overrides.fail_if_no_peer_cert
        if needs_one is None:
            needs_one = tls.fail_if_no_peer_cert
        if needs_one and verify != "verify_peer":
            raise ConfigError(
                f"{key}.fail_if_no_peer_cert = true: allowed: only with {key}.verify = verify_peer"
            )
        if verify == "verify_peer" and (overrides.cacertfile or tls.cacertfile) is None:
            raise ConfigError(
                f"{key}.verify = verify_peer and tls.cacertfile is not set; allowed: the path of a "
                "file with the certificates of those who are trusted"
            )
    for listener in listening:
        overrides = {"listeners.management_tls": tls.management, "cluster.tls": tls.cluster}.get(
            listener, TlsOverrides()
        )
        for name in ("certfile", "keyfile"):
            if getattr(overrides, name) is None and getattr(tls, name) is None:
                raise ConfigError(
                    f"{listener} is set and tls.{name} is not; allowed: the path of a PEM file"
                )


def _overridden(tls: TlsSection) -> list[tuple[str, TlsOverrides]]:
    every = [("tls.management", tls.management), ("tls.cluster", tls.cluster)]
    return [(key, each) for key, each in every if each != TlsOverrides()]


def check_proxies(listeners: Sequence[str], trusted: Sequence[str]) -> None:
    """ConfigError: it is not said, or not understood, who may send PROXY headers."""
    if listeners and not trusted:
        raise ConfigError(
            "listeners.proxy_protocol is set and listeners.proxy_trusted is not; allowed: the "
            "addresses or networks of the proxies, such as 10.0.0.0/8"
        )
    for each in trusted:
        try:
            ip_network(each)
        except ValueError as error:
            raise ConfigError(
                f"listeners.proxy_trusted: {error}; allowed: addresses or networks such as "
                "10.0.0.0/8"
            ) from error

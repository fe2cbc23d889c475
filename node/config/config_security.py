"""Settings of TLS and of logins, and the rules between them.

`tls` holds for all listeners that speak TLS; `tls.management` and `tls.cluster` say what is
different there. Which listeners do, `listeners` says. See docs/guide/security.md.
"""

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from node.config.config_layers import ConfigError, Secret, Section

Verify = Literal["verify_none", "verify_peer"]
Mechanism = Literal["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL")
PasswordHashing = Literal["argon2id", "sha256", "sha512"]


class TlsOverrides(Section, frozen=True, kw_only=True):
    """Of one listener; what is not set is as in `tls`."""

    # Certificate of this listener.
    certfile: Path | None = None
    # Its private key.
    keyfile: Path | None = None
    # Authorities that this listener trusts.
    cacertfile: Path | None = None
    # Whether certificates of clients are verified here.
    verify: Verify | None = None
    # Whether clients need a certificate here.
    fail_if_no_peer_cert: bool | None = None


class TlsSection(Section, frozen=True, kw_only=True):
    """Certificates and versions of listeners with TLS."""

    # PEM file with the authorities whose certificates are trusted, of clients and of other nodes.
    cacertfile: Path | None = None
    # PEM file with the certificate of the node, and those between it and the authority.
    certfile: Path | None = None
    # PEM file with its private key.
    keyfile: Path | None = None
    # Password of the private key.
    password: Secret = ""
    # `verify_peer`: a certificate that a client shows must be signed by one of `tls.cacertfile`.
    verify: Verify = "verify_none"
    # Refuse clients that show no certificate; needs `verify_peer`.
    fail_if_no_peer_cert: bool = False
    # TLS versions that are offered.
    versions: tuple[Literal["tlsv1.2", "tlsv1.3"], ...] = ("tlsv1.2", "tlsv1.3")
    # Ciphers of TLS 1.2, in OpenSSL's form; empty: OpenSSL's choice.
    ciphers: Annotated[str, Meta(max_length=4096)] = ""
    # A handshake that takes longer is given up.
    handshake_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    # Milliseconds between two looks whether the files have changed; 0: they are read again on
    # SIGHUP alone.
    reload_interval_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 10_000
    # Whether the certificates of other nodes must have the name under which they are reached (with
    # `verify_peer`).
    peer_check_hostname: bool = True
    # Which part of a client's certificate names the user, for the mechanism EXTERNAL.
    cert_login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = (
        "distinguished_name"
    )
    # For `subject_alternative_name`: the kind of name.
    cert_login_san_type: Literal["dns", "ip", "email", "uri"] = "dns"
    # Which of the names of that kind, from 0.
    cert_login_san_index: Annotated[int, Meta(ge=0, le=255)] = 0
    management: TlsOverrides = TlsOverrides()
    cluster: TlsOverrides = TlsOverrides()


class AuthSection(Section, frozen=True, kw_only=True):
    """How clients log in."""

    # SASL mechanisms that clients are offered. EXTERNAL is offered only to those with a verified
    # certificate.
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    # How passwords are kept that are set from now on.
    password_hashing: PasswordHashing = "argon2id"
    # Whether a hash of another kind is replaced when its user logs in.
    rehash_on_login: bool = False
    # Whether the node goes without the default user `guest` and without anonymous logins.
    production: bool = False
    # Failed logins of an address, or of a user from wherever, in `failures_window_ms`; after them
    # further ones are refused unseen for `failures_pause_ms`. 0: no limit.
    failures_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 30
    # Milliseconds over which failed logins are counted.
    failures_window_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] = 60_000
    # Milliseconds for which further logins are refused unseen.
    failures_pause_ms: Annotated[int, Meta(ge=100, le=86_400_000)] = 10_000
    # Whether logins are counted by address and user as well.
    track_attempt_source: bool = False

    @property
    def offered(self) -> tuple[Mechanism, ...]:
        """The mechanisms, as far as production lets them be."""
        unfit = ("ANONYMOUS",) if self.production else ()
        return tuple(each for each in self.mechanisms if each not in unfit)


class OauthSection(Section, frozen=True, kw_only=True):
    """Logins by access tokens (JWT) in place of passwords; off without `resource_server_id`."""

    # The audience of tokens (`aud`), and the beginning of scopes; empty: no login by tokens.
    resource_server_id: Annotated[str, Meta(max_length=255)] = ""
    # What stands before scopes that are meant for this broker; none: the id and a dot.
    scope_prefix: Annotated[str, Meta(max_length=255)] | None = None
    # Address of the provider's keys (JWKS): https, or http on this machine.
    jwks_uri: str = ""
    # The keys in a file, in place of an address.
    jwks_file: Path | None = None
    # The claim `iss` that tokens must have; empty: any.
    issuer: str = ""
    # Whether the claim `aud` of a token must name `resource_server_id`.
    verify_audience: bool = True
    # Claims that may name the user; the first that is in the token does.
    user_claims: tuple[str, ...] = ("sub", "client_id")
    # The claims of a token in which scopes are looked for.
    scope_claims: tuple[str, ...] = ("scope",)
    # Seconds by which the provider's clock and this one may differ.
    leeway_s: Annotated[int, Meta(ge=0, le=300)] = 0
    # Seconds after which the keys are asked for again.
    keys_max_age_s: Annotated[int, Meta(ge=60, le=86_400)] = 3600


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

"""What the configuration says about logins, and whether a node may serve clients in production."""

from typing import TYPE_CHECKING, Final

from node.auth.access import AccessView
from node.auth.asked_access import AskedRights
from node.auth.login import LoginRules
from node.auth.passwords import HASHINGS, password_matches
from node.config.config_back_ends import (
    HTTP,
    HTTP_RIGHTS,
    INTERNAL,
    LDAP,
    LDAP_RIGHTS,
    names_of,
)

if TYPE_CHECKING:
    from node.auth.back_ends import BackEnds
    from node.auth.tokens import TokenVerifier
    from node.config.settings import Config

DEFAULT_USER: Final = "guest"  # with its name as password


def rules_of(config: "Config") -> LoginRules:
    auth = config.auth
    names = names_of(config.auth_backends)
    return LoginRules(
        config.loopback_users,
        "" if auth.production else config.anonymous_login_user,
        config.anonymous_login_pass,
        auth.offered,
        HASHINGS[auth.password_hashing],
        auth.rehash_on_login,
        auth.failures_max,
        auth.failures_window_ms / 1000,
        auth.failures_pause_ms / 1000,
        auth.track_attempt_source,
        bool(config.oauth.resource_server_id),
        names != (INTERNAL,),
        names[0] == INTERNAL,
    )


def back_ends_of(config: "Config", access: AccessView) -> "BackEnds | None":
    """Who checks passwords beside the definitions; None: nothing does. BackEndsUnavailable."""
    names = names_of(config.auth_backends)
    if names == (INTERNAL,):
        return None
    from node.auth.back_ends import AskedBackEnd, BackEnds, Limits

    lifetime_s = config.auth_cache.cache_ttl / 1000
    asked: dict[str, AskedBackEnd] = {}
    rights: AskedRights | None = None
    if HTTP in names:
        from node.auth.http_back_end import HttpBackEnd

        http = config.auth_http
        limits = Limits(http.requests_max, http.request_timeout / 1000, lifetime_s)
        back_end = HttpBackEnd(http)
        asked[HTTP] = AskedBackEnd(back_end, limits)
        if HTTP_RIGHTS in config.auth_backends:
            rights = AskedRights(back_end.may, asked[HTTP], lifetime_s)
    if LDAP in names:
        from node.auth.ldap_back_end import LdapBackEnd

        ldap = config.auth_ldap
        limits = Limits(ldap.connections_max, ldap.timeout / 1000, lifetime_s)
        has_rights = LDAP_RIGHTS in config.auth_backends
        asked[LDAP] = AskedBackEnd(LdapBackEnd(ldap, has_rights), limits)
    return BackEnds(names, asked, access, rights)


def verifier_of(config: "Config") -> "TokenVerifier | None":
    """Who verifies access tokens; None: they are not configured. TokensUnavailable: see there."""
    oauth = config.oauth
    if not oauth.resource_server_id:
        return None
    from node.auth.tokens import TokenRules, TokenVerifier

    prefix = oauth.scope_prefix
    return TokenVerifier(
        TokenRules(
            oauth.resource_server_id,
            f"{oauth.resource_server_id}." if prefix is None else prefix,
            oauth.jwks_uri,
            oauth.jwks_file,
            oauth.issuer,
            oauth.verify_audience,
            oauth.user_claims,
            oauth.scope_claims,
            oauth.leeway_s,
            oauth.keys_max_age_s,
        )
    )


def production_fault(config: "Config", access: AccessView, user_count: int) -> str:
    """Why this node must not serve clients with `auth.production`; '': it may."""
    if not config.auth.production:
        return ""
    if user_count == 0:
        return "auth.production is set and there is no user: name the first ones in `users`"
    default = access.user(DEFAULT_USER)
    if default is None or not default.password_hash:
        return ""
    if password_matches(default.password_hash, default.hashing, DEFAULT_USER.encode()):
        return (
            f"auth.production is set and user '{DEFAULT_USER}' has the well-known password "
            "knows: start without it once, and change the password or delete the user"
        )
    return ""

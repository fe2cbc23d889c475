"""Access tokens as passwords: which are good, what their scopes allow, where keys come from."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from node.auth import tokens
from node.auth.access import INTERNAL_USER
from node.auth.login import Accepted, LoginRules, Refused
from node.auth.login_checks import LoginChecks
from node.auth.permissions import CONFIGURE, READ, WRITE, PermissionCache
from node.auth.sasl import Credentials
from node.auth.source import Source
from node.auth.token_scopes import TokenAccess, parse_scopes
from node.auth.tokens import TokenRules, TokensUnavailable, TokenVerifier
from tests.unit.node.fake_access import FakeAccess
from tests.unit.node.identity_provider import Provider

ALL = "warren.configure:*/*", "warren.write:*/*", "warren.read:*/*"
FAR = Source("10.0.0.1")


@pytest.fixture(scope="module")
def shared() -> Provider:
    made = Provider()
    made.add_key("first")
    return made


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    made.add_key("first", "ES256")
    yield made
    made.close()


def rules(**more: Any) -> TokenRules:
    found: dict[str, Any] = {
        "resource_server_id": "warren",
        "scope_prefix": "warren.",
        "jwks_uri": "",
        "jwks_file": None,
        "issuer": "https://id.example",
        "verify_audience": True,
        "user_claims": ("sub", "client_id"),
        "scope_claims": ("scope", "roles"),
        "leeway_s": 0,
        "keys_max_age_s": 3600,
    }
    return TokenRules(**{**found, **more})


def by_file(provider: Provider, folder: Path, **more: Any) -> TokenVerifier:
    file = folder / "keys.json"
    file.write_bytes(provider.public_keys())
    return TokenVerifier(rules(jwks_file=file, **more))


def verified(verifier: TokenVerifier, token: str | bytes) -> Accepted | Refused:
    raw = token.encode() if isinstance(token, str) else token
    return asyncio.run(verifier.verify(raw))


def test_a_token_names_the_user_its_rights_and_its_end(shared: Provider, tmp_path: Path) -> None:
    scopes = "warren.read:/%2Forders".replace("/%2F", "%2F/"), "warren.tag:monitoring"
    outcome = verified(by_file(shared, tmp_path), shared.token(*scopes, lives_s=60))
    assert isinstance(outcome, Accepted)
    assert (outcome.user, outcome.tags) == ("orders", ("monitoring",))
    assert outcome.access is not None
    assert outcome.access.permissions("orders", "/") == ("^$", "^$", "^(?:orders)$")
    assert 0 < outcome.expires_at_ms - 1000 * time.time() <= 60_000


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "over": ({"exp": 1}, "Signature has expired"),
    "not yet": ({"nbf": 1 << 40}, "The token is not yet valid (nbf)"),
    "for others": ({"aud": "shop"}, "Audience doesn't match"),
    "without audience": ({"aud": None}, 'Token is missing the "aud" claim'),
    "from others": ({"iss": "https://evil.example"}, "Invalid issuer"),
    "end is no time": ({"exp": "soon"}, "Expiration Time claim (exp) must be an integer."),
    "no user": ({"sub": ""}, "it names no user by sub or client_id"),
    "reserved user": ({"sub": INTERNAL_USER}, "the name is reserved"),
    "scopes too long": ({"scope": f"warren.read:*/{'a' * 5000}"}, "its scopes are too long"),
}


@pytest.mark.parametrize("case", WRONG)
def test_claims_that_do_not_hold_are_refused(case: str, shared: Provider, tmp_path: Path) -> None:
    changes, text = WRONG[case]
    claims = {**shared.claims(*ALL), **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    outcome = verified(by_file(shared, tmp_path), shared.sign(claims))
    assert isinstance(outcome, Refused)
    assert text in outcome.text


def unsigned(claims: dict[str, Any], algorithm: str) -> str:
    parts = {"alg": algorithm, "typ": "JWT", "kid": "first"}, claims
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()) for each in parts)
    return ".".join(each.decode().rstrip("=") for each in encoded) + "."


def by_public_key(claims: dict[str, Any], public: bytes) -> str:
    """A token whose secret is the key that is known to all."""
    content = unsigned(claims, "HS256")[:-1]
    digest = hmac.digest(public, content.encode(), "sha256")
    return f"{content}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def test_signatures_that_do_not_hold_are_refused(shared: Provider, tmp_path: Path) -> None:
    verifier = by_file(shared, tmp_path)
    good, claims = shared.token(*ALL), shared.claims(*ALL)
    other = Provider()
    other.add_key("first")  # The same id, another key.
    public = (tmp_path / "keys.json").read_bytes()
    header, body, signature = good.split(".")
    forged = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "root"}).encode()).decode()
    for token in (
        other.sign(claims),
        unsigned(claims, "none"),
        unsigned(claims, "RS256"),
        by_public_key(claims, public),
        f"{header}.{forged.rstrip('=')}.{signature}",
        f"{header}.{body}.",
        "eyJ..",
        "eyJ" + "a" * (tokens.TOKEN_BYTES_MAX + 1),
        b"eyJ\xff.\xff.\xff",
    ):
        outcome = verified(verifier, token)
        assert isinstance(outcome, Refused), token
        assert outcome.text.startswith("login by token refused: "), token
        assert not outcome.user
    assert isinstance(verified(verifier, good), Accepted)


def test_a_key_for_secrets_between_two_is_not_taken_from_the_keys(tmp_path: Path) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    file = tmp_path / "keys.json"
    key = {"kty": "oct", "k": secret, "alg": "HS256", "kid": "first"}
    file.write_text(json.dumps({"keys": [key]}))
    token = jwt.encode(Provider().claims(*ALL), b"s" * 32, "HS256", headers={"kid": "first"})
    assert isinstance(verified(TokenVerifier(rules(jwks_file=file)), token), Refused)


def test_scopes_may_be_a_list_and_stand_in_several_claims(shared: Provider, tmp_path: Path) -> None:
    claims = {**shared.claims("warren.read:*/a"), "roles": ["warren.read:*/b", 7, "other.read:*/c"]}
    outcome = verified(by_file(shared, tmp_path), shared.sign(claims))
    assert isinstance(outcome, Accepted)
    assert outcome.access is not None
    assert outcome.access.permissions("orders", "any") == ("^$", "^$", "^(?:a|b)$")


def access(*scopes: str) -> TokenAccess:
    return TokenAccess(parse_scopes(scopes, "")[0])


def test_patterns_of_scopes_are_those_of_rabbitmq() -> None:
    subject = access("read:sh*/or*rs", "write:%2F/a%2Fb", "configure:shop/*", "write:shop/x.y")
    shop = PermissionCache(subject, "u", "shop")
    assert shop.allows(READ, "orders")
    assert not shop.allows(READ, "orders2")
    assert shop.allows(CONFIGURE, "")
    assert shop.allows(WRITE, "x.y")
    assert not shop.allows(WRITE, "xzy")
    assert PermissionCache(subject, "u", "/").allows(WRITE, "a/b")
    assert subject.permissions("u", "elsewhere") is None


@pytest.mark.parametrize(
    "scope", ["read", "read:", "read:a", "read:/b", "read:a/b/c/d", "admin:a/b", "tag:root", ""]
)
def test_what_is_no_scope_allows_nothing(scope: str) -> None:
    assert parse_scopes([scope], "") == ([], ())


def test_routing_keys_of_scopes_are_topic_permissions() -> None:
    subject = access("write:*/t/eu.*", "write:*/u", "read:*/t/*")
    cache = PermissionCache(subject, "u", "/")
    assert cache.topic_refusal(WRITE, "t", b"eu.orders") is None
    assert cache.topic_refusal(WRITE, "t", b"us.orders") is not None
    assert cache.topic_refusal(READ, "t", b"us.orders") is None
    assert cache.topic_refusal(WRITE, "u", b"us.orders") is None


def test_a_renewed_token_changes_rights_that_were_cached() -> None:
    subject = access("read:*/a")
    cache = PermissionCache(subject, "u", "/")
    assert cache.allows(READ, "a")
    subject.renew(access("read:*/b"))
    assert not cache.allows(READ, "a")
    assert cache.allows(READ, "b")


class Clock:
    """`monotonic` of the module, moved by tests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(tokens, "monotonic", lambda: self.now)


def test_keys_are_asked_for_again_when_one_is_not_known(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    verifier = TokenVerifier(rules(jwks_uri=provider.serve()))
    first = provider.token(*ALL)

    async def at_once() -> list[Accepted | Refused]:
        return await asyncio.gather(*(verifier.verify(first.encode()) for _ in range(5)))

    assert all(isinstance(each, Accepted) for each in asyncio.run(at_once()))
    assert provider.asked == 1
    provider.add_key("second", "ES256")
    second = provider.token(*ALL)
    assert isinstance(verified(verifier, second), Refused)  # It has only just asked.
    assert provider.asked == 1
    clock.now += tokens.REFRESH_S
    assert isinstance(verified(verifier, second), Accepted)
    provider.drop_key("first")
    clock.now += 3601
    assert isinstance(verified(verifier, first), Refused)


def test_known_keys_serve_while_the_provider_fails_until_they_are_too_old(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(monkeypatch)
    verifier = TokenVerifier(rules(jwks_uri=provider.serve()))
    token = provider.token(*ALL)
    assert isinstance(verified(verifier, token), Accepted)
    provider.status = 503
    clock.now += 3601
    assert isinstance(verified(verifier, token), Accepted)
    assert "it answers 503" in caplog.text
    provider.close()
    clock.now += 3600
    assert isinstance(verified(verifier, token), Refused)
    assert token not in caplog.text


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"keys": 1}', None])
def test_a_file_without_keys_fails_the_start(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TokensUnavailable, match=r"oauth\.jwks_file = "):
        TokenVerifier(rules(jwks_file=file))


def test_a_user_of_loopback_comes_from_there_by_token_too(shared: Provider, tmp_path: Path) -> None:
    verifier = by_file(shared, tmp_path)
    checks = LoginChecks(FakeAccess(), LoginRules(tokens=True), tokens=verifier)
    token = Credentials("", shared.token(*ALL, user="guest").encode())
    refused = asyncio.run(checks.login_with(token, FAR))
    assert isinstance(refused, Refused)
    assert refused.text == "login by token refused: the user can only connect via localhost"
    assert isinstance(asyncio.run(checks.login_with(token, Source("127.0.0.1"))), Accepted)
    checks.close()


def test_a_token_renews_only_a_login_of_its_user(shared: Provider, tmp_path: Path) -> None:
    checks = LoginChecks(FakeAccess(), LoginRules(tokens=True), tokens=by_file(shared, tmp_path))
    token = shared.token(*ALL).encode()
    assert isinstance(asyncio.run(checks.renew(token, "orders")), Accepted)
    assert isinstance(asyncio.run(checks.renew(token, "bills")), Refused)
    assert isinstance(asyncio.run(checks.renew(b"secret", "orders")), Refused)
    checks.close()

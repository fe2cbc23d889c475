"""Access tokens (JWT) as passwords: OAuth 2 and OpenID Connect.

    verifier = TokenVerifier(rules)
    outcome = await verifier.verify(token)       # Accepted with the token's own access, or Refused

A token is good if a key of the identity provider has signed it by an asymmetric algorithm, it is
for this resource server, and its time has come and is not over. Keys come from a file or from the
provider's address (JWKS), which is asked again for a key that is not known, at most every
REFRESH_S, and when what is known is older than `keys_max_age_s`. A provider that does not answer
within FETCH_S refuses logins with unknown keys; keys that are known serve until they are too old.
Texts for the log never quote a token.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from node.auth.access import INTERNAL_USER
from node.auth.login import Accepted, Refused, on_one_line
from node.auth.token_scopes import TokenAccess, parse_scopes, too_long

if TYPE_CHECKING:
    import jwt

log = logging.getLogger("warren.connection")

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
REFRESH_S: Final = 10.0
FETCH_S: Final = 5.0
KEYS_BYTES_MAX: Final = 1 << 20
TOKEN_BYTES_MAX: Final = 16 << 10


class TokensUnavailable(Exception):
    """PyJWT is not installed, or the keys cannot be read; the text is for the operator."""


class TokenRules(Struct, frozen=True):
    """What the configuration says about tokens."""

    resource_server_id: str
    scope_prefix: str
    jwks_uri: str
    jwks_file: Path | None
    issuer: str
    verify_audience: bool
    user_claims: tuple[str, ...]
    scope_claims: tuple[str, ...]
    leeway_s: int
    keys_max_age_s: int


class Keys:
    """The provider's public keys, by id."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_s = self._known_s = float("-inf")
        self._asking = asyncio.Lock()
        if rules.jwks_file is not None:
            self._take(rules.jwks_file.read_bytes())

    async def find(self, key_id: str) -> "jwt.PyJWK | None":
        """The key of that id; '': the only one there is."""
        if self._is_stale(key_id):
            async with self._asking:
                if self._is_stale(key_id):
                    await self._ask()
        if monotonic() - self._known_s > 2 * self._rules.keys_max_age_s and self._rules.jwks_uri:
            return None  # The provider may have withdrawn them.
        if key_id:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _is_stale(self, key_id: str) -> bool:
        if not self._rules.jwks_uri or monotonic() - self._asked_s < REFRESH_S:
            return False
        is_unknown = bool(key_id) and key_id not in self._keys
        return is_unknown or monotonic() - self._known_s > self._rules.keys_max_age_s

    async def _ask(self) -> None:
        from aiohttp import ClientError, ClientSession, ClientTimeout

        uri = self._rules.jwks_uri
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=FETCH_S)) as session,
                session.get(uri, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise ValueError(f"it answers {answer.status}")
                content = b""
                async for part in answer.content.iter_any():
                    content += part
                    if len(content) > KEYS_BYTES_MAX:
                        raise ValueError(f"it has more than {KEYS_BYTES_MAX} bytes")
            self._take(content)
        except (ClientError, TimeoutError, ValueError) as error:
            text = on_one_line(str(error)) or type(error).__name__
            log.error("the keys of tokens cannot be had from %s: %s", uri, text)
        finally:
            self._asked_s = monotonic()  # Not earlier: logins that come meanwhile wait for it.

    def _take(self, content: bytes) -> None:
        """Replace the keys. ValueError: it is no set of keys."""
        import jwt

        found: dict[str, jwt.PyJWK] = {}
        listed = json.loads(content)
        if not isinstance(listed, dict) or not isinstance(listed.get("keys"), list):
            raise ValueError("it is no set of keys (JWKS)")
        for number, each in enumerate(listed["keys"]):
            if not isinstance(each, dict) or each.get("use", "sig") != "sig":
                continue
            try:
                key = jwt.PyJWK(each)
            except jwt.PyJWTError:
                continue  # Of a kind that is not known: tokens signed by it are refused.
            if key.algorithm_name in ALGORITHMS:
                found[str(each.get("kid", number))] = key
        self._keys = found
        self._known_s = monotonic()


class TokenVerifier:
    """See the module."""

    def __init__(self, rules: TokenRules) -> None:
        """TokensUnavailable: it cannot work so."""
        try:
            import jwt  # noqa: F401
        except ImportError as error:
            text = "oauth.resource_server_id is set and PyJWT is not installed: "
            raise TokensUnavailable(f"{text}pip install 'warrenmq[oauth]'") from error
        self._rules = rules
        try:
            self._keys = Keys(rules)
        except (OSError, ValueError) as error:
            text = f"oauth.jwks_file = {rules.jwks_file}: {error}"
            raise TokensUnavailable(text) from error

    async def verify(self, token: bytes) -> Accepted | Refused:
        """The login that the token stands for."""
        import jwt

        if len(token) > TOKEN_BYTES_MAX:
            return refused(f"it has more than {TOKEN_BYTES_MAX} bytes")
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            key = await self._keys.find(str(header.get("kid", "")))
            if key is None:
                return refused("no key of the identity provider has signed it")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=rules.resource_server_id if rules.verify_audience else None,
                issuer=rules.issuer or None,
                leeway=rules.leeway_s,
                options={"verify_aud": rules.verify_audience},
            )
        except jwt.PyJWTError as error:
            return refused(on_one_line(str(error)))
        return self._accepted(claims)

    def _accepted(self, claims: Mapping[str, Any]) -> Accepted | Refused:
        rules = self._rules
        named = (claims.get(each) for each in rules.user_claims)
        user = next((each for each in named if isinstance(each, str) and each), "")
        if user == INTERNAL_USER:
            return refused("the name is reserved")
        if not user:
            return refused(f"it names no user by {' or '.join(rules.user_claims)}")
        scopes, tags = parse_scopes(scopes_in(claims, rules.scope_claims), rules.scope_prefix)
        if too_long(scopes):
            return refused("its scopes are too long together", user)
        expires = claims.get("exp")
        at_ms = int(1000 * (float(expires) + rules.leeway_s)) if expires is not None else 0
        return Accepted(user, tags, TokenAccess(scopes), at_ms)


def scopes_in(claims: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """A claim is a text with spaces between scopes, or a list of scopes."""
    found: list[str] = []
    for name in names:
        value = claims.get(name)
        if isinstance(value, str):
            found.extend(value.split())
        elif isinstance(value, list):
            found.extend(each for each in value if isinstance(each, str))
    return found


def refused(why: str, user: str = "") -> Refused:
    return Refused(f"login by token refused: {why}", user)

"""Decides logins. The slow part, checking a password, is handed out as a value and taken back.

`begin` answers at once where it can: an unknown mechanism, a user who may come from loopback only,
a password that was verified before. Else it answers `Check`, and `finish` gets the result:

    outcome = authenticator.begin("PLAIN", response, source)
    if isinstance(outcome, Check):
        outcome = authenticator.finish(outcome, outcome.run())  # `run` in a worker thread

With back ends outside the node (`node.auth.back_ends`) a `Check` goes through all of them in their
order, unless a password of the definitions, which come first, was verified before.

A verified password is remembered as its HMAC under a key of this process, bounded in number, and
together with the stored hash: a changed password is checked again. EXTERNAL needs no password: the
user is whom a verified certificate names.
"""

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from node.auth.access import AccessView
from node.auth.passwords import Hashing, hash_password, new_salt, password_matches
from node.auth.sasl import MECHANISMS, Credentials, Malformed, parse_response
from node.auth.source import Source

REMEMBERED_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Accepted:
    """Logged in."""

    user: str
    tags: tuple[str, ...]
    # Of a login by token: what this connection may, and until when (ms since 1970; 0: for ever).
    access: AccessView | None = field(default=None, compare=False)
    expires_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Not logged in. `text` is for our log; the peer learns only that it was refused."""

    text: str
    user: str = field(default="", compare=False)  # as the peer says; '': it named none
    is_unseen: bool = field(default=False, compare=False)  # the password was not checked


@dataclass(frozen=True, slots=True)
class Check:
    """A password to be checked; `run` takes tens of milliseconds and touches nothing else."""

    mechanism: str
    source: Source
    credentials: Credentials
    password_hash: str = field(repr=False)  # '': no such user, or none with a password
    hashing: str
    proof: bytes = field(repr=False)  # HMAC of the password under the key of this process
    hashing_of_new: Hashing = "argon2id"
    is_token: bool = False  # the password is an access token: there is nothing to `run`
    is_asked: bool = False  # back ends decide, perhaps the definitions among them

    def run(self) -> bool:
        if not self.password_hash:
            # So that the time taken does not tell which users there are.
            hash_password("", self.hashing_of_new, new_salt())
            return False
        return password_matches(self.password_hash, self.hashing, self.credentials.password)


LoginOutcome = Accepted | Refused | Malformed


@dataclass(frozen=True, slots=True)
class LoginRules:
    """What the configuration says about logins. An empty anonymous user: none.

    No more than `failures_max` failed logins in a window, then a pause; 0: no limit.
    """

    loopback_users: tuple[str, ...] = ("guest",)
    anonymous_user: str = ""
    anonymous_password: str = field(default="", repr=False)
    mechanisms: tuple[str, ...] = MECHANISMS
    hashing: Hashing = "argon2id"  # of new passwords
    rehash: bool = False  # when a password is shown whose hash is of another kind
    failures_max: int = 0
    failures_window_s: float = 60.0
    failures_pause_s: float = 10.0
    track_sources: bool = False
    tokens: bool = False  # a password that looks like an access token is taken for one
    asks: bool = False  # back ends outside the node check passwords
    internal_first: bool = True  # the definitions come before them


class Authenticator:
    """Logins against the users of `access`.

    Invariant: `_verified` holds, by user, the hash and the proof of a password that matched it.
    """

    def __init__(self, access: AccessView, rules: LoginRules, process_key: bytes) -> None:
        self._access = access
        self._rules = rules
        self._process_key = process_key
        self._verified: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def begin(self, mechanism: str, response: bytes, source: Source) -> LoginOutcome | Check:
        """Decide a SASL login as far as that goes without checking a password."""
        if mechanism not in self._rules.mechanisms:
            return Refused(
                f"login refused: mechanism '{on_one_line(mechanism[:32])}' is not offered"
            )
        if mechanism == "ANONYMOUS":
            return self._begin_anonymous(source)
        if mechanism == "EXTERNAL":
            return self._external(source)
        credentials = parse_response(mechanism, response)
        if isinstance(credentials, Malformed):
            return credentials
        return self.begin_with(mechanism, credentials, source)

    def begin_with(
        self, mechanism: str, credentials: Credentials, source: Source
    ) -> Accepted | Refused | Check:
        """The same for a name and a password; `mechanism` is for the text."""
        name = credentials.user
        if self._rules.tokens and is_token(credentials.password):
            return Check(mechanism, source, credentials, "", "", b"", is_token=True)
        if not self.may_come_from(name, source):
            return _refused(mechanism, name, "can only connect via localhost")
        if not credentials.password:
            return _refused(mechanism, name, "attempted to log in with a blank password")
        proof = hmac.digest(self._process_key, credentials.password, hashlib.sha256)
        record = self._access.user(name)
        rules = self._rules
        if record is None or not record.password_hash:
            check = Check(mechanism, source, credentials, "", "", proof, rules.hashing)
        elif rules.internal_first and self._is_verified(name, record.password_hash, proof):
            return Accepted(name, record.tags)
        else:
            stored, hashing = record.password_hash, record.hashing
            check = Check(mechanism, source, credentials, stored, hashing, proof)
        return replace(check, is_asked=True) if rules.asks else check

    def again(self, check: Check) -> Accepted | None:
        """Whether another check has meanwhile shown the same password to be right."""
        name = check.credentials.user
        record = self._access.user(name)
        if record is not None and self._is_verified(name, record.password_hash, check.proof):
            return Accepted(name, record.tags)
        return None

    def finish(self, check: Check, matches: bool) -> Accepted | Refused:
        """Decide with the result of a check. The user may have changed since it was begun."""
        name = check.credentials.user
        record = self._access.user(name)
        if not matches or record is None or record.password_hash != check.password_hash:
            return _refused(check.mechanism, name, "- invalid credentials")
        self._verified[name] = (check.password_hash, check.proof)
        self._verified.move_to_end(name)
        if len(self._verified) > REMEMBERED_MAX:
            self._verified.popitem(last=False)
        return Accepted(name, record.tags)

    def _external(self, source: Source) -> Accepted | Refused:
        """Whom the certificate names, if there is such a user."""
        name = source.certificate_user
        if not name:
            return Refused("EXTERNAL login refused: there is no certificate that names a user")
        record = self._access.user(name)
        if record is None:
            return _refused("EXTERNAL", name, "is unknown")
        if not self.may_come_from(name, source):
            return _refused("EXTERNAL", name, "can only connect via localhost")
        return Accepted(name, record.tags)

    def may_come_from(self, name: str, source: Source) -> bool:
        return source.is_loopback or name not in self._rules.loopback_users

    def _begin_anonymous(self, source: Source) -> LoginOutcome | Check:
        if not self._rules.anonymous_user:
            return Refused("ANONYMOUS login refused: anonymous logins are off")
        credentials = Credentials(
            self._rules.anonymous_user, self._rules.anonymous_password.encode()
        )
        return self.begin_with("ANONYMOUS", credentials, source)

    def _is_verified(self, name: str, password_hash: str, proof: bytes) -> bool:
        known_hash, known_proof = self._verified.get(name, ("", b""))
        return known_hash == password_hash and hmac.compare_digest(known_proof, proof)


def is_token(password: bytes) -> bool:
    """Whether a password has the form of a JWT: a JSON object in base64url, and two dots."""
    return password.startswith(b"eyJ") and password.count(b".") == 2


def login_refused_text(mechanism: str) -> str:
    """The text that the peer gets in connection.close 403."""
    return (
        f"Login was refused using authentication mechanism {mechanism}. "
        f"For details see the broker logfile."
    )


def _refused(mechanism: str, name: str, why: str) -> Refused:
    return Refused(f"{mechanism} login refused: user '{on_one_line(name)}' {why}", name)


def on_one_line(text: str) -> str:
    """A peer's text for a log line: short, and nothing in it that would begin another line."""
    short = text[:255]
    return short if short.isprintable() else ascii(short)[1:-1]

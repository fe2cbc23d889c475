"""Carries out logins: passwords are checked in two threads, and few wait at a time.

Many connections that come back at once with the same password cost one check: who waits for a
thread looks first whether the password was verified meanwhile. New passwords are hashed in the same
threads. Who guesses is held back (`node.auth.attempts`), and every login is counted.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from node.auth.access import INTERNAL_USER, AccessView
from node.auth.attempts import AttemptLog, Throttle
from node.auth.login import (
    Accepted,
    Authenticator,
    Check,
    LoginOutcome,
    LoginRules,
    Refused,
    on_one_line,
)
from node.auth.passwords import Hashing, hash_password, new_salt
from node.auth.sasl import Credentials, Malformed, user_in
from node.auth.source import Source

if TYPE_CHECKING:
    from node.auth.back_ends import BackEnds
    from node.auth.tokens import TokenVerifier

T = TypeVar("T")

THREADS: Final = 2
WAITING_MAX: Final = 4096  # logins at once; more are refused, and their clients try again

OnLogin = Callable[[Source, str, str], None]  # from where, the user, why not ('': accepted)
OnWeakHash = Callable[[str, str, str, Hashing], None]  # user, old hash, new hash, of which kind


class TooManyWait(Exception):
    """So many passwords wait to be hashed that no more is taken."""


class LoginChecks:
    """One per node, for all listeners. Counts what it decided, for the metrics."""

    def __init__(
        self,
        access: AccessView,
        rules: LoginRules,
        clock: Callable[[], float] = monotonic,
        tokens: "TokenVerifier | None" = None,
        back_ends: "BackEnds | None" = None,
    ) -> None:
        self._authenticator = Authenticator(access, rules, os.urandom(32))
        self._rules = rules
        self._tokens = tokens
        self._back_ends = back_ends
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "login")
        self._turn = asyncio.Semaphore(THREADS)
        self._waiting = 0
        self._throttle = Throttle(
            rules.failures_max, rules.failures_window_s, rules.failures_pause_s
        )
        self.log = AttemptLog(rules.track_sources)
        self.attempts = 0
        self.succeeded = 0
        self.on_login: OnLogin | None = None  # told of every login that is decided
        self.on_weak_hash: OnWeakHash | None = None  # a better one is there for the same password

    def begin(self, mechanism: str, response: bytes, source: Source) -> LoginOutcome | Check:
        """Decide at once where that can be; a `Check` is for `complete`."""
        self.attempts += 1
        user = source.certificate_user if mechanism == "EXTERNAL" else user_in(mechanism, response)
        held = self._held_back(mechanism, user, source)
        if held is not None:
            return self._counted(held, source)
        return self._begun(self._authenticator.begin(mechanism, response, source), source)

    async def complete(self, check: Check) -> Accepted | Refused:
        """Check a password in a thread; the caller sets the deadline by cancelling."""
        if self._waiting >= WAITING_MAX:
            text = f"{check.mechanism} login refused: {WAITING_MAX} logins are waiting"
            return self._counted(Refused(text, check.credentials.user, True), check.source)
        self._waiting += 1
        try:
            if check.is_token:
                return self._counted(await self._verified(check), check.source)
            if check.is_asked:
                assert self._back_ends is not None
                outcome = await self._back_ends.login(check, self._check_asked)
            else:
                outcome = await self._check(check)
            return self._counted(outcome, check.source)
        finally:
            self._waiting -= 1

    async def _check(self, check: Check) -> Accepted | Refused:
        """By the definitions, in a thread."""
        async with self._turn:
            known = self._authenticator.again(check)
            if known is not None:
                return known
            loop = asyncio.get_running_loop()
            matches = await loop.run_in_executor(self._threads, check.run)
            outcome = self._authenticator.finish(check, matches)
            if isinstance(outcome, Accepted) and self._is_weak(check):
                await self._strengthen(check)
            return outcome

    async def _check_asked(self, check: Check) -> Accepted | Refused:
        """The same beside other back ends. No hash is made for users that are not in the
        definitions: how long that takes would tell nothing, for the others are asked too."""
        if not check.password_hash:
            return Refused("there is no such password in the definitions", check.credentials.user)
        return await self._check(check)

    async def _verified(self, check: Check) -> Accepted | Refused:
        assert self._tokens is not None
        outcome = await self._tokens.verify(check.credentials.password)
        may_come = self._authenticator.may_come_from(outcome.user, check.source)
        if may_come or isinstance(outcome, Refused):
            return outcome
        text = "login by token refused: the user can only connect via localhost"
        return Refused(text, outcome.user)

    async def renew(self, token: bytes, user: str) -> Accepted | Refused:
        """The login that a newer token of that user stands for."""
        if self._tokens is None:
            return Refused("login by token refused: tokens are not configured", user)
        outcome = await self._tokens.verify(token)
        if isinstance(outcome, Accepted) and outcome.user != user:
            return Refused("login by token refused: it is of another user", user)
        return outcome

    async def login(
        self, mechanism: str, response: bytes, source: Source
    ) -> Accepted | Refused | Malformed:
        """A whole SASL login."""
        outcome = self.begin(mechanism, response, source)
        return await self.complete(outcome) if isinstance(outcome, Check) else outcome

    async def login_with(self, credentials: Credentials, source: Source) -> Accepted | Refused:
        """A login by name and password, as in HTTP."""
        self.attempts += 1
        held = self._held_back("Basic", credentials.user, source)
        if held is not None:
            return self._counted(held, source)
        outcome = self._begun(self._authenticator.begin_with("Basic", credentials, source), source)
        if isinstance(outcome, Check):
            return await self.complete(outcome)
        assert not isinstance(outcome, Malformed)
        return outcome

    async def hash_of(self, password: str) -> tuple[str, Hashing]:
        """The hash to be stored for a new password, and of which kind. TooManyWait: not now."""
        if self._waiting >= WAITING_MAX:
            raise TooManyWait(f"{WAITING_MAX} passwords wait to be checked or hashed")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._hashed(password), self._rules.hashing
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let no further check begin; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def close_back_ends(self) -> None:
        """End connections to services outside the node."""
        if self._back_ends is not None:
            await self._back_ends.close()

    async def _hashed(self, password: str) -> str:
        hashing = self._rules.hashing
        salt = b"" if hashing == "argon2id" else new_salt()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, hash_password, password, hashing, salt)

    def _is_weak(self, check: Check) -> bool:
        """Whether the stored hash is of another kind than new ones are, and is to be replaced."""
        rules = self._rules
        is_wanted = rules.rehash and self.on_weak_hash is not None
        return is_wanted and check.hashing != rules.hashing

    async def _strengthen(self, check: Check) -> None:
        try:
            password = check.credentials.password.decode()
        except UnicodeDecodeError:
            return  # An operator set it as a hash; it stays as it is.
        hashed = await self._hashed(password)
        assert self.on_weak_hash is not None
        name = check.credentials.user
        self.on_weak_hash(name, check.password_hash, hashed, self._rules.hashing)

    def _held_back(self, mechanism: str, user: str, source: Source) -> Refused | None:
        """Whether too many logins have failed from there, or the name is reserved."""
        if user == INTERNAL_USER:
            return Refused(f"{on_one_line(mechanism)} login refused: the name is reserved", user)
        if not self._throttle.address_pause(source, user, self._clock()):
            return None
        shown = on_one_line(mechanism)
        return Refused(f"{shown} login refused: too many failures from this address", user, True)

    def _begun(self, outcome: LoginOutcome | Check, source: Source) -> LoginOutcome | Check:
        if not isinstance(outcome, Check):
            return self._counted(outcome, source)
        user = outcome.credentials.user
        if not self._throttle.user_pause(user, self._clock()):
            return outcome
        text = f"login refused: too many failures of user '{on_one_line(user)}'"
        return self._counted(Refused(f"{outcome.mechanism} {text}", user, True), source)

    def _counted(self, outcome: T, source: Source) -> T:
        """Note what was decided."""
        user, why = "", ""
        if isinstance(outcome, Accepted):
            self.succeeded += 1
            user = outcome.user
            self._throttle.succeeded(source, user)
        elif isinstance(outcome, (Refused, Malformed)):
            why = outcome.text
            user = outcome.user if isinstance(outcome, Refused) else ""
            if not (isinstance(outcome, Refused) and outcome.is_unseen):
                self._throttle.failed(source, user, self._clock())
        self.log.count(source, user, not why)
        if self.on_login is not None:
            self.on_login(source, user, why)
        return outcome

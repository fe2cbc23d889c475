"""Carries out logins: passwords are checked in two threads, and few wait at a time.

Many connections that come back at once with the same password cost one check: who waits for a
thread looks first whether the password was verified meanwhile.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final, TypeVar

from node.auth.access import AccessView
from node.auth.login import Accepted, Authenticator, Check, LoginOutcome, LoginRules, Refused
from node.auth.sasl import Credentials, Malformed

T = TypeVar("T")

THREADS: Final = 2
WAITING_MAX: Final = 4096  # logins at once; more are refused, and their clients try again


class LoginDesk:
    """One per node, for all listeners. Counts what it decided, for the metrics."""

    def __init__(self, access: AccessView, rules: LoginRules) -> None:
        self._authenticator = Authenticator(access, rules, os.urandom(32))
        self._threads = ThreadPoolExecutor(THREADS, "login")
        self._turn = asyncio.Semaphore(THREADS)
        self._waiting = 0
        self.attempts = 0
        self.succeeded = 0

    def begin(
        self, mechanism: str, response: bytes, peer_is_loopback: bool
    ) -> LoginOutcome | Check:
        """Decide at once where that can be; a `Check` is for `complete`."""
        self.attempts += 1
        return self._counted(self._authenticator.begin(mechanism, response, peer_is_loopback))

    async def complete(self, check: Check) -> Accepted | Refused:
        """Check a password in a thread; the caller sets the deadline by cancelling."""
        if self._waiting >= WAITING_MAX:
            return Refused(f"{check.mechanism} login refused: {WAITING_MAX} logins are waiting")
        self._waiting += 1
        try:
            async with self._turn:
                known = self._authenticator.again(check)
                if known is not None:
                    return self._counted(known)
                loop = asyncio.get_running_loop()
                matches = await loop.run_in_executor(self._threads, check.run)
                return self._counted(self._authenticator.finish(check, matches))
        finally:
            self._waiting -= 1

    async def login(
        self, mechanism: str, response: bytes, peer_is_loopback: bool
    ) -> Accepted | Refused | Malformed:
        """A whole SASL login."""
        outcome = self.begin(mechanism, response, peer_is_loopback)
        return await self.complete(outcome) if isinstance(outcome, Check) else outcome

    async def login_with(
        self, credentials: Credentials, peer_is_loopback: bool
    ) -> Accepted | Refused:
        """A login by name and password, as in HTTP."""
        self.attempts += 1
        outcome = self._authenticator.begin_with("Basic", credentials, peer_is_loopback)
        if isinstance(outcome, Check):
            return await self.complete(outcome)
        return self._counted(outcome)

    def close(self) -> None:
        """Let no further check begin; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _counted(self, outcome: T) -> T:
        if isinstance(outcome, Accepted):
            self.succeeded += 1
        return outcome


def is_loopback(address: str) -> bool:
    """Whether a peer's address is this machine's own; `::ffff:127.0.0.1` is one too."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False  # A name or a path: not what a socket tells of its peer.
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback

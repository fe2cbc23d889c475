"""The login of one connection while it is checked.

login = LoginTask(logins)
outcome = login.begin(mechanism, response, source, decided)
login.is_running                  # `decided` is still to be called
login.cancel()                    # the connection is lost
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from node.auth.login import Accepted, Check, LoginOutcome, Refused
from node.auth.source import Source

if TYPE_CHECKING:
    from node.auth.login_checks import LoginChecks


class LoginTask:
    """See the module. One check at a time."""

    def __init__(self, logins: "LoginChecks") -> None:
        self._logins = logins
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def begin(
        self,
        mechanism: str,
        response: bytes,
        source: Source,
        decided: Callable[[LoginOutcome], None],
    ) -> LoginOutcome | None:
        """Return the outcome if it is known at once; else call `decided` with it later."""
        outcome = self._logins.begin(mechanism, response, source)
        if not isinstance(outcome, Check):
            return outcome
        self._run(self._logins.complete(outcome), decided)
        return None

    def renew(self, token: bytes, user: str, decided: Callable[[LoginOutcome], None]) -> None:
        """Check another token of the user."""
        self._run(self._logins.renew(token, user), decided)

    def _run(
        self,
        check: Coroutine[Any, Any, Accepted | Refused],
        decided: Callable[[LoginOutcome], None],
    ) -> None:
        async def run() -> None:
            outcome = await check
            self._task = None
            decided(outcome)

        self._task = asyncio.get_running_loop().create_task(run())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

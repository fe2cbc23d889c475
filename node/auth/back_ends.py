"""Services outside the node that check passwords: asked within limits, in the order of settings.

`AskedBackEnd` bounds what one service is asked: so many requests at a time, each within its time
limit, so many waiting, and the same request once at a time. A password that it accepted is
remembered for a while, as its HMAC. A service that cannot be asked accepts nothing; the log says so
once in FAULT_LOG_S, and when it answers again.

`BackEnds` goes through the entries of `auth_backends` for a login. The first that accepts it
counts; one that cannot be asked is passed over. What the user may is in the definitions, so a user
that they do not have is refused, unless the service says what the user may: with the login
(`ldap:ldap`), or when it is asked (`http:http`, `node.auth.asked_access`).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from node.auth.access import AccessView
from node.auth.grants import Rights
from node.auth.login import Accepted, Check, Refused, on_one_line

if TYPE_CHECKING:
    from node.auth.asked_access import AskedRights

log = logging.getLogger("warren.connection")

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")

WAITING_MAX: Final = 4096  # requests of one service; more are refused
REMEMBERED_MAX: Final = 4096  # logins of one service
FAULT_LOG_S: Final = 10.0
INTERNAL: Final = "internal"  # the definitions
HTTP: Final = "http"

Internal = Callable[[Check], Awaitable[Accepted | Refused]]


class BackEndsUnavailable(Exception):
    """A service cannot be asked as it is configured; the text is for the operator."""


class BackEndDown(Exception):
    """It cannot be asked now, or its answer cannot be understood; the text is for the log."""


class BackEnd(Protocol):
    """One service. BackEndDown: it cannot be asked now."""

    @property
    def name(self) -> str:
        """As in `auth_backends`."""

    async def authenticate(self, user: str, password: bytes) -> Rights | None:
        """What it says of the user; None: the password is not the user's."""

    async def close(self) -> None: ...


class Limits(Struct, frozen=True):
    """Of one back end."""

    requests_max: int
    timeout_s: float
    lifetime_s: float


class FaultLog:
    """Says that a back end cannot be asked, now and then."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._said_s = float("-inf")
        self._unsaid_count = 0
        self._is_down = False

    def failed(self, why: str) -> None:
        self._is_down = True
        if self._clock() - self._said_s < FAULT_LOG_S:
            self._unsaid_count += 1
            return
        more = f" ({self._unsaid_count} more requests failed before)" if self._unsaid_count else ""
        text = "the back end '%s' cannot be asked, what needs its answer is refused: %s%s"
        log.error(text, self._name, why, more)
        self._said_s = self._clock()
        self._unsaid_count = 0

    def answered(self) -> None:
        if self._is_down:
            self._is_down = False
            self._unsaid_count = 0
            self._said_s = float("-inf")
            log.info("the back end '%s' answers again", self._name)


class Remembered(Generic[Key, T]):
    """Values, each for a while; of more than `most` those that were used least recently go."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._values: OrderedDict[Key, tuple[T, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> T | None:
        found = self._values.get(key)
        if found is None or self._clock() >= found[1]:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: T, lifetime_s: float) -> None:
        self._values[key] = value, self._clock() + lifetime_s
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)


class AskedBackEnd:
    """See the module."""

    def __init__(
        self, back_end: BackEnd, limits: Limits, clock: Callable[[], float] = monotonic
    ) -> None:
        self._back_end = back_end
        self._limits = limits
        self._turn = asyncio.Semaphore(limits.requests_max)
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}
        self._remembered: Remembered[tuple[str, bytes], Rights] = Remembered(REMEMBERED_MAX, clock)
        self._faults = FaultLog(back_end.name, clock)

    async def authenticate(self, user: str, password: bytes, proof: bytes) -> Rights | None:
        """As the service does; `proof` stands for the password among what is remembered."""
        key = user, proof
        rights = self._remembered.get(key)
        if rights is not None:
            return rights
        found = await self.request(key, lambda _: self._back_end.authenticate(user, password))
        if found is not None:
            self._remembered.put(key, found, self._limits.lifetime_s)
        return found

    async def close(self) -> None:
        for task in list(self._under_way.values()):
            task.cancel()
        await self._back_end.close()

    async def request(self, key: Key, ask: Callable[[Key], Awaitable[T]]) -> T:
        """Join the request of that key, or make one. It goes on if a client leaves meanwhile.

        BackEndDown.
        """
        task: asyncio.Task[T] | None = self._under_way.get(key)
        if task is None:
            if len(self._under_way) >= WAITING_MAX:
                why = f"{WAITING_MAX} requests wait for it"
                self._faults.failed(why)
                raise BackEndDown(why)
            task = asyncio.get_running_loop().create_task(self._within_limits(key, ask))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    def _done(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # Those who wait have it; there may be none left.

    async def _within_limits(self, key: Key, ask: Callable[[Key], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._limits.timeout_s), self._turn:
                answer = await ask(key)
        except TimeoutError:
            why = f"no answer within {self._limits.timeout_s:g} s"
            self._faults.failed(why)
            raise BackEndDown(why) from None
        except BackEndDown as error:
            self._faults.failed(str(error))
            raise
        except Exception as error:  # A fault of ours, or of a library, refuses this request alone.
            log.exception("the back end '%s': internal error", self._back_end.name)
            raise BackEndDown("internal error") from error
        self._faults.answered()
        return answer


class BackEnds:
    """See the module."""

    def __init__(
        self,
        names: Sequence[str],
        asked: Mapping[str, AskedBackEnd],
        access: AccessView,
        rights: "AskedRights | None" = None,
    ) -> None:
        """`names` in their order; `asked` has all of them but `internal`. `rights`: of users that
        `http` accepts; None: they are in the definitions."""
        self._names = names
        self._asked = asked
        self._access = access
        self._rights = rights

    async def login(self, check: Check, internal: Internal) -> Accepted | Refused:
        """Decide a login; `internal` does so by the definitions."""
        reasons: list[str] = []
        is_unseen = False
        for name in self._names:
            try:
                outcome = await self._try(name, check, internal)
            except BackEndDown as error:
                is_unseen = True
                reasons.append(f"'{name}' cannot be asked: {error}")
                continue
            if isinstance(outcome, Accepted):
                return outcome
            reasons.append(outcome)
        shown = on_one_line(check.credentials.user)
        text = f"{check.mechanism} login refused: user '{shown}': {'; '.join(reasons)}"
        return Refused(text, check.credentials.user, is_unseen)

    async def close(self) -> None:
        if self._rights is not None:
            self._rights.close()
        for each in self._asked.values():
            await each.close()

    async def _try(self, name: str, check: Check, internal: Internal) -> Accepted | str:
        """The login, or why there is none."""
        if name == INTERNAL:
            outcome = await internal(check)
            return outcome if isinstance(outcome, Accepted) else f"refused by '{name}'"
        user = check.credentials.user
        asked = self._asked[name]
        rights = await asked.authenticate(user, check.credentials.password, check.proof)
        if rights is None:
            return f"refused by '{name}'"
        if self._rights is not None and name == HTTP:
            from node.auth.asked_access import AskedAccess

            own = AskedAccess(self._rights, user, rights.tags, check.source.address)
            return Accepted(user, rights.tags, own)
        if rights.access is not None:
            return Accepted(user, rights.tags, rights.access)
        record = self._access.user(user)
        if record is None:
            return f"accepted by '{name}', and unknown to the definitions"
        return Accepted(user, tuple(dict.fromkeys((*rights.tags, *record.tags))))

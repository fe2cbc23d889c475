"""What users may, asked of a service outside the node for each vhost, exchange, queue and topic.

    access = AskedAccess(rights, "ada", ("management",), "127.0.0.1")
    access.may(WRITE, "/", "exchange", "orders")   # at once, or Undecided

No turn of the loop waits for the service. Where its answer is not known, `Undecided` says so: the
connection puts the command off, and carries it out again when `Undecided.then` calls back.

`AskedRights` remembers the answers for all users of the node: at most ANSWERS_MAX, each for half of
`auth_cache.cache_ttl`. A connection goes by them for as long again (`AskedAccess.version`). A
service that cannot be asked allows nothing; after FAULT_S it is asked again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Final, Literal, NamedTuple

from node.auth.access import UserRecord
from node.auth.back_ends import AskedBackEnd, BackEndDown, Remembered

ANSWERS_MAX: Final = 16_384
FAULT_S: Final = 1.0
HELD_S: Final = 1.0  # in which a command is carried out that has its answer
PATIENCE_S: Final = 30.0
KINDS: Final = ("configure", "write", "read")

Field = tuple[str, str]


class Question(NamedTuple):
    """`fields` in RabbitMQ's words."""

    about: Literal["vhost", "resource", "topic"]
    fields: tuple[Field, ...]


class AskedRights:
    """The answers of one service; see the module. One per node."""

    def __init__(
        self,
        may: Callable[[Question], Awaitable[bool]],
        asked: AskedBackEnd,
        lifetime_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.lifetime_s = lifetime_s / 2
        self.clock = clock
        self.may = may
        self._asked = asked
        self.known: Remembered[Question, bool] = Remembered(ANSWERS_MAX, clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, question: Question) -> bool | None:
        """None: it is not known."""
        return self.known.get(question)

    def ask(self, questions: Sequence[Question], then: Callable[[], None]) -> None:
        """Call back, not before this returns, when all of them are answered."""
        task = asyncio.get_running_loop().create_task(self._ask_all(questions))
        self._tasks.add(task)

        def done(_: object) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.result()
                then()

        task.add_done_callback(done)

    def close(self) -> None:
        """No call comes back any more."""
        for task in self._tasks:
            task.cancel()

    async def _ask_all(self, questions: Sequence[Question]) -> None:
        await asyncio.gather(*map(self._ask, questions))

    async def _ask(self, question: Question) -> None:
        try:
            answer, lifetime_s = await self._asked.request(question, self.may), self.lifetime_s
        except BackEndDown:  # The log says so.
            answer, lifetime_s = False, FAULT_S
        self.known.put(question, answer, lifetime_s)


class Undecided(Exception):
    """What the user may is not known yet. No refusal: those of AMQP are compiled, which classes
    that are not compiled cannot extend."""

    def __init__(self, access: "AskedAccess", questions: tuple[Question, ...]) -> None:
        super().__init__(f"the permissions of user '{access.user_name}' are not known yet")
        self._access = access
        self._questions = questions

    def then(self, call: Callable[[], None]) -> None:
        """Ask, and call back when it is known."""
        self._access.ask(self._questions, call)

    async def wait(self) -> None:
        """Ask, and return when it is known."""
        known = asyncio.Event()
        self.then(known.set)
        await known.wait()


class AskedAccess:
    """Keeps `AccessView`, for the one connection that has logged in."""

    def __init__(
        self, rights: AskedRights, user: str, tags: Sequence[str], address: str = ""
    ) -> None:
        self.user_name = user
        self._rights = rights
        self._tags = ("tags", " ".join(tags))
        self._address = address
        self._version = 0
        self._since_s = rights.clock()
        self._waiting_count = 0
        self._held_until_s = 0.0

    @property
    def version(self) -> int:
        """Goes up now and then, so that what was answered is asked again. It waits for a command
        that waits for answers, which may need several, one after the other; for PATIENCE_S."""
        now_s = self._rights.clock()
        over_s = now_s - self._since_s - self._rights.lifetime_s
        is_waited_for = self._waiting_count > 0 or now_s < self._held_until_s
        if over_s >= (PATIENCE_S if is_waited_for else 0.0):
            self._since_s = now_s
            self._version += 1
        return self._version

    def user(self, name: str) -> UserRecord | None:
        return None

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        """See `AccessView`: whether the user may use the vhost. The expressions are never used;
        `may` decides. Undecided."""
        return ("", "", "") if self.vhosts(user, (vhost,)) else None

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        return None

    def vhosts(self, user: str, names: Sequence[str]) -> list[str]:
        """Which of these vhosts the user may use. Undecided."""
        fields = [
            (("username", user), ("vhost", name), ("ip", self._address), self._tags)
            for name in names
        ]
        answers = self._answers([Question("vhost", each) for each in fields])
        return [name for name, is_allowed in zip(names, answers, strict=True) if is_allowed]

    def may(self, kinds: Sequence[int], vhost: str, object_kind: str, name: str) -> bool:
        """Whether one of these kinds of access to a queue or exchange is permitted. Undecided."""
        object_ = ("resource", object_kind), ("name", name or "amq.default")
        return True in self._answers([self._question("resource", k, vhost, object_) for k in kinds])

    def may_use_keys(self, kind: int, vhost: str, exchange: str, keys: Sequence[str]) -> list[bool]:
        """Which of the keys of a topic exchange are permitted. Undecided."""
        object_ = ("resource", "topic"), ("name", exchange)
        return self._answers(
            [self._question("topic", kind, vhost, object_, ("routing_key", key)) for key in keys]
        )

    def ask(self, questions: Sequence[Question], then: Callable[[], None]) -> None:
        self._waiting_count += 1

        def answered() -> None:
            self._waiting_count -= 1
            self._held_until_s = self._rights.clock() + HELD_S
            then()

        self._rights.ask(questions, answered)

    def _question(
        self,
        about: Literal["resource", "topic"],
        kind: int,
        vhost: str,
        object_: tuple[Field, Field],
        *more: Field,
    ) -> Question:
        place = ("username", self.user_name), ("vhost", vhost)
        return Question(about, (*place, *object_, ("permission", KINDS[kind]), self._tags, *more))

    def _answers(self, questions: Sequence[Question]) -> list[bool]:
        """Undecided: some are not known."""
        found: list[bool] = []
        unknown: list[Question] = []
        for each in questions:
            answer = self._rights.answer(each)
            if answer is None:
                unknown.append(each)
            else:
                found.append(answer)
        if unknown:
            raise Undecided(self, tuple(unknown))
        return found

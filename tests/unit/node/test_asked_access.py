"""Permissions that a service is asked for: what is kept, for how long, and what is asked again."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from node.auth.asked_access import (
    ANSWERS_MAX,
    FAULT_S,
    AskedAccess,
    AskedRights,
    Question,
    Undecided,
)
from node.auth.back_ends import AskedBackEnd, BackEndDown, Limits
from node.auth.permissions import (
    CONFIGURE,
    READ,
    WRITE,
    PermissionCache,
    open_vhosts,
    vhost_refusal,
)
from tests.unit.node.test_back_ends import Service

LIMITS = Limits(requests_max=8, timeout_s=5.0, lifetime_s=10.0)
HALF_S = LIMITS.lifetime_s / 2


class Story:
    """A service that allows names with `own` in them."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.questions: list[Question] = []
        self.is_down = False
        self.allowed = "own"
        asked = AskedBackEnd(Service({}), LIMITS, self.clock)
        self.rights = AskedRights(self.may, asked, LIMITS.lifetime_s, self.clock)
        self.access = self.logged_in()
        self.cache = PermissionCache(self.access, "ada", "/")

    def clock(self) -> float:
        return self.now_s

    def logged_in(self, user: str = "ada") -> AskedAccess:
        return AskedAccess(self.rights, user, ("management", "monitoring"), "10.0.0.1")

    async def may(self, question: Question) -> bool:
        self.questions.append(question)
        if self.is_down:
            raise BackEndDown("it is being repaired")
        fields = dict(question.fields)
        return self.allowed in fields.get("routing_key", fields.get("name", fields["vhost"]))


def play(test: Callable[[Story], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(10):
            await test(Story())

    asyncio.run(whole())


async def decided(check: Callable[[], bool]) -> bool:
    """As those who handle commands do: again, when it is known."""
    while True:
        try:
            return check()
        except Undecided as undecided:
            await undecided.wait()


def test_a_permission_is_asked_for_once_and_in_the_words_of_rabbitmq() -> None:
    async def test(story: Story) -> None:
        with pytest.raises(Undecided, match="user 'ada' are not known yet"):
            story.cache.allows(WRITE, "own.orders", "exchange")
        assert story.questions == [], "nothing waits for it"
        for _ in range(3):
            assert await decided(lambda: story.cache.allows(WRITE, "own.orders", "exchange"))
        assert not await decided(lambda: story.cache.allows(READ, ""))
        place = ("username", "ada"), ("vhost", "/")
        tags = ("tags", "management monitoring")
        exchange = ("resource", "exchange"), ("name", "own.orders"), ("permission", "write")
        default = ("resource", "queue"), ("name", "amq.default"), ("permission", "read")
        assert story.questions == [
            Question("resource", (*place, *exchange, tags)),
            Question("resource", (*place, *default, tags)),
        ]

    play(test)


def test_vhosts_and_routing_keys_are_asked_for_together() -> None:
    async def test(story: Story) -> None:
        def refusal(vhost: str) -> bool:
            return vhost_refusal(story.access, "ada", vhost, True) is not None

        assert await decided(lambda: refusal("other")) and not await decided(lambda: refusal("own"))
        assert dict(story.questions[0].fields)["ip"] == "10.0.0.1"
        names = [f"{kind}{n}" for kind in ("own", "other") for n in range(50)]
        found: list[str] = []
        rounds = 0

        def look() -> bool:
            nonlocal found, rounds
            rounds += 1
            found = open_vhosts(story.access, "ada", names)
            return True

        await decided(look)
        assert (found, rounds) == (names[:50], 2)
        keys = (b"own.a", b"own.b", b"us")
        assert await decided(lambda: story.cache.keys_refusal(WRITE, "t", keys) is not None)
        assert story.cache.keys_refusal(WRITE, "t", keys[:2]) is None
        error = story.cache.keys_refusal(WRITE, "t", keys)
        assert error is not None and "write access to topic 'us'" in error.text

        def may_see() -> bool:
            story.cache.require_any("queue", "own.q")
            return True

        assert await decided(may_see)

    play(test)


def test_a_revocation_takes_effect_within_the_lifetime_of_answers() -> None:
    async def test(story: Story) -> None:
        assert await decided(lambda: story.cache.allows(READ, "own.q"))
        story.allowed = "nothing"
        story.now_s += HALF_S - 1  # Another connection of the user takes over the answer.
        other = PermissionCache(story.logged_in(), "ada", "/")
        assert other.allows(READ, "own.q")
        story.now_s += HALF_S
        assert not await decided(lambda: other.allows(READ, "own.q"))
        assert not await decided(lambda: story.cache.allows(READ, "own.q"))

    play(test)


def test_no_answer_grows_old_while_a_command_waits_for_another() -> None:
    """A service that is slower than its answers live would never let a declare through."""

    async def test(story: Story) -> None:
        def declare() -> bool:
            story.cache.require(CONFIGURE, "queue", "own.q")
            story.cache.require(READ, "queue", "own.q")
            return True

        async def slowly(question: Question) -> bool:
            story.now_s += LIMITS.lifetime_s
            return True

        version = story.access.version
        story.rights.may = slowly
        assert await decided(declare)
        assert story.access.version == version
        story.now_s += HALF_S
        assert story.access.version > version

    play(test)


def test_a_service_that_is_down_allows_nothing_and_is_asked_again_soon() -> None:
    async def test(story: Story) -> None:
        story.is_down = True
        assert not await decided(lambda: story.cache.allows(READ, "own.q"))
        story.is_down = False
        fresh = PermissionCache(story.logged_in(), "ada", "/")
        assert not fresh.allows(READ, "own.q"), "and not in a rush"
        story.now_s += FAULT_S
        assert await decided(
            lambda: PermissionCache(story.logged_in(), "ada", "/").allows(READ, "own.q")
        )

    play(test)


def test_answers_are_bounded() -> None:
    async def test(story: Story) -> None:
        first = Question("vhost", (("vhost", "own"),))
        story.rights.known.put(first, True, 1.0)
        for number in range(ANSWERS_MAX):
            story.rights.known.put(Question("vhost", (("vhost", str(number)),)), True, 1.0)
        assert story.rights.answer(first) is None
        assert len(story.rights.known) == ANSWERS_MAX

    play(test)

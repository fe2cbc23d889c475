"""Services that check passwords: what they are asked, how often, and what happens without them."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable

import pytest

from node.auth.back_ends import (
    FAULT_LOG_S,
    WAITING_MAX,
    AskedBackEnd,
    BackEndDown,
    BackEnds,
    Limits,
)
from node.auth.grants import Rights, rights_of_groups
from node.auth.ldap_back_end import escaped
from node.auth.login import Accepted, LoginRules, Refused
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.auth.permissions import CONFIGURE, READ, WRITE, PermissionCache
from node.auth.sasl import Credentials
from node.auth.source import Source
from node.config.config_back_ends import LdapGrant, PermissionConfig
from tests.unit.node.fake_access import FakeAccess, FakeUser

HERE = Source("127.0.0.1")
LIMITS = Limits(requests_max=2, timeout_s=0.05, lifetime_s=10.0)


class Service:
    """Knows `users`; counts what it is asked, waits for `gate`, and is down for `fault`."""

    name = "http"

    def __init__(self, users: dict[str, tuple[bytes, tuple[str, ...]]]) -> None:
        self.users = users
        self.asked: list[str] = []
        self.most_at_once = self._at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None

    async def authenticate(self, user: str, password: bytes) -> Rights | None:
        self.asked.append(user)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self.gate.wait()
            if self.fault is not None:
                raise self.fault
            known, tags = self.users.get(user, (b"", ()))
            return Rights(tags) if known == password else None
        finally:
            self._at_once -= 1

    async def close(self) -> None:
        self.gate.set()


class Story:
    def __init__(self) -> None:
        self.service = Service({"ada": (b"lovelace", ("monitoring",))})
        self.now_s = 100.0
        self.asked = AskedBackEnd(self.service, LIMITS, lambda: self.now_s)

    async def ask(self, user: str = "ada", password: bytes = b"lovelace") -> Rights | None:
        return await self.asked.authenticate(user, password, hashlib.sha256(password).digest())


def play(test: Callable[[Story], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(10):
            await test(Story())

    asyncio.run(whole())


def test_an_accepted_password_is_remembered_for_a_while_and_a_refused_one_is_not() -> None:
    async def test(story: Story) -> None:
        assert await story.ask() == Rights(("monitoring",))
        assert await story.ask() == Rights(("monitoring",))
        assert await story.ask(password=b"wrong") is None
        assert await story.ask(password=b"wrong") is None
        assert len(story.service.asked) == 3
        story.now_s += LIMITS.lifetime_s
        story.service.users = {}
        assert await story.ask() is None

    play(test)


def test_the_same_login_is_asked_once_at_a_time_and_no_more_than_allowed_at_once() -> None:
    async def test(story: Story) -> None:
        story.service.gate.clear()
        same = [asyncio.ensure_future(story.ask()) for _ in range(5)]
        others = [asyncio.ensure_future(story.ask(f"u{number}")) for number in range(5)]
        await asyncio.sleep(0)
        same[0].cancel()  # Its client has left.
        await asyncio.sleep(0)
        story.service.gate.set()
        assert await asyncio.gather(*same[1:]) == [Rights(("monitoring",))] * 4
        assert await asyncio.gather(*others) == [None] * 5
        assert story.service.asked.count("ada") == 1
        assert story.service.most_at_once == LIMITS.requests_max

    play(test)


def test_a_service_that_does_not_answer_refuses_in_time_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(story: Story) -> None:
        story.service.gate.clear()
        for number in range(3):
            with pytest.raises(BackEndDown, match=r"no answer within 0\.05 s"):
                await story.ask(f"u{number}")
        assert caplog.text.count("cannot be asked") == 1
        story.now_s += FAULT_LOG_S
        with pytest.raises(BackEndDown):
            await story.ask()
        assert "2 more requests failed before" in caplog.text
        story.service.gate.set()
        assert await story.ask() == Rights(("monitoring",))
        assert "answers again" in caplog.text

    caplog.set_level(logging.INFO)
    play(test)


def test_a_fault_of_ours_refuses_one_login() -> None:
    async def test(story: Story) -> None:
        story.service.fault = ZeroDivisionError()
        with pytest.raises(BackEndDown, match="internal error"):
            await story.ask()
        story.service.fault = None
        assert await story.ask() == Rights(("monitoring",))

    play(test)


def test_no_more_requests_wait_than_there_is_room_for() -> None:
    async def test(story: Story) -> None:
        story.service.gate.clear()
        waiting = [asyncio.ensure_future(story.ask(f"u{each}")) for each in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(BackEndDown, match="requests wait"):
            await story.ask()
        await asyncio.gather(*waiting, return_exceptions=True)
        story.service.gate.set()
        assert await story.ask() == Rights(("monitoring",))

    play(test)


ADA, BOB = Credentials("ada", b"lovelace"), Credentials("bob", b"ross")


def logins(story: Story, *names: str) -> LoginChecks:
    """`ada` has no password in the definitions, `bob` has one, `eve` is not there."""
    salt = bytes(4)
    hashing: Hashing = "rabbit_password_hashing_sha256"
    users = {
        "ada": FakeUser("", hashing, ("management",)),
        "bob": FakeUser(hash_password("ross", hashing, salt), hashing, ()),
    }
    access = FakeAccess(users=users)
    rules = LoginRules(asks=True, internal_first=names[0] == "internal")
    back_ends = BackEnds(names, {"http": story.asked}, access)
    return LoginChecks(access, rules, back_ends=back_ends)


@pytest.mark.parametrize("names", [("internal", "http"), ("http", "internal")])
def test_the_first_that_accepts_a_login_counts_and_tags_add_up(names: tuple[str, ...]) -> None:
    async def test(story: Story) -> None:
        subject = logins(story, *names)
        assert await subject.login_with(ADA, HERE) == Accepted("ada", ("monitoring", "management"))
        assert await subject.login_with(BOB, HERE) == Accepted("bob", ())
        assert await subject.login_with(BOB, HERE) == Accepted("bob", ())
        asked = story.service.asked.count("bob")
        assert asked == (0 if names[0] == "internal" else 2)
        wrong = await subject.login_with(Credentials("ada", b"wrong"), HERE)
        assert isinstance(wrong, Refused)
        assert "refused by 'http'" in wrong.text and "refused by 'internal'" in wrong.text
        assert not wrong.is_unseen

    play(test)


def test_a_user_whom_the_definitions_do_not_have_is_refused() -> None:
    async def test(story: Story) -> None:
        story.service.users["eve"] = (b"x", ("administrator",))
        refused = await logins(story, "http").login_with(Credentials("eve", b"x"), HERE)
        assert isinstance(refused, Refused)
        assert "accepted by 'http', and unknown to the definitions" in refused.text

    play(test)


def test_a_service_that_is_down_is_passed_over_and_its_logins_do_not_count_as_wrong() -> None:
    async def test(story: Story) -> None:
        story.service.fault = BackEndDown("the port refuses")
        subject = logins(story, "http", "internal")
        assert await subject.login_with(BOB, HERE) == Accepted("bob", ())
        refused = await subject.login_with(ADA, HERE)
        assert isinstance(refused, Refused) and refused.is_unseen
        assert "'http' cannot be asked: the port refuses" in refused.text
        assert "lovelace" not in refused.text

    play(test)


def test_the_definitions_are_not_asked_where_they_are_not_named() -> None:
    async def test(story: Story) -> None:
        assert isinstance(await logins(story, "http").login_with(BOB, HERE), Refused)

    play(test)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ada", "ada"),
        ("a,cn=admin", "a\\2ccn\\3dadmin"),
        ('a+b"<>;\\', "a\\2bb\\22\\3c\\3e\\3b\\5c"),
        (" a ", "\\20a\\20"),
        ("#a", "\\23a"),
        ("a\0b", "a\\00b"),
        (" ", "\\20"),
        ("", ""),
    ],
)
def test_what_a_user_types_is_one_value_of_a_distinguished_name(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_groups_of_a_directory_say_what_a_user_may() -> None:
    shop = PermissionConfig(vhost="/", configure="^shop", write=".*")
    audit = PermissionConfig(vhost="/", configure="", read="^audit$")
    grants = [
        LdapGrant(group="cn=Shop, ou=groups", tags=("management",), permissions=(shop,)),
        LdapGrant(group="cn=audit,ou=groups", tags=("monitoring",), permissions=(audit,)),
        LdapGrant(group="cn=none,ou=groups", tags=("administrator",)),
    ]
    both = rights_of_groups(grants, ["CN=shop,OU=groups", "cn=audit , ou=groups", "cn=other"])
    assert both.tags == ("management", "monitoring")
    assert both.access is not None
    may = PermissionCache(both.access, "ada", "/")
    assert may.allows(CONFIGURE, "shop.orders") and not may.allows(CONFIGURE, "audit")
    assert may.allows(WRITE, "anything") and may.allows(READ, "audit")
    assert not may.allows(READ, "shop.orders")
    assert both.access.permissions("ada", "other") is None
    nothing = rights_of_groups(grants, [])
    assert nothing.tags == () and nothing.access is not None
    assert nothing.access.permissions("ada", "/") is None

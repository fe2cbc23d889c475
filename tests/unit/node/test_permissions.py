"""Permissions: RabbitMQ's regular expressions, their cache, and the words of a refusal."""

import time

import pytest

from node.auth.patterns import pattern_fault
from node.auth.permissions import (
    CACHED_MAX,
    CONFIGURE,
    READ,
    WRITE,
    PermissionCache,
    vhost_refusal,
)
from tests.unit.node.fake_access import FakeAccess
from tests.unit.reachable import held
from warren.wire.errors import ProtocolError, ReplyCode


def cache_of(configure: str, write: str, read: str) -> tuple[PermissionCache, FakeAccess]:
    access = FakeAccess(permitted={("anna", "/"): (configure, write, read)})
    return PermissionCache(access, "anna", "/"), access


def test_a_user_without_permissions_may_nothing() -> None:
    cache = PermissionCache(FakeAccess(), "anna", "/")
    for kind in (CONFIGURE, WRITE, READ):
        assert not cache.allows(kind, "q")
        assert not cache.allows(kind, "")


def test_the_empty_expression_allows_nothing() -> None:
    cache, _ = cache_of("", "", "")
    assert not cache.allows(READ, "q")
    assert not cache.allows(WRITE, "")  # That is amq.default.


def test_expressions_are_searched_for_and_not_matched_whole() -> None:
    cache, _ = cache_of("b", "^a", "c$")
    assert cache.allows(CONFIGURE, "abc")
    assert cache.allows(WRITE, "abc")
    assert not cache.allows(WRITE, "bac")
    assert cache.allows(READ, "abc")
    assert not cache.allows(READ, "abcd")


def test_the_default_exchange_is_checked_as_amq_default() -> None:
    cache, _ = cache_of("", "^amq\\.default$", "")
    assert cache.allows(WRITE, "")
    assert not cache.allows(WRITE, "amq.direct")


@pytest.mark.parametrize(
    ("kind", "object_kind", "name", "text"),
    [
        (CONFIGURE, "queue", "q", "configure access to queue 'q' in vhost '/'"),
        (WRITE, "exchange", "x", "write access to exchange 'x' in vhost '/'"),
        (WRITE, "exchange", "", "write access to exchange 'amq.default' in vhost '/'"),
        (READ, "queue", "q", "read access to queue 'q' in vhost '/'"),
    ],
)
def test_a_refusal_is_403_with_the_words_of_rabbitmq(
    kind: int, object_kind: str, name: str, text: str
) -> None:
    cache, _ = cache_of("", "", "")
    with pytest.raises(ProtocolError) as raised:
        cache.require(kind, object_kind, name)
    assert raised.value.code is ReplyCode.ACCESS_REFUSED
    assert raised.value.text == f"{text} refused for user 'anna'"


def test_passive_declare_needs_any_of_the_three() -> None:
    cache, _ = cache_of("", "", "^q$")
    cache.require_any("queue", "q")
    with pytest.raises(ProtocolError, match="access to queue 'r'"):
        cache.require_any("queue", "r")


def test_a_revocation_takes_effect_with_the_next_check() -> None:
    cache, access = cache_of(".*", ".*", ".*")
    assert cache.allows(WRITE, "x")
    access.permitted[("anna", "/")] = (".*", "^y$", ".*")
    assert cache.allows(WRITE, "x")  # No change was reported.
    access.version += 1
    assert not cache.allows(WRITE, "x")
    access.permitted.clear()
    access.version += 1
    assert not cache.allows(READ, "x")


def test_answers_are_cached_and_bounded() -> None:
    cache, access = cache_of(".*", "^x", ".*")
    for number in range(CACHED_MAX + 10):
        assert cache.allows(WRITE, f"x{number}")
        assert not cache.allows(WRITE, f"y{number}")
    assert access.reads == 1
    assert len([name for name in held(cache, str) if name[:1] in ("x", "y")]) <= CACHED_MAX


@pytest.mark.parametrize("text", ["(", r"(a)\1", "x(?!y)"])
def test_a_stored_expression_that_cannot_be_compiled_allows_nothing(text: str) -> None:
    cache, _ = cache_of(".*", text, ".*")
    assert not cache.allows(WRITE, "aaxa")
    assert cache.allows(READ, "aaxa")


def test_an_expression_that_would_backtrack_for_ever_is_answered_at_once() -> None:
    cache, access = cache_of(".*", "(a+)+$", ".*")
    start = time.thread_time()
    assert not cache.allows(WRITE, "a" * 254 + "!")
    access.topics["anna", "/", "t"] = ("(a+)+$", "(a|aa)+$")
    for kind in (WRITE, READ):
        assert cache.topic_refusal(kind, "t", b"a" * 254 + b"!") is not None
    assert time.thread_time() - start < 1.0


@pytest.mark.parametrize("text", ["(", "a**", "[", "(?P<a", "x" * 5000, "(" * 3000])
def test_a_bad_expression_is_refused_when_set(text: str) -> None:
    assert pattern_fault(text) is not None


@pytest.mark.parametrize("text", ["", ".*", "^amq\\.", "^(a|b)$"])
def test_a_good_expression_may_be_set(text: str) -> None:
    assert pattern_fault(text) is None


def test_a_vhost_is_refused_with_530() -> None:
    _, access = cache_of("", "", "")
    missing = vhost_refusal(access, "anna", "no", False)
    foreign = vhost_refusal(access, "bob", "/", True)
    assert missing is not None
    assert foreign is not None
    assert missing.reply_text == "NOT_ALLOWED - vhost no not found"
    assert foreign.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'bob'"
    assert vhost_refusal(access, "anna", "/", True) is None


@pytest.mark.parametrize(
    ("kind", "key", "allowed"),
    [
        (WRITE, b"anna.orders", True),
        (WRITE, b"bert.orders", False),
        (READ, b"x", True),
        (READ, b"y", False),
        (READ, b"\xff", False),
    ],
)
def test_keys_of_topic_exchanges_are_limited_where_somebody_says_so(
    kind: int, key: bytes, allowed: bool
) -> None:
    cache, access = cache_of(".*", ".*", ".*")
    assert cache.topic_refusal(kind, "t", key) is None
    access.topics["anna", "/", "t"] = ("^{username}[.]", "^x$")
    refusal = cache.topic_refusal(kind, "t", key)
    assert (refusal is None) == allowed
    assert cache.topic_refusal(kind, "other", key) is None


def test_an_expression_that_cannot_be_read_allows_no_key() -> None:
    cache, access = cache_of(".*", ".*", ".*")
    access.topics["anna", "/", "t"] = ("(", "")
    refusal = cache.topic_refusal(WRITE, "t", b"a")
    assert refusal is not None
    assert (
        refusal.text
        == "write access to topic 'a' in exchange 't' in vhost '/' refused for user 'anna'"
    )
    assert cache.topic_refusal(READ, "t", b"") is None

"""Logins: hashes, SASL responses, who may come from where, and what a storm of them costs."""

import asyncio
import base64
import time

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from node.auth.desk import WAITING_MAX, LoginDesk, is_loopback
from node.auth.login import (
    Accepted,
    Authenticator,
    Check,
    LoginOutcome,
    LoginRules,
    Refused,
    login_refused_text,
)
from node.auth.passwords import Hashing, hash_fault, hash_password, password_matches
from node.auth.sasl import Credentials, Malformed, parse_basic, parse_response
from tests.unit.node.fake_access import FakeAccess, FakeUser
from warren.wire.amqp091.fields import encode_table

SHA256: Hashing = "rabbit_password_hashing_sha256"
SHA512: Hashing = "rabbit_password_hashing_sha512"
SALT = bytes.fromhex("908dc60a")
# The worked example of RabbitMQ's documentation on credentials.
DOCUMENTED_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def access_with(name: str, password: str, *tags: str) -> FakeAccess:
    stored = hash_password(password, SHA256, SALT)
    return FakeAccess(users={name: FakeUser(stored, SHA256, tags)})


def authenticator(access: FakeAccess, rules: LoginRules | None = None) -> Authenticator:
    return Authenticator(access, rules or LoginRules(), b"k" * 32)


def whole(subject: Authenticator, mechanism: str, response: bytes, local: bool) -> LoginOutcome:
    outcome = subject.begin(mechanism, response, local)
    return subject.finish(outcome, outcome.run()) if isinstance(outcome, Check) else outcome


def test_the_hash_of_the_rabbitmq_documentation_is_ours() -> None:
    assert hash_password("test12", SHA256, SALT) == DOCUMENTED_HASH
    assert password_matches(DOCUMENTED_HASH, SHA256, b"test12")
    assert not password_matches(DOCUMENTED_HASH, SHA256, b"test13")


def test_sha512_and_argon2id_match_the_right_password_only() -> None:
    for hashing, stored in (
        (SHA512, hash_password("ä", SHA512, SALT)),
        ("argon2id", hash_password("ä")),
    ):
        assert password_matches(stored, hashing, "ä".encode())
        assert not password_matches(stored, hashing, b"a")
        assert not password_matches(stored, hashing, b"")


@pytest.mark.parametrize(
    ("stored", "hashing"),
    [
        ("", SHA256),
        ("!!", SHA256),
        ("ä", SHA256),
        (base64.b64encode(SALT).decode(), SHA256),
        (DOCUMENTED_HASH, SHA512),
        (DOCUMENTED_HASH, "md5"),
        (DOCUMENTED_HASH, "argon2id"),
        ("$argon2id$v=19$m=19456,t=2,p=1$AAAA$AAAA", "argon2id"),
        ("$argon2id$v=19$m=99999999,t=2,p=1$AAAAAAAAAAAA$AAAAAAAAAAAA", "argon2id"),
    ],
)
def test_an_unreadable_hash_matches_nothing(stored: str, hashing: str) -> None:
    assert not password_matches(stored, hashing, b"test12")


def test_a_hash_that_costs_too_much_is_not_even_tried() -> None:
    dear = PasswordHasher(time_cost=17, memory_cost=8, parallelism=1).hash("right")
    assert not password_matches(dear, "argon2id", b"right")


@pytest.mark.parametrize(
    ("stored", "hashing", "words"),
    [
        ("ä", SHA256, "not base64"),
        ("AAAA", SHA256, "3 bytes where rabbit_password_hashing_sha256 has 36"),
        (DOCUMENTED_HASH, SHA512, "36 bytes where rabbit_password_hashing_sha512 has 68"),
        (DOCUMENTED_HASH, "argon2id", "not of the form"),
        ("$argon2id$v=19$m=262145,t=2,p=1$AAAA$AAAA", "argon2id", "costs more than m=262144"),
        ("$argon2id$v=19$m=8,t=17,p=1$AAAA$AAAA", "argon2id", "costs more than"),
    ],
)
def test_a_bad_hash_is_refused_when_set(stored: str, hashing: Hashing, words: str) -> None:
    fault = hash_fault(stored, hashing)
    assert fault is not None
    assert words in fault


def test_good_hashes_may_be_set() -> None:
    assert hash_fault(DOCUMENTED_HASH, SHA256) is None
    assert hash_fault(hash_password("x", SHA512, SALT), SHA512) is None
    assert hash_fault(hash_password("x"), "argon2id") is None


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"a"),
        ("PLAIN", b"\0a"),
        ("PLAIN", b"\0a\0b\0c"),
        ("PLAIN", b"other\0a\0s3cret"),
        ("PLAIN", b"\0\xff\0s3cret"),
        ("PLAIN", b"\0a\0" + b"x" * 4096),
        ("AMQPLAIN", b"\0a\0s3cret"),
        ("AMQPLAIN", b"\x05LOGINS\xff\xff\xff\xff"),
        ("AMQPLAIN", encode_table({"LOGIN": "a"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": "a", "PASSWORD": 5})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": "a", "PASSWORD": "s3cret"})),
    ],
)
def test_a_malformed_response_is_refused_and_not_quoted(mechanism: str, response: bytes) -> None:
    outcome = parse_response(mechanism, response)
    assert isinstance(outcome, Malformed)
    assert "s3cret" not in outcome.text
    assert mechanism in outcome.text


@given(st.binary(max_size=60), st.sampled_from(["PLAIN", "AMQPLAIN"]))
def test_any_bytes_are_credentials_or_malformed(response: bytes, mechanism: str) -> None:
    assert isinstance(parse_response(mechanism, response), Credentials | Malformed)


def test_plain_and_amqplain_carry_name_and_password() -> None:
    anna = Credentials("anna", "pä\0ss".encode()[:3])
    assert parse_response("PLAIN", b"\0anna\0" + anna.password) == anna
    assert parse_response("PLAIN", b"anna\0anna\0" + anna.password) == anna
    table = encode_table({"LOGIN": "anna", "PASSWORD": "pä"})[4:]
    assert parse_response("AMQPLAIN", table) == anna
    assert "pä" not in repr(anna)


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Basic YQ==", "Bearer YTpi", "Basic /zo="]
)
def test_what_is_not_http_basic_is_no_credentials(header: str) -> None:
    assert parse_basic(header) is None


def test_http_basic_splits_at_the_first_colon() -> None:
    assert parse_basic("basic " + base64.b64encode(b"a:b:c").decode()) == Credentials("a", b"b:c")


def test_guest_can_only_connect_via_localhost() -> None:
    subject = authenticator(access_with("guest", "guest", "administrator"))
    far = whole(subject, "PLAIN", b"\0guest\0guest", False)
    assert far == Refused("PLAIN login refused: user 'guest' can only connect via localhost")
    near = whole(subject, "PLAIN", b"\0guest\0guest", True)
    assert near == Accepted("guest", ("administrator",))
    assert isinstance(whole(subject, "PLAIN", b"\0guest\0guest", False), Refused)


def test_wrong_password_and_unknown_user_get_the_same_words() -> None:
    subject = authenticator(access_with("anna", "right"))
    for name in ("anna", "nobody"):
        outcome = whole(subject, "PLAIN", b"\0" + name.encode() + b"\0wrong", True)
        assert outcome == Refused(f"PLAIN login refused: user '{name}' - invalid credentials")


def test_blank_passwords_and_unknown_mechanisms_are_refused() -> None:
    access = access_with("anna", "right")
    access.users["robot"] = FakeUser("")
    subject = authenticator(access)
    assert isinstance(whole(subject, "PLAIN", b"\0robot\0x", True), Refused)
    blank = whole(subject, "PLAIN", b"\0anna\0", True)
    assert isinstance(blank, Refused)
    assert "blank password" in blank.text
    assert isinstance(whole(subject, "GSSAPI", b"", True), Refused)


def test_a_name_cannot_begin_a_line_of_the_log() -> None:
    subject = authenticator(FakeAccess())
    for mechanism, response in (("PLAIN", b"\0a\nroot logged in\0x"), ("X\nY", b"")):
        outcome = whole(subject, mechanism, response, True)
        assert isinstance(outcome, Refused)
        assert "\n" not in outcome.text


def test_anonymous_is_a_login_with_the_configured_user() -> None:
    access = access_with("guest", "guest")
    off = whole(authenticator(access), "ANONYMOUS", b"", True)
    assert off == Refused("ANONYMOUS login refused: anonymous logins are off")
    rules = LoginRules(anonymous_user="guest", anonymous_password="guest")
    subject = authenticator(access, rules)
    assert whole(subject, "ANONYMOUS", b"whatever", True) == Accepted("guest", ())
    assert isinstance(whole(subject, "ANONYMOUS", b"", False), Refused)
    access.users["guest"] = access_with("guest", "changed").users["guest"]
    assert isinstance(whole(subject, "ANONYMOUS", b"", True), Refused)


def test_a_verified_password_is_not_checked_again_until_the_hash_changes() -> None:
    access = access_with("anna", "right")
    subject = authenticator(access)
    assert isinstance(subject.begin("PLAIN", b"\0anna\0right", False), Check)
    assert isinstance(whole(subject, "PLAIN", b"\0anna\0right", False), Accepted)
    assert subject.begin("PLAIN", b"\0anna\0right", False) == Accepted("anna", ())
    assert isinstance(subject.begin("PLAIN", b"\0anna\0wrong", False), Check)
    access.users["anna"] = access_with("anna", "new").users["anna"]
    assert isinstance(whole(subject, "PLAIN", b"\0anna\0right", False), Refused)


def test_a_user_deleted_or_changed_during_the_check_is_refused() -> None:
    access = access_with("anna", "right")
    subject = authenticator(access)
    check = subject.begin("PLAIN", b"\0anna\0right", False)
    assert isinstance(check, Check)
    matches = check.run()
    assert matches
    access.users["anna"] = access_with("anna", "new").users["anna"]
    assert isinstance(subject.finish(check, matches), Refused)
    del access.users["anna"]
    assert isinstance(subject.finish(check, matches), Refused)


def test_a_storm_of_the_same_login_costs_few_checks() -> None:
    access = FakeAccess(users={"anna": FakeUser(hash_password("right"), "argon2id")})

    async def storm() -> tuple[list[LoginOutcome], float]:
        desk = LoginDesk(access, LoginRules())
        before = time.process_time()
        outcomes = await asyncio.gather(
            *(desk.login("PLAIN", b"\0anna\0right", False) for _ in range(500))
        )
        assert (desk.attempts, desk.succeeded) == (500, 500)
        desk.close()
        return outcomes, time.process_time() - before

    outcomes, seconds = asyncio.run(storm())
    assert set(outcomes) == {Accepted("anna", ())}
    assert seconds < 2.0  # 500 checks would take more than 10.


def test_only_so_many_logins_wait_at_a_time() -> None:
    async def flood() -> list[LoginOutcome]:
        desk = LoginDesk(access_with("anna", "right"), LoginRules())
        outcomes = await asyncio.gather(
            *(desk.login("PLAIN", b"\0anna\0%d" % n, True) for n in range(WAITING_MAX + 5))
        )
        assert await desk.login("PLAIN", b"\0anna\0right", True) == Accepted("anna", ())
        desk.close()
        return outcomes

    outcomes = asyncio.run(flood())
    assert all(isinstance(each, Refused) for each in outcomes)
    turned_away = [each for each in outcomes if f"{WAITING_MAX} logins are waiting" in str(each)]
    assert len(turned_away) == 5


def test_the_desk_refuses_the_wrong_and_counts_them() -> None:
    access = access_with("guest", "guest")

    async def attempts() -> None:
        desk = LoginDesk(access, LoginRules())
        assert isinstance(await desk.login("PLAIN", b"\0guest\0wrong", True), Refused)
        assert isinstance(await desk.login("PLAIN", b"", True), Malformed)
        assert isinstance(await desk.login_with(Credentials("guest", b"guest"), False), Refused)
        assert isinstance(await desk.login_with(Credentials("guest", b"guest"), True), Accepted)
        assert (desk.attempts, desk.succeeded) == (4, 1)
        desk.close()

    asyncio.run(attempts())


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%lo", False), ("", False),
        ("localhost", False), ("0.0.0.0", False),
    ],
)  # fmt: skip
def test_only_loopback_addresses_are_near(address: str, near: bool) -> None:
    assert is_loopback(address) is near


def test_the_peer_learns_only_that_it_was_refused() -> None:
    assert login_refused_text("PLAIN") == (
        "Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )

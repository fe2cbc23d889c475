"""Logins: hashes, SASL responses, who may come from where, and what a storm of them costs."""

import asyncio
import base64
import time

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from node.auth.login import (
    Accepted,
    Authenticator,
    Check,
    LoginOutcome,
    LoginRules,
    Refused,
    login_refused_text,
)
from node.auth.login_checks import WAITING_MAX, LoginChecks
from node.auth.passwords import Hashing, hash_fault, hash_password, password_matches
from node.auth.sasl import (
    MECHANISMS,
    RESPONSE_BYTES_MAX,
    Credentials,
    Malformed,
    offered,
    parse_basic,
    parse_response,
)
from node.auth.source import Source, is_loopback
from node.tls.certificate import TlsPeer
from tests.unit.node.fake_access import FakeAccess, FakeUser
from warren.wire.amqp091.fields import encode_table

SHA256: Hashing = "rabbit_password_hashing_sha256"
SHA512: Hashing = "rabbit_password_hashing_sha512"
NEAR = Source("127.0.0.1")
FAR = Source("10.0.0.1")
SALT = bytes.fromhex("908dc60a")
# The worked example of RabbitMQ's documentation on credentials.
DOCUMENTED_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


def access_with(name: str, password: str, *tags: str) -> FakeAccess:
    stored = hash_password(password, SHA256, SALT)
    return FakeAccess(users={name: FakeUser(stored, SHA256, tags)})


def authenticator(access: FakeAccess, rules: LoginRules | None = None) -> Authenticator:
    return Authenticator(access, rules or LoginRules(), b"k" * 32)


def whole(subject: Authenticator, mechanism: str, response: bytes, source: Source) -> LoginOutcome:
    outcome = subject.begin(mechanism, response, source)
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
        ("PLAIN", b"\0a\0" + b"x" * RESPONSE_BYTES_MAX),
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
    far = whole(subject, "PLAIN", b"\0guest\0guest", FAR)
    assert far == Refused("PLAIN login refused: user 'guest' can only connect via localhost")
    near = whole(subject, "PLAIN", b"\0guest\0guest", NEAR)
    assert near == Accepted("guest", ("administrator",))
    assert isinstance(whole(subject, "PLAIN", b"\0guest\0guest", FAR), Refused)


def test_wrong_password_and_unknown_user_get_the_same_words() -> None:
    subject = authenticator(access_with("anna", "right"))
    for name in ("anna", "absent"):
        outcome = whole(subject, "PLAIN", b"\0" + name.encode() + b"\0wrong", NEAR)
        assert outcome == Refused(f"PLAIN login refused: user '{name}' - invalid credentials")


def test_blank_passwords_and_unknown_mechanisms_are_refused() -> None:
    access = access_with("anna", "right")
    access.users["robot"] = FakeUser("")
    subject = authenticator(access)
    assert isinstance(whole(subject, "PLAIN", b"\0robot\0x", NEAR), Refused)
    blank = whole(subject, "PLAIN", b"\0anna\0", NEAR)
    assert isinstance(blank, Refused)
    assert "blank password" in blank.text
    assert isinstance(whole(subject, "GSSAPI", b"", NEAR), Refused)


def test_a_name_cannot_begin_a_line_of_the_log() -> None:
    subject = authenticator(FakeAccess())
    for mechanism, response in (("PLAIN", b"\0a\nroot logged in\0x"), ("X\nY", b"")):
        outcome = whole(subject, mechanism, response, NEAR)
        assert isinstance(outcome, Refused)
        assert "\n" not in outcome.text


def test_anonymous_is_a_login_with_the_configured_user() -> None:
    access = access_with("guest", "guest")
    off = whole(authenticator(access), "ANONYMOUS", b"", NEAR)
    assert off == Refused("ANONYMOUS login refused: anonymous logins are off")
    rules = LoginRules(anonymous_user="guest", anonymous_password="guest")
    subject = authenticator(access, rules)
    assert whole(subject, "ANONYMOUS", b"whatever", NEAR) == Accepted("guest", ())
    assert isinstance(whole(subject, "ANONYMOUS", b"", FAR), Refused)
    access.users["guest"] = access_with("guest", "changed").users["guest"]
    assert isinstance(whole(subject, "ANONYMOUS", b"", NEAR), Refused)


def test_a_verified_password_is_not_checked_again_until_the_hash_changes() -> None:
    access = access_with("anna", "right")
    subject = authenticator(access)
    assert isinstance(subject.begin("PLAIN", b"\0anna\0right", FAR), Check)
    assert isinstance(whole(subject, "PLAIN", b"\0anna\0right", FAR), Accepted)
    assert subject.begin("PLAIN", b"\0anna\0right", FAR) == Accepted("anna", ())
    assert isinstance(subject.begin("PLAIN", b"\0anna\0wrong", FAR), Check)
    access.users["anna"] = access_with("anna", "new").users["anna"]
    assert isinstance(whole(subject, "PLAIN", b"\0anna\0right", FAR), Refused)


def test_a_user_deleted_or_changed_during_the_check_is_refused() -> None:
    access = access_with("anna", "right")
    subject = authenticator(access)
    check = subject.begin("PLAIN", b"\0anna\0right", FAR)
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
        harness = LoginChecks(access, LoginRules())
        before = time.process_time()
        outcomes = await asyncio.gather(
            *(harness.login("PLAIN", b"\0anna\0right", FAR) for _ in range(500))
        )
        assert (harness.attempts, harness.succeeded) == (500, 500)
        harness.close()
        return outcomes, time.process_time() - before

    outcomes, seconds = asyncio.run(storm())
    assert set(outcomes) == {Accepted("anna", ())}
    assert seconds < 2.0  # 500 checks would take more than 10.


def test_only_so_many_logins_wait_at_a_time() -> None:
    async def flood() -> list[LoginOutcome]:
        harness = LoginChecks(access_with("anna", "right"), LoginRules())
        outcomes = await asyncio.gather(
            *(harness.login("PLAIN", b"\0anna\0%d" % n, NEAR) for n in range(WAITING_MAX + 5))
        )
        assert await harness.login("PLAIN", b"\0anna\0right", NEAR) == Accepted("anna", ())
        harness.close()
        return outcomes

    outcomes = asyncio.run(flood())
    assert all(isinstance(each, Refused) for each in outcomes)
    turned_away = [each for each in outcomes if f"{WAITING_MAX} logins are waiting" in str(each)]
    assert len(turned_away) == 5


def test_logins_refuse_the_wrong_and_counts_them() -> None:
    access = access_with("guest", "guest")

    async def attempts() -> None:
        harness = LoginChecks(access, LoginRules())
        assert isinstance(await harness.login("PLAIN", b"\0guest\0wrong", NEAR), Refused)
        assert isinstance(await harness.login("PLAIN", b"", NEAR), Malformed)
        assert isinstance(await harness.login_with(Credentials("guest", b"guest"), FAR), Refused)
        assert isinstance(await harness.login_with(Credentials("guest", b"guest"), NEAR), Accepted)
        assert (harness.attempts, harness.succeeded) == (4, 1)
        harness.close()

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


def test_external_is_a_login_of_whom_the_certificate_names() -> None:
    access = access_with("orders", "secret", "management")
    subject = authenticator(access)
    shown = Source("10.0.0.1", "amqp091", "orders")
    assert whole(subject, "EXTERNAL", b"", shown) == Accepted("orders", ("management",))
    assert whole(subject, "EXTERNAL", b"another user", shown) == Accepted("orders", ("management",))
    for refused in (FAR, NEAR, Source("10.0.0.1", "amqp091", "absent")):
        assert isinstance(whole(subject, "EXTERNAL", b"orders", refused), Refused)


def test_a_certificate_does_not_let_guest_in_from_elsewhere() -> None:
    subject = authenticator(access_with("guest", "guest"))
    far = whole(subject, "EXTERNAL", b"", Source("10.0.0.1", "amqp091", "guest"))
    assert far == Refused("EXTERNAL login refused: user 'guest' can only connect via localhost")
    near = whole(subject, "EXTERNAL", b"", Source("127.0.0.1", "amqp091", "guest"))
    assert near == Accepted("guest", ())


def test_mechanisms_that_are_not_configured_are_refused_and_not_offered() -> None:
    rules = LoginRules(mechanisms=("PLAIN",))
    subject = authenticator(access_with("anna", "right"), rules)
    table = encode_table({"LOGIN": "anna", "PASSWORD": "right"})[4:]
    for mechanism in ("AMQPLAIN", "EXTERNAL", "ANONYMOUS"):
        outcome = whole(subject, mechanism, table, Source("::1", "amqp091", "anna"))
        assert outcome == Refused(f"login refused: mechanism '{mechanism}' is not offered")
    named = TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead", "anna")
    nameless = TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead")
    assert offered(MECHANISMS, None) == ["PLAIN", "AMQPLAIN", "ANONYMOUS"]
    assert offered(MECHANISMS, nameless) == ["PLAIN", "AMQPLAIN", "ANONYMOUS"]
    assert offered(("PLAIN", "EXTERNAL"), named) == ["PLAIN", "EXTERNAL"]


GUARDED = LoginRules(failures_max=3, failures_window_s=60.0, failures_pause_s=10.0)


def test_an_address_that_guesses_is_refused_unseen_for_a_while() -> None:
    now = [100.0]

    async def guess() -> None:
        harness = LoginChecks(access_with("anna", "right"), GUARDED, lambda: now[0])
        for _ in range(3):
            assert isinstance(await harness.login("PLAIN", b"\0nobody\0x", FAR), Refused)
        held = await harness.login("PLAIN", b"\0anna\0right", FAR)
        assert held == Refused("PLAIN login refused: too many failures from this address")
        assert isinstance(await harness.login_with(Credentials("anna", b"right"), FAR), Refused)
        assert isinstance(await harness.login("PLAIN", b"\0anna\0right", NEAR), Accepted)
        now[0] += 10.5
        assert isinstance(await harness.login("PLAIN", b"\0anna\0right", FAR), Accepted)
        assert harness.log.by_protocol["amqp091"].failed == 5
        harness.close()

    asyncio.run(guess())


def test_a_user_whose_password_is_guessed_elsewhere_still_gets_in_by_a_known_one() -> None:
    async def guess() -> None:
        harness = LoginChecks(access_with("anna", "right"), GUARDED, lambda: 100.0)
        assert isinstance(await harness.login("PLAIN", b"\0anna\0right", NEAR), Accepted)
        for number in range(3):
            source = Source(f"10.0.0.{number}")
            assert isinstance(await harness.login("PLAIN", b"\0anna\0%d" % number, source), Refused)
        held = await harness.login("PLAIN", b"\0anna\0next", Source("10.0.0.9"))
        assert held == Refused("PLAIN login refused: too many failures of user 'anna'")
        assert isinstance(
            await harness.login("PLAIN", b"\0anna\0right", Source("10.9.9.9")), Accepted
        )
        harness.close()

    asyncio.run(guess())


def test_every_login_is_told_without_its_password() -> None:
    told: list[tuple[str, str, str]] = []

    async def logins() -> None:
        harness = LoginChecks(access_with("anna", "right"), LoginRules())
        harness.on_login = lambda source, user, why: told.append((source.protocol, user, why))
        await harness.login("PLAIN", b"\0anna\0right", NEAR)
        await harness.login("PLAIN", b"\0anna\0s3cret", Source("::1", "amqp10"))
        await harness.login("PLAIN", b"s3cret", NEAR)
        harness.close()

    asyncio.run(logins())
    assert [each[:2] for each in told] == [("amqp091", "anna"), ("amqp10", "anna"), ("amqp091", "")]
    assert told[0][2] == ""
    assert told[1][2] and told[2][2]
    assert "s3cret" not in repr(told)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_weak_hash_is_replaced_when_its_password_is_shown_if_that_is_wanted(
    is_wanted: bool,
) -> None:
    access = access_with("anna", "right")
    replaced: list[tuple[str, str, str, str]] = []

    async def logins() -> None:
        harness = LoginChecks(access, LoginRules(rehash=is_wanted))
        harness.on_weak_hash = lambda *news: replaced.append(news)
        assert isinstance(await harness.login("PLAIN", b"\0anna\0wrong", NEAR), Refused)
        assert isinstance(await harness.login("PLAIN", b"\0anna\0right", NEAR), Accepted)
        assert isinstance(await harness.login("PLAIN", b"\0anna\0right", NEAR), Accepted)
        harness.close()

    asyncio.run(logins())
    assert len(replaced) == is_wanted
    for name, old, new, hashing in replaced:
        assert (name, old, hashing) == ("anna", access.users["anna"].password_hash, "argon2id")
        assert password_matches(new, hashing, b"right")


@pytest.mark.parametrize("hashing", [SHA256, SHA512, "argon2id"])
def test_new_passwords_are_hashed_as_the_setting_says(hashing: Hashing) -> None:
    async def hashes() -> None:
        harness = LoginChecks(FakeAccess(), LoginRules(hashing=hashing))
        (first, kind), (second, _) = await asyncio.gather(
            harness.hash_of("x"), harness.hash_of("x")
        )
        assert kind == hashing
        assert first != second
        assert password_matches(first, hashing, b"x") and not password_matches(first, hashing, b"y")
        harness.close()

    asyncio.run(hashes())

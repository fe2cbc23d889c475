"""Who guesses passwords is held back; others are not, and it takes no more memory than that."""

from node.auth.attempts import KEYS_MAX, SOURCES_MAX, AttemptLog, Failures, Throttle
from node.auth.source import Source
from tests.unit.reachable import held

FAR = Source("203.0.113.7")
OTHER = Source("203.0.113.8", "http")
NEAR = Source("127.0.0.1")


def throttle() -> Throttle:
    return Throttle(3, window_s=60.0, pause_s=10.0)


def test_the_third_failure_in_a_window_begins_a_pause_that_ends() -> None:
    subject = throttle()
    for second in range(3):
        assert subject.address_pause(FAR, "", second) == 0
        subject.failed(FAR, "anna", second)
    assert subject.address_pause(FAR, "", 2.0) == 10.0
    assert subject.user_pause("anna", 5.0) == 7.0
    assert subject.address_pause(OTHER, "", 5.0) == subject.user_pause("otto", 5.0) == 0
    assert subject.address_pause(FAR, "", 12.0) == 0
    subject.failed(FAR, "anna", 13.0)
    assert subject.address_pause(FAR, "", 13.0) == 0  # It counts from zero.


def test_failures_that_are_far_apart_are_forgotten() -> None:
    subject = throttle()
    for second in (0, 59, 61, 120, 182, 243):
        subject.failed(FAR, "", second)
        assert subject.address_pause(FAR, "", second) == 0


def test_addresses_of_this_machine_are_not_held_back_but_their_user_is() -> None:
    subject = throttle()
    for _ in range(3):
        subject.failed(NEAR, "anna", 0.0)
    assert subject.address_pause(NEAR, "", 0.0) == 0
    assert subject.user_pause("anna", 0.0) == 10.0


def test_without_a_limit_nobody_is_held_back() -> None:
    subject = Throttle(0, 60.0, 10.0)
    for _ in range(1000):
        subject.failed(FAR, "anna", 0.0)
    assert subject.address_pause(FAR, "", 0.0) == subject.user_pause("anna", 0.0) == 0


def test_a_flood_of_addresses_forgets_the_oldest_ones() -> None:
    subject = throttle()
    for _ in range(3):
        subject.failed(FAR, "", 0.0)
    for number in range(KEYS_MAX - 1):
        subject.failed(Source(f"10.0.{number >> 8}.{number & 255}"), "", 0.0)
    assert subject.address_pause(FAR, "", 0.0) == 10.0
    subject.failed(OTHER, "", 0.0)
    assert subject.address_pause(FAR, "", 0.0) == 0
    assert len(held(subject, Failures)) == KEYS_MAX


def test_logins_are_counted_by_protocol_and_by_source_if_that_is_wanted() -> None:
    plain, tracking = AttemptLog(), AttemptLog(track_sources=True)
    for log in (plain, tracking):
        log.count(FAR, "anna", True)
        log.count(FAR, "anna", False)
        log.count(OTHER, "", False)
        assert {name: each.every for name, each in log.by_protocol.items()} == {
            "amqp091": 2,
            "http": 1,
        }
    assert not plain.by_source
    assert tracking.by_source["amqp091", "203.0.113.7", "anna"].failed == 1
    tracking.reset()
    assert not tracking.by_source and not tracking.by_protocol
    for number in range(SOURCES_MAX + 5):
        tracking.count(Source(f"a{number}"), "", False)
    assert len(tracking.by_source) == SOURCES_MAX


def test_who_has_logged_in_from_there_is_not_held_back_with_others_behind_that_address() -> None:
    subject = throttle()
    subject.succeeded(FAR, "anna")
    for _ in range(3):
        subject.failed(FAR, "otto", 0.0)
    assert subject.address_pause(FAR, "otto", 0.0) == subject.address_pause(FAR, "new", 0.0) == 10.0
    assert subject.address_pause(FAR, "anna", 0.0) == 0
    for _ in range(3):
        subject.failed(FAR, "anna", 1.0)
    assert subject.address_pause(FAR, "anna", 1.0) == 10.0
    for number in range(KEYS_MAX):
        subject.succeeded(Source(f"10.0.{number >> 8}.{number & 255}"), "anna")
    assert len(held(subject, tuple)) <= KEYS_MAX + 4  # Beside them, those that failed.

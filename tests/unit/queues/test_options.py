"""Options and their bytes; that bytes of others are refused is in test_commands."""

import pytest
from hypothesis import given, settings

from queues.definitions.queue_options import QueueDefaults, SharedOptions, can_refuse, options_of
from queues.machine.options import (
    DELAY_ALL,
    LAYOUT,
    REJECT_PUBLISH_DLX,
    RETRIES_LATE,
    Options,
    decode_options,
    options_bytes,
)
from tests.unit.queues.fifo_steps import OPTIONS

BOUNDED = settings(max_examples=200, deadline=None, database=None)
NAMES = (
    *("levels", "default_level", "ttl_ms", "length_max", "bytes_max", "overflow"),
    *("single_active", "drain_handover", "counts_deliveries", "delivery_limit"),
    *("consumer_timeout_ms", "expires_ms", "dead_letters", "keeps_dead", "delays"),
    "counts_returns",
)


def fields_of(options: Options) -> list[object]:
    return [getattr(options, name) for name in NAMES]


@BOUNDED
@given(OPTIONS)
def test_options_come_back_from_their_bytes(options: Options) -> None:
    data = options.encode()
    assert len(data) == options_bytes(data)
    again = decode_options(data)
    assert fields_of(again) == fields_of(options)
    assert again == options
    assert hash(again) == hash(options)


def test_each_option_makes_a_difference() -> None:
    plain = Options()
    changes: dict[str, int] = dict.fromkeys(NAMES, 5) | {"overflow": REJECT_PUBLISH_DLX}
    changes |= {name: True for name in NAMES if isinstance(getattr(plain, name), bool)}
    seen = {plain.encode()}
    for name, value in changes.items():
        changed = Options()
        setattr(changed, name, value)
        assert changed != plain, name
        seen.add(changed.encode())
    assert len(seen) == len(NAMES) + 1


def test_all_256_levels_fit() -> None:
    assert decode_options(Options(levels=256, default_level=255).encode()).levels == 256


def test_options_are_not_equal_to_anything_else() -> None:
    assert Options() != Options().encode()


@pytest.mark.parametrize("size", [0, LAYOUT.size - 1, LAYOUT.size + 1])
def test_bytes_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="options of"):
        decode_options(bytes(size))


@pytest.mark.parametrize(("place", "value"), [(1, REJECT_PUBLISH_DLX + 1), (3, 1)])
def test_what_this_node_does_not_know_is_refused(place: int, value: int) -> None:
    data = bytearray(Options().encode())
    data[place] = value
    with pytest.raises(ValueError, match="unknown options"):
        decode_options(bytes(data))


def test_delays_are_three_fields_more_and_each_makes_a_difference() -> None:
    plain = Options(delays=True)
    some = Options(delays=True, delay_type=DELAY_ALL, delay_min_ms=5, delay_max_ms=9)
    others = [
        Options(delays=True, delay_type=DELAY_ALL + 1, delay_min_ms=5, delay_max_ms=9),
        Options(delays=True, delay_type=DELAY_ALL, delay_min_ms=6, delay_max_ms=9),
        Options(delays=True, delay_type=DELAY_ALL, delay_min_ms=5, delay_max_ms=8),
    ]
    assert len({each.encode() for each in (plain, some, *others)}) == 5
    again = decode_options(some.encode())
    assert (again.delay_type, again.delay_min_ms, again.delay_max_ms) == (DELAY_ALL, 5, 9)


@pytest.mark.parametrize(
    ("place", "value"),
    [(LAYOUT.size, 0), (LAYOUT.size, 4), (LAYOUT.size + 8, 0xFF), (0, RETRIES_LATE)],
)
def test_delays_that_are_none_are_refused(place: int, value: int) -> None:
    data = bytearray(Options(delays=True, delay_type=DELAY_ALL, delay_min_ms=5).encode())
    data[place] = value
    with pytest.raises(ValueError, match="unknown"):
        decode_options(bytes(data))


@pytest.mark.parametrize(
    ("overflow", "limits", "refuses"),
    [
        ("", {}, False),
        ("", {"max-length": 5}, False),
        ("drop-head", {"max-length-bytes": 5}, False),
        ("reject-publish", {}, False),
        ("reject-publish", {"max-length": 0}, True),
        ("reject-publish-dlx", {"max-length-bytes": 5}, True),
    ],
)
def test_a_queue_refuses_for_its_length_if_it_has_one_and_drops_nothing(
    overflow: str, limits: dict[str, object], refuses: bool
) -> None:
    arguments = {f"x-{key}": value for key, value in limits.items()}
    if overflow:
        arguments["x-overflow"] = overflow
    assert can_refuse(arguments) is refuses


def test_queues_with_the_same_options_share_them_and_few_are_known() -> None:
    shared = SharedOptions(2)
    first = shared.of(Options())
    assert shared.of(Options()) is first
    other = shared.of(Options(ttl_ms=1))
    assert (other.ttl_ms, shared.of(Options(ttl_ms=1)) is other) == (1, True)
    assert shared.of(Options()) is first
    assert shared.of(Options(ttl_ms=2)).ttl_ms == 2
    assert shared.of(Options()) is not first


def test_a_queue_says_what_counts_towards_its_delivery_limit_or_the_node_does() -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    for default in (False, True):
        defaults = QueueDefaults(counts_returns=default)
        said = [
            options_of(quorum | more, defaults).counts_returns
            for more in (
                {},
                {"x-delivery-limit-counts": "failed"},
                {"x-delivery-limit-counts": "returned"},
            )
        ]
        assert said == [default, False, True]
        assert not options_of({}, defaults).counts_returns

"""Bodies that cannot be read: told once per place, until they can be read or are gone."""

import errno
import logging

import pytest

from node.recovery.unreadable import PLACES_MAX, Unreadable

BAD = OSError(errno.EIO, "Input/output error", "/data/log/wal-3.log")


class NamedQueue:
    """What a host is to `Unreadable`."""

    uid = 7
    name = "q"
    vhost = "/"


def test_a_place_is_logged_once_and_once_more_when_it_can_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unreadable = Unreadable()
    queue = NamedQueue()
    with caplog.at_level(logging.WARNING, "warren.broker"):
        for _ in range(5):
            unreadable.failed(queue, 3, 4096, BAD)
        unreadable.failed(queue, 3, 8192, BAD)
        assert len(caplog.records) == 2
        first = f"a message at offset 4096 of log file 3 cannot be read: {BAD}"
        assert unreadable.reason(7) == f"{first} (and 1 more)"
        unreadable.succeeded(queue, 3, 8192)
        unreadable.succeeded(queue, 3, 12288)
        assert unreadable.reason(7) == first
        unreadable.succeeded(queue, 3, 4096)
    assert len(caplog.records) == 4
    assert (unreadable.reason(7), unreadable.reason(8)) == ("", "")


def test_places_are_bounded_and_go_with_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    unreadable = Unreadable()
    for place in range(PLACES_MAX + 10):
        unreadable.failed(NamedQueue(), 3, place, BAD)
    assert len(caplog.records) == PLACES_MAX
    assert unreadable.reason(7).endswith(f"(and {PLACES_MAX - 1} more)")
    unreadable.forget(7)
    assert unreadable.reason(7) == ""

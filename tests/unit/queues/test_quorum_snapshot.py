"""Points of snapshots of a quorum queue's member."""

import pytest

from queues.hosts.quorum_snapshot import Standing, decode_standing
from raft.entries import Config, SnapshotPoint


def test_bytes_that_are_no_point_are_refused() -> None:
    good = Standing(SnapshotPoint(5, 3, 4, Config((1, 2, 3))), 99, b"").encode()
    for wrong in (b"", good[:30], good[:-1], b"\x02" + good[1:]):
        with pytest.raises(ValueError, match=r".+"):
            decode_standing(wrong)


def test_a_point_has_these_bytes() -> None:
    encoded = Standing(SnapshotPoint(5, 3, 4, Config((7,))), 9, b"own").encode()
    assert encoded.hex() == (
        "01" + "0500000000000000" + "0300000000000000" + "0400000000000000"
        "0900000000000000" + "0c000000" + "01010000" + "0700000000000000" + b"own".hex()
    )


def test_what_is_decoded_is_what_was_encoded() -> None:
    point = SnapshotPoint(5, 3, 4, Config((1, 2), (8, 9), (9,)))
    found = decode_standing(Standing(point, 1 << 45, b"birth").encode())
    assert (found.point.index, found.point.term, found.point.appended_term) == (5, 3, 4)
    assert found.point.config == point.config
    assert (found.next_seq, found.birth) == (1 << 45, b"birth")

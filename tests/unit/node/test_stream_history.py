"""The judge of streams finds each thing that can be wrong, and nothing in a good history."""

import pytest

from warren.testing.stream_history import StreamHistory, StreamKind


def history(*reads: tuple[str, int, str]) -> StreamHistory:
    """Three messages that were confirmed, and what readers got."""
    found = StreamHistory()
    for message in ("a", "b", "c"):
        found.published(message)
        found.confirmed(message)
    for reader, offset, message in reads:
        found.read(reader, offset, message)
    return found


GOOD = [("n1", 0, "a"), ("n1", 1, "b"), ("n1", 2, "c")]


def test_a_good_history_has_no_finding() -> None:
    other = [("n2", offset, message) for _, offset, message in GOOD]
    assert history(*GOOD, *other).judge(("n1", "n2")) == []


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        (StreamKind.GAP, [("n1", 0, "a"), ("n1", 2, "c")]),
        (StreamKind.GAP, [("n1", 1, "b")]),
        (StreamKind.AGAIN, [*GOOD, ("n1", 2, "c")]),
        (StreamKind.CHANGED, [*GOOD, ("n2", 0, "b")]),
        (StreamKind.DOUBLED, [*GOOD, ("n1", 3, "a")]),
        (StreamKind.PHANTOM, [*GOOD, ("n1", 3, "x")]),
        (StreamKind.LOST, [("n1", 0, "a"), ("n1", 1, "c")]),
        (StreamKind.SHORT, [("n2", each[1], each[2]) for each in GOOD]),
    ],
)
def test_each_thing_that_is_wrong_is_found(
    kind: StreamKind, reads: list[tuple[str, int, str]]
) -> None:
    assert kind in {each.kind for each in history(*reads).judge(("n1",))}

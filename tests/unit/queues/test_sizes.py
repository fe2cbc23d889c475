"""Sizes of messages by bucket."""

from queues.sessions.counts import SIZE_BOUNDS, Sizes


def test_each_message_of_a_run_counts_with_the_mean_of_the_run() -> None:
    sizes = Sizes()
    sizes.observe(300, 3)
    sizes.observe(303, 3)
    sizes.observe(100_000_001, 1)
    assert sizes.bytes == 100_000_604
    assert sizes.counts == [3, 3, 0, 0, 0, 0, 0, 0, 1]


def test_a_size_at_a_bound_is_in_its_bucket_and_one_above_is_not() -> None:
    for place, bound in enumerate(SIZE_BOUNDS):
        sizes = Sizes()
        sizes.observe(int(bound), 1)
        sizes.observe(int(bound) + 1, 1)
        assert [n for n, count in enumerate(sizes.counts) if count] == [place, place + 1]

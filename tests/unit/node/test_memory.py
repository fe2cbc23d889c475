"""When free memory is given back, and that it is."""

from node.memory import IDLE_MIN_BYTES, QUIET_TURNS, REST_S, MemoryKeeper


def rested() -> MemoryKeeper:
    keeper = MemoryKeeper()
    for _ in range(REST_S):
        assert not keeper.should_trim(0, 0, 0)
    return keeper


def test_a_quiet_node_with_much_unused_memory_gives_it_back_and_then_rests() -> None:
    keeper = rested()
    assert keeper.should_trim(2 * IDLE_MIN_BYTES, 0, 1)
    keeper.trim()
    assert not keeper.should_trim(2 * IDLE_MIN_BYTES, 0, 2)


def test_memory_that_holds_bodies_is_not_unused() -> None:
    assert not rested().should_trim(4 * IDLE_MIN_BYTES, 4 * IDLE_MIN_BYTES, 1)


def test_a_busy_node_is_left_alone() -> None:
    assert not rested().should_trim(2 * IDLE_MIN_BYTES, 0, QUIET_TURNS)

"""The parts of the memory of a process."""

import os

from hypothesis import given
from hypothesis import strategies as st

from node.descriptors import files_max
from node.resources.process_facts import OTHER, files_used, fitted, resident

SIZES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 10**9))


def test_what_is_counted_stands_and_the_rest_is_other() -> None:
    assert fitted(100, {"code": 30}, {"queues": 20}) == {"code": 30, "queues": 20, OTHER: 50}


def test_estimates_share_what_room_there_is() -> None:
    parts = fitted(100, {"code": 40}, {"queues": 90, "channels": 30})
    assert parts == {"code": 40, "queues": 45, "channels": 15, OTHER: 0}


@given(
    st.integers(0, 10**10), SIZES, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 10**9))
)
def test_parts_add_up_and_none_is_negative(
    total: int, counted: dict[str, int], estimates: dict[str, int]
) -> None:
    parts = fitted(total, counted, estimates)
    assert sum(parts.values()) == total
    assert min(parts.values()) >= 0


def test_the_system_says_how_large_this_process_is() -> None:
    memory = resident()
    assert memory.total > memory.from_files > 0
    opened = os.open("/dev/null", os.O_RDONLY)
    before = files_used()
    os.close(opened)
    assert files_used() == before - 1
    assert files_max() >= before

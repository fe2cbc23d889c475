"""Bodies of the HTTP API: their limits, and texts about values of any size."""

import time
from typing import Any

import pytest

from node.management.bodies import ARGUMENTS_BYTES_MAX, arguments, flag, text, whole
from node.management.replies import ApiError
from queues.definitions.arguments import QUOTED_MAX, brief_term, term
from queues.definitions.policy_keys import policy_fault

LARGE: list[Any] = [[{"a": [1, "x" * 1000]}] * 10] * 100_000


@pytest.mark.parametrize("value", [1, "a", [1, "b", {"c": None}], {"k": [True, 1.5]}, []])
def test_a_short_value_is_quoted_whole(value: object) -> None:
    assert brief_term(value) == term(value)


@pytest.mark.parametrize("value", [LARGE, {"k": LARGE}, "x" * 20_000_000, [["x"] * 2_000_000]])
def test_a_large_value_is_quoted_shortly_and_at_once(value: object) -> None:
    start = time.thread_time()
    for given in ({"n": value}, {"n": [value]}):
        for read in (whole, text) if value is LARGE else (whole,):
            with pytest.raises(ApiError) as refused:
                read(given, "n", 1)  # type: ignore[arg-type]
            assert len(str(refused.value)) < QUOTED_MAX + 100
    with pytest.raises(ApiError) as refused:
        flag({"n": value}, "n")
    assert len(str(refused.value)) < QUOTED_MAX + 100
    fault = policy_fault(value, value, value, {"unknown": value}, False)
    assert fault is not None and len(fault) < 5 * (QUOTED_MAX + 100)
    assert time.thread_time() - start < 1.0


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_have_the_limits_of_amqp() -> None:
    assert arguments({"arguments": {"a": nested(31)}})
    with pytest.raises(ApiError, match="nested deeper than 32"):
        arguments({"arguments": {"a": nested(33)}})
    with pytest.raises(ApiError, match=f"allowed: {ARGUMENTS_BYTES_MAX:,}"):
        arguments({"arguments": {"a": "x" * ARGUMENTS_BYTES_MAX}})

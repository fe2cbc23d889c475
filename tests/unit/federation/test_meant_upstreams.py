"""Which upstreams a policy means."""

import time

import pytest

from federation.upstreams import meant

CPU_S_MAX = 1.0  # A backtracking engine takes years.
UPSTREAMS: dict[str, dict[str, object]] = {name: {"uri": name} for name in ("a1", "a2", "b1")}


def names(definition: dict[str, object], upstreams: dict[str, dict[str, object]]) -> list[object]:
    return [each["upstream"] for each in meant(definition, upstreams, {})]


def test_a_pattern_means_every_upstream_with_such_a_name() -> None:
    assert names({"federation-upstream-pattern": "^a"}, UPSTREAMS) == ["a1", "a2"]


def test_a_pattern_that_backtracks_for_ever_takes_linear_time() -> None:
    upstreams: dict[str, dict[str, object]] = {"a" * 200 + "!": {}}
    begun = time.thread_time()
    assert names({"federation-upstream-pattern": "^(a+)+$"}, upstreams) == []
    assert time.thread_time() - begun < CPU_S_MAX


@pytest.mark.parametrize("pattern", ["(", r"(a)\1"])
def test_a_stored_pattern_that_cannot_be_compiled_means_no_upstream(pattern: str) -> None:
    assert names({"federation-upstream-pattern": pattern}, UPSTREAMS) == []

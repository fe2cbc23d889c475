"""Values by message as runs: messages that follow each other and have the same one. Compiled."""

from typing import TypeVar

Value = TypeVar("Value")


def alike_runs(values: dict[int, Value]) -> list[tuple[int, int, Value]]:
    """All, as (first, count, value of each), ascending."""
    runs: list[tuple[int, int, Value]] = []
    for seq in sorted(values):
        value = values[seq]
        if len(runs) > 0:
            first, count, before = runs[len(runs) - 1]
            if first + count == seq and before == value:
                runs[len(runs) - 1] = (first, count + 1, before)
                continue
        runs.append((seq, 1, value))
    return runs

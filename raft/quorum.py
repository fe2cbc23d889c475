"""Majorities. Compiled."""

from collections.abc import Collection, Sequence


def agreed(values: list[int]) -> int:
    """The highest value that a majority has reached; one value for each voter. Sorts the list."""
    if not values:
        return 0
    values.sort()
    return values[(len(values) - 1) // 2]


def is_majority(members: Collection[int], voters: Sequence[int]) -> bool:
    """Whether more than half of the voters are among `members`; others do not count."""
    count = 0
    for voter in voters:
        if voter in members:
            count += 1
    return count * 2 > len(voters)

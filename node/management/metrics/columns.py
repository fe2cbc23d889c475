"""Samples of very many objects, made in slices and kept as columns of numbers.

A scrape wants each family whole, and all families of an object come from one look at it: so each
object is looked at once, SLICE at a time with the loop turning in between, and what it says goes
into one array for each family. 10,000 queues with 20 families take 2 MB while a scrape lasts.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from node.management.metrics.text import Family, Row

S = TypeVar("S")
K = TypeVar("K")

SLICE: Final = 200  # objects between two turns of the loop; 5 to 10 ms


class Column(Struct, Generic[S], frozen=True):
    """A family with a sample for each object. `in_sum`: whether sums over objects mean anything."""

    name: str
    kind: str
    help: str
    value: Callable[[S], float]
    in_sum: bool = True


class Columns(Generic[S]):
    """What was seen of the objects so far."""

    def __init__(self, columns: Sequence[Column[S]], labels_of: Callable[[S], str] | None) -> None:
        """Without `labels_of`, sums are all that is kept."""
        self.columns = columns
        self._labels_of = labels_of
        self._labels: list[str] = []
        self._values = [array("d") for _ in columns]
        self._sums = [0.0 for _ in columns]

    def see(self, sample: S) -> None:
        for place, column in enumerate(self.columns):
            value = float(column.value(sample))
            self._sums[place] += value
            if self._labels_of is not None:
                self._values[place].append(value)
        if self._labels_of is not None:
            self._labels.append(self._labels_of(sample))

    def families(self, prefix: str) -> Iterator[Family]:
        """One sample for each object."""
        for column, values in zip(self.columns, self._values, strict=True):
            yield Family(f"{prefix}{column.name}", column.kind, column.help, self._rows(values))

    def _rows(self, values: "array[float]") -> Iterator[Row]:
        return zip(self._labels, values, strict=True)

    def sums(self, prefix: str) -> Iterator[Family]:
        """One sample for all of them together."""
        for column, total in zip(self.columns, self._sums, strict=True):
            if column.in_sum:
                yield Family(f"{prefix}{column.name}", column.kind, column.help, [("", total)])


async def look(
    keys: Sequence[K],
    sample_of: Callable[[K], S | None],
    takers: Sequence[Callable[[S], None]],
) -> None:
    """Tell each taker of each object that is there, a slice at a time."""
    for start in range(0, len(keys), SLICE):
        for key in keys[start : start + SLICE]:
            sample = sample_of(key)
            if sample is not None:
                for taker in takers:
                    taker(sample)
        await asyncio.sleep(0)

"""Clients of other nodes: keys first, then the rows of those that are shown.

Questions to another node (`node.cluster.services.status_channel`): `client_keys` [kind, chosen] is
answered
by keys in parts of KEYS_PART, `client_rows` [kind, keys or nil, chosen, ranges] by rows in parts of
PART (nil: of all that are chosen), `client_values` [kind, chosen, column] by pairs of a key and a
value. `chosen` are the fields of `Chosen`. A page so asks for its own rows alone, though it is
sorted by a column of all. Who does not answer in time is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import astuple

from node.cluster.services.status_channel import NoAnswer, StatusChannel
from node.management.rows.client_rows import ClientRows
from node.management.rows.client_view import Chosen, Key
from node.management.rows.rates import NO_RANGES, Ranges, Row

KEYS: Final = "client_keys"
ROWS: Final = "client_rows"
VALUES: Final = "client_values"
KEYS_PART: Final = 1000
PART: Final = 250

Place: TypeAlias = tuple[int, Key]  # which member has it


class ClusterClients:
    """Asks other nodes, and answers theirs."""

    def __init__(self, status: StatusChannel, rows: ClientRows) -> None:
        self._status = status
        self._rows = rows
        status.serve(KEYS, self._keys_asked)
        status.serve(ROWS, self._rows_asked)
        status.serve(VALUES, self._values_asked)

    async def keys(self, kind: str, chosen: Chosen) -> list[Place]:
        """Of all other nodes."""
        found: list[Place] = []
        answers = await self._status.ask_others(KEYS, [kind, astuple(chosen)])
        for member, parts in answers.items():
            for part in parts or ():
                found += [(member, (name, channel, number)) for name, channel, number in part]
        return found

    async def values(self, kind: str, chosen: Chosen, sort: str) -> dict[Place, object]:
        """A column of all that are chosen, of all other nodes, to sort by."""
        found: dict[Place, object] = {}
        answers = await self._status.ask_others(VALUES, [kind, astuple(chosen), sort])
        for member, parts in answers.items():
            for part in parts or ():
                for (name, channel, number), value in part:
                    found[member, (name, channel, number)] = value
                await asyncio.sleep(0)
        return found

    async def rows(self, kind: str, chosen: Chosen, ranges: Ranges = NO_RANGES) -> list[Row]:
        """All that are chosen, of all other nodes."""
        about = [kind, None, astuple(chosen), dict(ranges)]
        answers = await self._status.ask_others(ROWS, about)
        return [row for parts in answers.values() for part in parts or () for _, row in part]

    async def rows_at(
        self, kind: str, places: Sequence[Place], ranges: Ranges = NO_RANGES
    ) -> dict[Place, Row]:
        """Each node is asked for its own."""
        by_member: dict[int, list[Key]] = {}
        for member, key in places:
            by_member.setdefault(member, []).append(key)
        answers = await asyncio.gather(
            *(self._rows_of(kind, member, keys, ranges) for member, keys in by_member.items())
        )
        return {place: row for rows in answers for place, row in rows}

    async def _rows_of(
        self, kind: str, member: int, keys: list[Key], ranges: Ranges
    ) -> list[tuple[Place, Row]]:
        about = [kind, keys, astuple(Chosen()), dict(ranges)]
        try:
            parts = await self._status.ask(member, ROWS, about)
        except NoAnswer:
            return []
        return [
            ((member, (name, channel, number)), row)
            for part in parts
            for (name, channel, number), row in part
        ]

    async def row(self, kind: str, key: Key, ranges: Ranges = NO_RANGES) -> Row | None:
        """One object, whichever other node has it."""
        about = [kind, [key], astuple(Chosen()), dict(ranges)]
        answers = await self._status.ask_others(ROWS, about)
        found: Iterable[Row] = (
            row for parts in answers.values() for part in parts or () for _, row in part
        )
        return next(iter(found), None)

    # Answering

    async def _keys_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        kind, chosen = about
        keys = self._rows.clients.keys(kind, Chosen(*chosen))
        for start in range(0, len(keys), KEYS_PART):
            yield keys[start : start + KEYS_PART]

    async def _values_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        kind, chosen, sort = about
        value = self._rows.values_of(kind, sort)
        keys = self._rows.clients.keys(kind, Chosen(*chosen))
        for start in range(0, len(keys), PART):
            yield [(key, value(key)) for key in keys[start : start + PART]]

    async def _rows_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        kind, keys, chosen, ranges = about
        if keys is None:
            keys = self._rows.clients.keys(kind, Chosen(*chosen))
        for start in range(0, len(keys), PART):
            part = [tuple(key) for key in keys[start : start + PART]]
            found = ((key, self._rows.row(kind, key, ranges)) for key in part)
            yield [(key, row) for key, row in found if row is not None]

"""Which messages of a stream came before, by the ids in `_AMQ_DUPL_ID`.

Part of the machine: how many ids it remembers is set by commands of the leader (`Configure`), ids
are read from the messages of entries. So every member drops the same messages. No I/O.
"""

from queues.hosts.message_digests import DUPLICATE_IDS, digests_of
from queues.hosts.quorum_entry import cut_of
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import Command, Configure
from queues.machine.known_ids import KnownIds, resized
from queues.machine.options import Options
from queues.message import Chunk

DuplicatesState = tuple[int, bytes]  # how many ids at most, ids


class Duplicates:
    """The newest ids of a stream."""

    def __init__(self) -> None:
        self.limit = 0  # ids that are remembered; 0: none
        self._known: KnownIds | None = None

    def configure(self, command: Configure) -> None:
        self.limit = int(command.options.id_cache_size)
        self._known = resized(self._known, self.limit)

    def new_in(self, chunks: list[Chunk]) -> list[Chunk]:
        """The messages of these chunks whose id is not known; it is from now on."""
        known = self._known
        return chunks if known is None else [new for each in chunks for new in new_of(each, known)]

    def state(self) -> DuplicatesState:
        return self.limit, b"" if self._known is None else self._known.encode()


def new_of(chunk: Chunk, known: KnownIds) -> list[Chunk]:
    ids = digests_of(chunk, DUPLICATE_IDS)
    if ids is None:
        return [chunk]
    kept: list[tuple[int, int]] = []  # index of the first one, count
    begin = 0
    for index in range(chunk.count()):
        if known.knows(ids, index):
            kept.append((begin, index - begin))
            begin = index + 1
        else:
            known.remember(ids, index, 0)
    kept.append((begin, int(chunk.count()) - begin))
    return [cut_of(chunk, at, count) for at, count in kept if count > 0]


def restored_duplicates(state: DuplicatesState) -> Duplicates:
    """ValueError: these are not ids."""
    limit, ids = state
    if limit < 0:
        raise ValueError(f"a limit of {limit} ids")
    duplicates = Duplicates()
    duplicates.limit = limit
    duplicates._known = resized(None, limit)
    if duplicates._known is not None:
        duplicates._known.restore(ids)
    return duplicates


def ids_limit(count: int) -> Command:
    """The command by which a stream remembers so many ids from now on."""
    return Configure(Options(address=AddressSettings(id_cache_size=count) if count > 0 else None))

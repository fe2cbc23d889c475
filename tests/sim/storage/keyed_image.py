"""What is in the keyed state of a simulated node, and what of it a crash may still take back.

A crash leaves what was synced and some first batches of the rest: the database keeps their order.
"""

from random import Random

from warren.storage.keyed import FAMILIES, Batch

Families = dict[str, dict[bytes, bytes]]


class KeyedImage:
    """`written` is what a running process reads; `unsynced` came since the last sync."""

    def __init__(self) -> None:
        self.durable: Families = {name: {} for name in FAMILIES}
        self.unsynced: list[Batch] = []
        self.written: Families = {name: {} for name in FAMILIES}

    def write(self, batch: Batch) -> None:
        carry_out(batch, self.written)
        self.unsynced.append(batch)

    def sync(self) -> None:
        for batch in self.unsynced:
            carry_out(batch, self.durable)
        self.unsynced = []

    def copy(self) -> "KeyedImage":
        twin = KeyedImage()
        twin.durable = {name: dict(rows) for name, rows in self.durable.items()}
        twin.written = {name: dict(rows) for name, rows in self.written.items()}
        twin.unsynced = list(self.unsynced)
        return twin

    def crash(self, random: Random) -> "KeyedImage":
        """What the next process finds."""
        after = KeyedImage()
        for name in FAMILIES:
            after.durable[name] = dict(self.durable[name])
        for batch in self.unsynced[: random.randint(0, len(self.unsynced))]:
            carry_out(batch, after.durable)
        for name in FAMILIES:
            after.written[name] = dict(after.durable[name])
        return after


def carry_out(batch: Batch, families: Families) -> None:
    """What a database does with a batch."""
    for family, key, value, end in batch.operations:
        rows = families[family]
        if value is not None:
            rows[key] = value
        elif end is None:
            rows.pop(key, None)
        else:
            for found in [each for each in rows if key <= each < end]:
                del rows[found]

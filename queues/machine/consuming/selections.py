"""All selectors of a queue, and their consumers (0121). Compiled.

A consumer whose selector matches no ready message stands in the `idle` line of its selection, and
in that of the roster again when one is ready: so many consumers come back as messages wait. A
selection that has lost its last consumer stays, with what is known, for one that comes back.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import ConsumerKey
from queues.machine.consuming.consumers import Consumer, Lines
from queues.machine.consuming.selection import Selection

SELECTIONS_MAX: Final = 64  # distinct selectors of the consumers of one queue
UNUSED_MAX: Final = 8  # that stay without a consumer


@final
class Group:
    """The consumers of one selection."""

    def __init__(self) -> None:
        self.attached: dict[ConsumerKey, Consumer] = {}
        self.idle: dict[ConsumerKey, Consumer] = {}  # those with credit that found nothing to take
        self.is_mixed = False  # they may have different priorities

    def join(self, consumer: Consumer) -> None:
        for other in self.attached.values():
            self.is_mixed = self.is_mixed or other.priority != consumer.priority
            break
        self.attached[consumer.key] = consumer

    def take_idle(self) -> Consumer:
        """Take out the idle consumer that is served next; there must be one."""
        found: Consumer | None = None
        for each in self.idle.values():
            if found is None or each.priority > found.priority:
                found = each
            if not self.is_mixed:
                break
        assert found is not None
        del self.idle[found.key]
        found.is_idle = False
        return found


@final
class Selections:
    """See the module. Invariant: `groups` has the numbers of `all`, the newest used one last."""

    def __init__(self, all_selections: list[Selection], levels: i64) -> None:
        self.all = all_selections  # the list that `Ready` reports to
        self.levels: i64 = levels
        self.groups: dict[int, Group] = {}  # by number
        self.last_number: i64 = 0

    def find(self, selector: bytes) -> Selection | None:
        for each in self.all:
            if each.selector == selector:
                return each
        return None

    def numbered(self, number: i64) -> Selection | None:
        for each in self.all:
            if each.number == number:
                return each
        return None

    def has_room(self, selector: bytes) -> bool:
        """Whether a consumer with this selector can be let in."""
        used: i64 = 0
        for each in self.all:
            if each.selector == selector:
                return True
            used += 1 if each.consumer_count > 0 else 0
        return used < SELECTIONS_MAX

    def join(self, consumer: Consumer, selector: bytes, seen: i64) -> None:
        """The consumer is let in. `seen`: no message up to this one is in the queue."""
        found = self.find(selector)
        if found is None:
            self.last_number += 1
            found = Selection(self.last_number, selector, self.levels)
            found.seen = seen
            self.put(found)
        elif found.consumer_count == 0:
            self.all.remove(found)
            self.all.append(found)
        self.attach(consumer, found)

    def attach(self, consumer: Consumer, selection: Selection) -> None:
        selection.consumer_count += 1
        self.group(selection).join(consumer)
        consumer.selection = selection

    def put(self, selection: Selection) -> None:
        self.all.append(selection)
        self.groups[int(selection.number)] = Group()

    def group(self, selection: Selection) -> Group:
        return self.groups[int(selection.number)]

    def leave(self, consumer: Consumer) -> None:
        """The consumer gets nothing more. Forget the oldest selections without consumers, if there
        are too many."""
        selection = consumer.selection
        assert selection is not None
        selection.consumer_count -= 1
        del self.group(selection).attached[consumer.key]
        consumer.selection = None
        unused = [each for each in self.all if each.consumer_count == 0]
        for old in unused[: max(0, len(unused) - UNUSED_MAX)]:
            self.all.remove(old)
            del self.groups[int(old.number)]

    def forget(self, first: i64, count: i64) -> None:
        """These messages leave the queue."""
        for each in self.all:
            if each.known.count > 0:
                each.known.remove(first, count)

    # Serving

    def rest(self, consumer: Consumer) -> None:
        """The consumer has credit, and nothing that matches is ready. It stands in no line."""
        assert consumer.selection is not None
        consumer.is_idle = True
        self.group(consumer.selection).idle[consumer.key] = consumer

    def end_rest(self, consumer: Consumer) -> None:
        """The consumer is not to be served any more."""
        assert consumer.selection is not None
        consumer.is_idle = False
        del self.group(consumer.selection).idle[consumer.key]

    def wake(self, lines: Lines) -> bool:
        """Have consumers stand in line for whom messages have come; whether there are any."""
        woken = False
        for each in self.all:
            if each.waiting_count > 0 and each.consumer_count > 0:
                group = self.group(each)
                left = each.waiting_count
                while left > 0 and len(group.idle) > 0:
                    lines.join(group.take_idle())
                    woken = True
                    left -= 1
        return woken

    def is_able(self) -> bool:
        """Whether a consumer waits for a message that matches its selector."""
        return any(len(group.idle) > 0 for group in self.groups.values())

    def servable(self) -> i64:
        """How many ready messages match; one that two selectors match counts for both."""
        found: i64 = 0
        for each in self.all:
            if each.consumer_count > 0:
                found += each.waiting_count
        return found

    def consumer_count(self) -> i64:
        """How many attached consumers have selectors."""
        found: i64 = 0
        for each in self.all:
            found += each.consumer_count
        return found

"""How old the oldest message of a queue is, as far as scrapes can tell. Pure.

Messages carry no time of arrival that a queue would keep. But they have numbers that count up: a
message with a number below what the next one was to get at some look was there by then. So the age
that is shown is the time since the first look that found it there: the true one is greater by the
time between two looks at most, and by more for what was there before the first look. Of each
queue with messages LOOKS_MAX looks are kept, and nothing of the others.
"""

from typing import Final

LOOKS_MAX: Final = 32


class HeadAges:
    """Invariant: the looks of a queue ascend, by number and by time."""

    def __init__(self) -> None:
        self._looks: dict[int, list[tuple[int, float]]] = {}  # by uid: next number, when

    def see(self, uid: int, head_seq: int, next_seq: int, now_s: float) -> float:
        """Of message `head_seq`, 0 for none; `next_seq` is the next one to come."""
        if head_seq == 0:
            self._looks.pop(uid, None)
            return 0.0
        looks = self._looks.setdefault(uid, [])
        if looks and next_seq < looks[-1][0]:
            looks.clear()  # It counts again: another leader, or another queue.
        if not looks or next_seq > looks[-1][0]:
            looks.append((next_seq, now_s))
        while looks[0][0] <= head_seq:
            del looks[0]
        if len(looks) > LOOKS_MAX:
            del looks[1:-1:2]
        return now_s - looks[0][1]

    def keep(self, uids: set[int]) -> None:
        """These are all the queues that there are."""
        for uid in self._looks.keys() - uids:
            del self._looks[uid]

"""Which node should lead a quorum queue, by where its messages come from and go to. Pure.

The policy key `leader-follows-traffic` is `off`, `advise` or `auto`. `Watch` is of the node that
leads: it gets how many bytes each node has given to a queue and got of it, sample by sample, and
says to whom the leader should go: to a node that had more than a share of them in every sample
for a time. `Moves` is of the one node that allows transfers: only so many at a time in the whole
cluster, and a queue that has moved rests, each time twice as long, until it was calm for an hour.
So a queue whose traffic swings to and fro is moved less and less often, and one with two halves
never.

Told the time in milliseconds that do not jump. No I/O. Not compiled: asked every few seconds.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

KEY: Final = "leader-follows-traffic"
OFF: Final = "off"
ADVISE: Final = "advise"
AUTO: Final = "auto"
MODES: Final = (OFF, ADVISE, AUTO)
LEAST_BYTES_A_SECOND: Final = 1024  # below that a move gains nothing
SAMPLES: Final = 6  # in the time after which a leader is to move
SPAN_MS_MIN: Final = 500
DOUBLINGS_MAX: Final = 6
CALM_MS: Final = 3_600_000


def mode_of(definition: Mapping[str, object]) -> str:
    """What a policy says."""
    found = definition.get(KEY, OFF)
    return found if isinstance(found, str) and found in MODES else OFF


class Bounds(Struct, frozen=True):
    """What is set for all queues."""

    share_percent: int = 60
    time_ms: int = 30_000
    transfers_max: int = 2

    @property
    def span_ms(self) -> int:
        """Of one sample."""
        return max(SPAN_MS_MIN, self.time_ms // SAMPLES)


class Advice(Struct, frozen=True):
    """The leader should be on `target`, which carries so much of the traffic since then."""

    target: int
    share_percent: int
    since_ms: int


class Watch:
    """The queues that one node leads.

    Invariant: a queue in `_leaning` had more than the share at its target, which was able to lead,
    in all samples since; one in `_quiet` had too little for a move in all of them.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._leaning: dict[int, tuple[int, int]] = {}  # by uid: target, since
        self._quiet: dict[int, int] = {}  # by uid: since

    def sample(
        self,
        uid: int,
        now_ms: int,
        span_ms: int,
        carried: Mapping[int, int],
        leader: int,
        is_able: Callable[[int], bool],
    ) -> Advice | None:
        """`carried`: bytes by node in the last `span_ms`. None: the leader is where it should be,
        or no node has had enough for long enough."""
        total = sum(carried.values())
        is_much = 1000 * total >= LEAST_BYTES_A_SECOND * span_ms
        if is_much:
            self._quiet.pop(uid, None)
        else:
            self._quiet.setdefault(uid, now_ms - span_ms)
        target = max(carried, key=lambda node: (carried[node], -node), default=leader)
        enough = is_much and 100 * carried[target] > self._bounds.share_percent * total
        if not enough or target == leader or not is_able(target):
            self._leaning.pop(uid, None)
            return None
        known, since_ms = self._leaning.get(uid, (target, now_ms - span_ms))
        if known != target:
            since_ms = now_ms - span_ms
        self._leaning[uid] = (target, since_ms)
        if now_ms - since_ms < self._bounds.time_ms:
            return None
        return Advice(target, 100 * carried[target] // total, since_ms)

    def forget(self, uid: int) -> None:
        """It is not led here, or not watched any more."""
        self._leaning.pop(uid, None)
        self._quiet.pop(uid, None)

    def idle(self, now_ms: int) -> list[int]:
        """Queues whose traffic has been too little for a move for as long as a move takes."""
        return [
            uid
            for uid, since_ms in self._quiet.items()
            if now_ms - since_ms >= self._bounds.time_ms
        ]


class Moves:
    """Transfers of all queues of the cluster, at the node that allows them.

    Invariant: at most `transfers_max` are under way. What it knows is gone with the node: then a
    queue may move once before it has rested.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._under_way: set[int] = set()
        self._moved: dict[int, tuple[int, int]] = {}  # by uid: when last, how often before that

    def refusal(self, uid: int, now_ms: int) -> str:
        """Why the queue does not move now; "": it may."""
        if uid in self._under_way or len(self._under_way) >= self._bounds.transfers_max:
            return "other transfers are under way"
        moved = self._moved.get(uid)
        if moved is not None and now_ms - moved[0] < self._rest_ms(moved[1]):
            return "it has moved lately"
        return ""

    def _rest_ms(self, count: int) -> int:
        return self._bounds.time_ms << min(count, DOUBLINGS_MAX)

    def begin(self, uid: int) -> None:
        assert uid not in self._under_way
        assert len(self._under_way) < self._bounds.transfers_max
        self._under_way.add(uid)

    def end(self, uid: int, now_ms: int) -> None:
        """It has moved, or it could not: either way it is left alone for a while."""
        self._under_way.discard(uid)
        for each in [each for each, (at_ms, _) in self._moved.items() if now_ms - at_ms > CALM_MS]:
            del self._moved[each]
        count = self._moved[uid][1] + 1 if uid in self._moved else 1
        self._moved[uid] = (now_ms, count)

"""What the queue machine tells its host to do. Made per run of messages, never per message.

`Delivers` and the rest name messages by their message_seq; the host adds the bodies. Effects may
be lost with a leader; what must survive is in the machine's state. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from queues.machine.commands import ConsumerKey, SessionId

ACQUIRED_SHIFT: Final = 32  # attempts = times acquired << 32 | failed deliveries

LEFT_ACCEPTED: Final = 1  # why messages left the queue
LEFT_REJECTED: Final = 2
LEFT_PURGED: Final = 3
LEFT_EXPIRED: Final = 4
LEFT_MAXLEN: Final = 5  # dropped from the head of a full queue, or refused with dead-lettering
LEFT_DELIVERY_LIMIT: Final = 6
LEFT_REFUSED: Final = 7  # never was in the queue: the publish was refused (reject-publish)
LEFT_BURIED: Final = 8  # dead-lettered at least once: the letters are safe where they went
LEFT_TOO_LARGE: Final = 9  # the header exceeds the frame_max of the consumer
LEFT_REPLACED: Final = 11  # a newer message with the same key is there
LEFT_DUPLICATE: Final = 10  # never was in the queue: it has taken a message of that id before


@mypyc_attr(acyclic=True)
class Effect:
    """Base of all effects."""


@final
@mypyc_attr(acyclic=True)
class Enqueued(Effect):
    """The session's messages first_seq.. are message_first.. now; confirm when safe.

    Some of them may have been refused: a `Refused` and a `Left` follow.
    """

    def __init__(self, session: SessionId, first_seq: i64, count: i64, message_first: i64) -> None:
        self.session = session
        self.first_seq: i64 = first_seq
        self.count: i64 = count
        self.message_first: i64 = message_first


@final
@mypyc_attr(acyclic=True)
class Refused(Effect):
    """The queue is full and took none of the session's messages first_seq..."""

    def __init__(self, session: SessionId, first_seq: i64, count: i64) -> None:
        self.session = session
        self.first_seq: i64 = first_seq
        self.count: i64 = count


@final
@mypyc_attr(acyclic=True)
class KnownAlready(Effect):
    """The session's messages first_seq.. came a second time; they are confirmed again."""

    def __init__(self, session: SessionId, first_seq: i64, count: i64) -> None:
        self.session = session
        self.first_seq: i64 = first_seq
        self.count: i64 = count


@final
@mypyc_attr(acyclic=True)
class ResendFrom(Effect):
    """There is a gap: the session must send again from this number on."""

    def __init__(self, session: SessionId, seq: i64) -> None:
        self.session = session
        self.seq: i64 = seq


@final
@mypyc_attr(acyclic=True)
class Delivers(Effect):
    """Messages first..first+count-1 are checked out to the consumer, in this order.

    `delivery_seq` numbers the consumer's deliveries from 1: the first message here has it.
    `attempts` is that of each message (see ACQUIRED_SHIFT), 0 where they are not counted.
    """

    def __init__(
        self,
        key: ConsumerKey,
        delivery_seq: i64,
        first: i64,
        count: i64,
        redelivered: bool,
        attempts: i64 = 0,
    ) -> None:
        self.key = key
        self.delivery_seq: i64 = delivery_seq
        self.first: i64 = first
        self.count: i64 = count
        self.redelivered = redelivered
        self.attempts: i64 = attempts


@final
@mypyc_attr(acyclic=True)
class Got(Effect):
    """Answer to Get; message 0 means that nothing was ready. The message is checked out."""

    def __init__(
        self, session: SessionId, message: i64, redelivered: bool, ready: i64, attempts: i64 = 0
    ) -> None:
        self.session = session
        self.message: i64 = message
        self.redelivered = redelivered
        self.ready: i64 = ready  # how many more are ready
        self.attempts: i64 = attempts


@final
@mypyc_attr(acyclic=True)
class Left(Effect):
    """Messages first.. are no longer in the queue; `reason` is one of LEFT_*.

    `annotations` are what consumers noted on some of them, by message_seq
    (`queues.machine.annotations`).
    """

    def __init__(self, first: i64, count: i64, reason: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.reason: i64 = reason
        self.annotations: dict[int, bytes] | None = None


@final
class Attached(Effect):
    """The consumer is in; the queue's answer to Attach."""

    def __init__(self, key: ConsumerKey) -> None:
        self.key = key


NOT_REFUSED: Final = -1  # reasons why a consumer is not let in
IN_EXCLUSIVE_USE: Final = 0  # or others are there already
TOO_MANY_SELECTORS: Final = 1


@final
class AttachRefused(Effect):
    """The consumer is not let in."""

    def __init__(self, key: ConsumerKey, reason: i64 = IN_EXCLUSIVE_USE) -> None:
        self.key = key
        self.reason: i64 = reason


@final
class Detached(Effect):
    """Answer to Detach: the consumer gets no more."""

    def __init__(self, key: ConsumerKey) -> None:
        self.key = key


@final
class Activated(Effect):
    """Of a queue with a single active consumer: this one is it now, or no longer."""

    def __init__(self, key: ConsumerKey, active: bool) -> None:
        self.key = key
        self.active = active


@final
class TimedOut(Effect):
    """The consumer kept a delivery for longer than this: what it held is ready. A timeout of 0: it
    is closed because it is slow."""

    def __init__(self, key: ConsumerKey, timeout_ms: i64) -> None:
        self.key = key
        self.timeout_ms: i64 = timeout_ms


@final
class QueueExpired(Effect):
    """The queue has been unused for as long as it may be unused: it is to be deleted."""


@final
class Drained(Effect):
    """Credit left over from a drain is used up; the delivery count is now this."""

    def __init__(self, key: ConsumerKey, delivery_count: i64) -> None:
        self.key = key
        self.delivery_count: i64 = delivery_count


@final
class Purged(Effect):
    """Answer to Purge: so many messages went."""

    def __init__(self, session: SessionId, count: i64) -> None:
        self.session = session
        self.count: i64 = count


@final
class Inspected(Effect):
    """Answer to Inspect; of a stream, to StoreOffsets and QueryTracking."""

    def __init__(self, session: SessionId, ready: i64, consumer_count: i64) -> None:
        self.session = session
        self.ready: i64 = ready
        self.consumer_count: i64 = consumer_count


@final
class SizesWanted(Effect):
    """A consumer has a byte window: the queue is to be configured so that it counts the bytes of
    its messages (`Options.counting`). Until then the consumer gets nothing."""


@final
class SlowConsumer(Effect):
    """While messages waited, the consumer settled fewer of them than the queue's threshold asks.

    `settled_count` in `period_ms`. `TimedOut` with a timeout of 0 follows if it is closed for it.
    """

    def __init__(
        self, key: ConsumerKey, settled_count: i64, period_ms: i64, is_killed: bool
    ) -> None:
        self.key = key
        self.settled_count: i64 = settled_count
        self.period_ms: i64 = period_ms
        self.is_killed = is_killed


@final
class LastConsumerGone(Effect):
    """The queue had consumers and has none now (auto-delete)."""


@final
class Applied(Effect):
    """The session's commands up to this number are in the state (0036)."""

    def __init__(self, session: SessionId, number: i64) -> None:
        self.session = session
        self.number: i64 = number


@final
class Unwanted(Effect):
    """Of the Enqueue that is next in the batch nothing was taken: it came a second time, or too
    early. Its messages would have been message_first.., and these numbers are used up. Of each
    Enqueue, in order, `Enqueued` or this follows. The part that stored their bodies releases them.
    """

    def __init__(self, session: SessionId, message_first: i64, count: i64) -> None:
        self.session = session
        self.message_first: i64 = message_first
        self.count: i64 = count


@final
class DeadLettersPending(Effect):
    """Messages first.. are out of the queue, to be dead-lettered; their bodies stay until `Left`
    with LEFT_BURIED. `reason` is one of LEFT_*."""

    def __init__(self, first: i64, count: i64, reason: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.reason: i64 = reason


@final
class SessionOver(Effect):
    """The cluster has ended the session, which may not know: its process was given up."""

    def __init__(self, session: SessionId) -> None:
        self.session = session

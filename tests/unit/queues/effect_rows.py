"""Effects of the queue machine as rows, one per message, that can be compared and sorted."""

from queues.machine.annotations import decode_words
from queues.machine.effects import (
    Activated,
    Applied,
    Attached,
    AttachRefused,
    DeadLettersPending,
    Delivers,
    Detached,
    Drained,
    Effect,
    Enqueued,
    Got,
    Inspected,
    KnownAlready,
    LastConsumerGone,
    Left,
    Purged,
    QueueExpired,
    Refused,
    ResendFrom,
    SessionOver,
    SizesWanted,
    SlowConsumer,
    TimedOut,
    Unwanted,
)

Row = tuple[object, ...]


def spread(effects: list[Effect]) -> list[Row]:
    """The effects, each message for itself."""
    return [row for effect in effects for row in rows_of(effect)]


def rows_of(effect: Effect) -> list[Row]:
    match effect:
        case Enqueued():
            return [
                ("enqueued", effect.session, effect.first_seq + i, effect.message_first + i)
                for i in range(effect.count)
            ]
        case Refused():
            numbers = range(effect.first_seq, effect.first_seq + effect.count)
            return [("refused publish", effect.session, number) for number in numbers]
        case Unwanted():
            numbers = range(effect.message_first, effect.message_first + effect.count)
            return [("unwanted", effect.session, number) for number in numbers]
        case KnownAlready():
            return [("known", effect.session, effect.first_seq + i) for i in range(effect.count)]
        case Delivers():
            last = bool(effect.redelivered), effect.attempts
            return [
                ("delivers", effect.key, effect.delivery_seq + i, effect.first + i, *last)
                for i in range(effect.count)
            ]
        case DeadLettersPending():
            return [("dying", effect.first + i, effect.reason) for i in range(effect.count)]
        case Left():
            left: list[Row] = [
                ("left", effect.first + i, effect.reason) for i in range(effect.count)
            ]
            noted = sorted((effect.annotations or {}).items())
            return left + [("noted", seq, tuple(decode_words(each).items())) for seq, each in noted]
        case _:
            return [_row_of(effect)]


def _row_of(effect: Effect) -> Row:
    match effect:
        case ResendFrom():
            return ("resend", effect.session, effect.seq)
        case Got():
            flag = bool(effect.redelivered)
            return ("got", effect.session, effect.message, flag, effect.ready, effect.attempts)
        case Attached():
            return ("attached", effect.key)
        case AttachRefused():
            return ("refused", effect.key)
        case Detached():
            return ("detached", effect.key)
        case Activated():
            return ("activated", effect.key, bool(effect.active))
        case TimedOut():
            return ("timed out", effect.key, effect.timeout_ms)
        case QueueExpired():
            return ("queue expired",)
        case Drained():
            return ("drained", effect.key, effect.delivery_count)
        case Purged():
            return ("purged", effect.session, effect.count)
        case Inspected():
            return ("inspected", effect.session, effect.ready, effect.consumer_count)
        case SessionOver():
            return ("session over", effect.session)
        case Applied():
            return ("applied", effect.session, effect.number)
        case SlowConsumer():
            return ("slow", effect.key, effect.settled_count, bool(effect.is_killed))
        case SizesWanted():
            return ("sizes wanted",)
        case LastConsumerGone():
            return ("last consumer gone",)
        case _:
            raise AssertionError(type(effect).__name__)

"""Runs a story about one queue: lines of commands in, the story with the machine's answers out.

    > queue ttl 1000            a new queue with options, in the words of WORDS and FLAGS below;
                                `delays all` (failed, returned, none), `overflow reject-publish`
    > configure ttl 500         the queue's options are others now; those not named stay
    > at 1500                   an empty batch at this time, in ms; it is the time from now on
    > publish s1 3              session s1 publishes 3 messages; `publish s1 3 from 2` numbers them;
                                words: `priority 5`, `expiration 200`, `size 100`, or one number
                                for each message, as in `size 100,20,3` (- for none)
    > attach s1.a credit 10     consumer a of s1; words: `auto` (settling gives credit back),
                                `exclusive`, `priority 5`, `timeout 1000`
    > credit s1.a 5 after 2     absolute: 5 more than its first 2 deliveries; words: `drain`, `auto`
    > settle s1.a accept 1-3 7  or reject, release, unseen, fail; `s1.get` holds what s1 got
                              `noting why=bad n=2` behind the messages: their annotations
    > detach s1.a     > get s1     > purge s1     > inspect s1     > end s1     > tick
    > restart 2-4 9 next 12 redelivered 3    a new machine from what a recovery found

Commands on one line, parted by `;`, are one batch; empty ones follow while the machine has more to
do. Answers are indented by two; after each batch comes the state: what is ready (`!` behind a run:
redelivered; levels from the highest on, parted by `|`), and what each consumer holds (`*` behind
the name: the active one). Lines that begin with `#`, and blank ones, are kept as they are.
Everything else is generated.
"""

import struct

from queues.machine.annotations import decode_words, encode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    SessionId,
    Settle,
    Tick,
    consumer_key,
    session_of,
)
from queues.machine.delays import DELIVERY_TIME
from queues.machine.effects import (
    ACQUIRED_SHIFT,
    LEFT_ACCEPTED,
    LEFT_DELIVERY_LIMIT,
    LEFT_EXPIRED,
    LEFT_MAXLEN,
    LEFT_PURGED,
    LEFT_REFUSED,
    LEFT_REJECTED,
    Activated,
    Attached,
    AttachRefused,
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
    TimedOut,
)
from queues.machine.fifo import Fifo
from queues.machine.options import (
    DELAY_ALL,
    DELAY_FAILED,
    DELAY_NONE,
    DELAY_RETURNED,
    DROP_HEAD,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    Options,
)
from queues.machine.traits import ABSENT, Traits

OUTCOMES = {
    "accept": ACCEPT,
    "reject": REJECT,
    "release": RELEASE,
    "unseen": RETURN_UNSEEN,
    "fail": FAIL,
}
REASONS = {
    LEFT_ACCEPTED: "accepted",
    LEFT_REJECTED: "rejected",
    LEFT_PURGED: "purged",
    LEFT_EXPIRED: "expired",
    LEFT_MAXLEN: "maxlen",
    LEFT_DELIVERY_LIMIT: "delivery limit",
    LEFT_REFUSED: "refused",
}
DELAYED = {
    "none": DELAY_NONE,
    "all": DELAY_ALL,
    "failed": DELAY_FAILED,
    "returned": DELAY_RETURNED,
}
OVERFLOWS = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}
WORDS = {
    "priorities": "levels",  # so many levels
    "default-priority": "default_level",
    "ttl": "ttl_ms",
    "max-length": "length_max",
    "max-bytes": "bytes_max",
    "delivery-limit": "delivery_limit",
    "timeout": "consumer_timeout_ms",
    "expires": "expires_ms",
    "delay": "delay_min_ms",  # of each failure, if some are delayed
    "delay-max": "delay_max_ms",
}
FLAGS = {
    "single-active": "single_active",
    "drained-handover": "drain_handover",
    "counts": "counts_deliveries",
}
GET = "get"
NOTING = "noting"
Runs = list[tuple[int, int]]


def run_script(text: str) -> str:
    """The same story with its answers as they are now."""
    script = Script()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines += ["  " + answer for answer in script.run(line[2:])]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"


class Script:
    """The machine of one story, and the names of its sessions and consumers."""

    def __init__(self) -> None:
        self._fifo = Fifo()
        self._now_ms = 0
        self._sessions: dict[str, SessionId] = {}
        self._keys: dict[str, ConsumerKey] = {}
        self._sent: dict[str, int] = {}

    def run(self, line: str) -> list[str]:
        words = line.split()
        commands: list[Command] = []
        if words[0] == "restart":
            self._restart(words[1:])
        elif words[0] == "queue":
            self._forget(options_in(Options(), words[1:]))
        elif words[0] == "at":
            self._now_ms = int(words[1])
        else:
            commands = [self._command(part.split()) for part in line.split(";")]
        return [*self._apply(commands), self._state()]

    def _apply(self, commands: list[Command]) -> list[str]:
        told = [self._tell(effect) for effect in self._fifo.apply(commands, self._now_ms)]
        while self._fifo.has_more():
            told += [self._tell(effect) for effect in self._fifo.apply([], self._now_ms)]
        return told

    def _forget(self, options: Options) -> None:
        self._fifo = Fifo(options)
        self._sessions, self._keys, self._sent = {}, {}, {}

    def _restart(self, words: list[str]) -> None:
        self._forget(self._fifo.options)
        at = words.index("next")
        upto = int(words[at + 3]) if len(words) > at + 2 else 0
        for first, count in runs_in(words[:at]):
            self._fifo.restore_run(first, count, None, 0, 0)
        self._fifo.end_restore(int(words[at + 1]), upto)

    # Commands

    def _command(self, words: list[str]) -> Command:
        verb, who, rest = words[0], "".join(words[1:2]), words[2:]
        match verb:
            case "tick":
                return Tick()
            case "configure":
                return Configure(options_in(self._fifo.options, words[1:]))
            case "publish":
                return self._publish(who, rest)
            case "settle":
                return self._settle(who, rest)
            case "attach":
                auto, exclusive = "auto" in rest, "exclusive" in rest
                numbers = number_after("credit", rest), number_after("priority", rest)
                timeout = number_after("timeout", rest) or -1
                return Attach(self._key(who), numbers[0], auto, exclusive, numbers[1], timeout)
            case "credit":
                drain, auto = "drain" in rest, "auto" in rest
                after = number_after("after", rest)
                return Credit(self._key(who), after, int(rest[0]), drain, auto)
            case "detach":
                return Detach(self._key(who))
            case "get":
                return Get(self._session(who))
            case "purge":
                return Purge(self._session(who))
            case "inspect":
                return Inspect(self._session(who))
            case "end":
                return EndSession(self._session(who))
            case _:
                raise ValueError(f"no command {verb!r}")

    def _settle(self, who: str, rest: list[str]) -> Settle:
        at = rest.index(NOTING) if NOTING in rest else len(rest)
        notes = dict(note_in(word) for word in rest[at + 1 :])
        runs = runs_in(rest[1:at])
        return Settle(self._key(who), OUTCOMES[rest[0]], runs, encode_words(notes))

    def _publish(self, who: str, rest: list[str]) -> Enqueue:
        first = number_after("from", rest) or self._sent.get(who, 0) + 1
        count = int(rest[0])
        self._sent[who] = first + count - 1
        return Enqueue(self._session(who), first, count, traits_in(rest, count))

    def _session(self, name: str) -> SessionId:
        return self._sessions.setdefault(name, SessionId(1 << 64 | len(self._sessions) + 1))

    def _key(self, name: str) -> ConsumerKey:
        session, _, consumer = name.partition(".")
        number = 0 if consumer == GET else len(self._keys) + 1
        return self._keys.setdefault(name, consumer_key(self._session(session), number))

    # Answers

    def _session_name(self, session: SessionId) -> str:
        return next(name for name, each in self._sessions.items() if each == session)

    def _name(self, key: ConsumerKey) -> str:
        if key & 0xFFFFFFFF == 0:
            return f"{self._session_name(session_of(key))}.{GET}"
        return next(name for name, each in self._keys.items() if each == key)

    def _tell(self, effect: Effect) -> str:
        match effect:
            case Enqueued():
                numbers = span(effect.first_seq, effect.count)
                messages = span(effect.message_first, effect.count)
                return f"enqueued {self._session_name(effect.session)} {numbers} as {messages}"
            case KnownAlready():
                numbers = span(effect.first_seq, effect.count)
                return f"known already {self._session_name(effect.session)} {numbers}"
            case ResendFrom():
                return f"resend {self._session_name(effect.session)} from {effect.seq}"
            case Refused():
                numbers = span(effect.first_seq, effect.count)
                return f"refused {numbers} of {self._session_name(effect.session)}"
            case Delivers():
                flag = seen(effect.redelivered, effect.attempts)
                messages = span(effect.first, effect.count)
                return f"deliver {self._name(effect.key)} #{effect.delivery_seq} {messages}{flag}"
            case Left():
                left = f"left {span(effect.first, effect.count)} {REASONS[int(effect.reason)]}"
                return left + "".join(noted(effect.annotations or {}))
            case _:
                return self._tell_seldom(effect)

    def _tell_seldom(self, effect: Effect) -> str:
        match effect:
            case Got(message=0):
                return f"nothing for {self._session_name(effect.session)}"
            case Got():
                flag = seen(effect.redelivered, effect.attempts)
                who = self._session_name(effect.session)
                return f"got {who} {effect.message}{flag}, {effect.ready} more"
            case Attached():
                return f"attached {self._name(effect.key)}"
            case AttachRefused():
                return f"refused {self._name(effect.key)}"
            case Detached():
                return f"detached {self._name(effect.key)}"
            case Drained():
                return f"drained {self._name(effect.key)} at {effect.delivery_count}"
            case Purged():
                return f"purged {effect.count}"
            case Inspected():
                return f"{effect.ready} ready, {effect.consumer_count} consumers"
            case LastConsumerGone():
                return "last consumer gone"
            case Activated():
                change = "active now" if effect.active else "active no more"
                return f"{self._name(effect.key)} {change}"
            case TimedOut():
                return f"timed out {self._name(effect.key)} after {effect.timeout_ms} ms"
            case QueueExpired():
                return "queue expired"
            case _:
                raise ValueError(type(effect).__name__)

    def _state(self) -> str:
        lanes = [self._marked(lane.runs()) for lane in reversed(self._fifo.ready.lanes)]
        filled = [lane for lane in lanes if lane != "-"]
        parts = ["ready " + (" | ".join(filled) or "-")]
        for key, consumer in self._fifo.consumers.items():
            held = self._marked(consumer.held.runs())
            credit = f" credit {consumer.credit}" if consumer.attached else " detached"
            star = "*" if key == self._fifo.roster.active_key else ""
            parts.append(f"{self._name(key)}{star} {held}{credit}")
        if self._fifo.delays is not None and self._fifo.delays.seqs.count > 0:
            parts.append("delayed " + self._marked(self._fifo.delays.seqs.runs()))
        parts += [each.lstrip(", ") for each in noted(self._fifo.annotations.words)]
        return "= " + "; ".join(parts)

    def _marked(self, runs: Runs) -> str:
        """The runs, cut where the redelivered mark begins or ends."""
        found: list[str] = []
        for first, count in runs:
            at = first
            for start, length in [*self._fifo.redelivered.within(first, count), (first + count, 0)]:
                if start > at:
                    found.append(span(at, start - at))
                if length:
                    found.append(span(start, length) + "!")
                at = start + length
        return " ".join(found) or "-"


def options_in(old: Options, words: list[str]) -> Options:
    """The options with some changed: `ttl 1000 single-active overflow reject-publish`."""
    names = [*WORDS.values(), *FLAGS.values(), "overflow", "dead_letters", "delays", "delay_type"]
    fields = {name: getattr(old, name) for name in names}
    rest = iter(words)
    for word in rest:
        if word in FLAGS:
            fields[FLAGS[word]] = True
        elif word == "delays":
            fields["delays"], fields["delay_type"] = True, DELAYED[next(rest)]
        elif word == "overflow":
            fields[word] = OVERFLOWS[next(rest)]
        else:
            fields[WORDS[word]] = int(next(rest))
    return Options(**fields)


def traits_in(words: list[str], count: int) -> Traits | None:
    """`priority 5 size 10,20`: what a publish says of its messages."""
    priorities = numbers_after("priority", words, count)
    ttls = numbers_after("expiration", words, count)
    sizes = numbers_after("size", words, count)
    if priorities is None and ttls is None and sizes is None:
        return None
    return Traits(
        ABSENT,
        ABSENT,
        None if priorities is None else struct.pack(f"<{count}i", *priorities),
        None if ttls is None else struct.pack(f"<{count}q", *ttls),
        None if sizes is None else struct.pack(f"<{count}i", *sizes),
    )


def numbers_after(word: str, words: list[str], count: int) -> list[int] | None:
    """One number for each message, or the one that is said for all."""
    if word not in words:
        return None
    said = words[words.index(word) + 1].split(",")
    numbers = [ABSENT if each == "-" else int(each) for each in said]
    return numbers * count if len(numbers) == 1 else numbers


def seen(redelivered: bool, attempts: int) -> str:
    flag = " redelivered" if redelivered else ""
    if attempts == 0:
        return flag
    acquired, failed = attempts >> ACQUIRED_SHIFT, attempts & (1 << ACQUIRED_SHIFT) - 1
    return f"{flag} (acquired {acquired}, failed {failed})"


def note_in(word: str) -> tuple[bytes, bytes]:
    """`why=bad`, or `at=1500`: the time before which it is not to be delivered."""
    key, _, value = word.partition("=")
    if key == "at":
        return DELIVERY_TIME, b"\x83" + int(value).to_bytes(8, "big")
    return key.encode(), value.encode()


def noted(words: dict[int, bytes]) -> list[str]:
    """What is noted on each message."""
    found: list[str] = []
    for seq, each in sorted(words.items()):
        notes = [f"{key.decode()}={shown(value)}" for key, value in decode_words(each).items()]
        found.append(f", noted on {seq}: {' '.join(notes)}")
    return found


def shown(value: bytes) -> str:
    return value.decode() if value[0] != 0x83 else str(int.from_bytes(value[1:], "big"))


def span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def runs_in(words: list[str]) -> Runs:
    """`1-3 7` as (first, count)."""
    runs: Runs = []
    for word in words:
        first, _, last = word.partition("-")
        runs.append((int(first), int(last or first) - int(first) + 1))
    return runs


def number_after(word: str, words: list[str]) -> int:
    return int(words[words.index(word) + 1]) if word in words else 0

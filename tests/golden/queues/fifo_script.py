"""Runs a story about one queue: lines of commands in, the story with the machine's answers out.

    > publish s1 3              session s1 publishes 3 messages; `publish s1 3 from 2` numbers them
    > attach s1.a credit 10     consumer a of s1; words: `auto` (settling gives credit back),
                                `exclusive`, `priority 5`
    > credit s1.a 5 after 2     absolute: 5 more than its first 2 deliveries; words: `drain`, `auto`
    > settle s1.a accept 1-3 7  or reject, release, unseen; consumer `s1.get` holds what s1 got
    > detach s1.a               > get s1     > purge s1     > inspect s1     > end s1
    > restart 2-4 9 next 12 redelivered 3    a new machine from what a recovery found

Commands on one line, parted by `;`, are one batch. Answers are indented by two; after each batch
comes the state: what is ready (`!` behind a run: redelivered), and what each consumer holds. Lines
that begin with `#`, and blank ones, are kept as they are. Everything else is made anew.
"""

from queues.commands import (
    ACCEPT,
    REJECT,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
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
    consumer_key,
    session_of,
)
from queues.effects import (
    LEFT_ACCEPTED,
    LEFT_PURGED,
    LEFT_REJECTED,
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
    ResendFrom,
)
from queues.fifo import Fifo

OUTCOMES = {"accept": ACCEPT, "reject": REJECT, "release": RELEASE, "unseen": RETURN_UNSEEN}
REASONS = {LEFT_ACCEPTED: "accepted", LEFT_REJECTED: "rejected", LEFT_PURGED: "purged"}
GET = "get"
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
        self._sessions: dict[str, SessionId] = {}
        self._keys: dict[str, ConsumerKey] = {}
        self._sent: dict[str, int] = {}

    def run(self, line: str) -> list[str]:
        words = line.split()
        if words[0] == "restart":
            self._restart(words[1:])
            return [self._state()]
        commands = [self._command(part.split()) for part in line.split(";")]
        return [*map(self._tell, self._fifo.apply(commands, 0)), self._state()]

    def _restart(self, words: list[str]) -> None:
        self._fifo = Fifo()
        self._sessions, self._keys, self._sent = {}, {}, {}
        at = words.index("next")
        upto = int(words[at + 3]) if len(words) > at + 2 else 0
        for first, count in runs_in(words[:at]):
            self._fifo.restore_run(first, count, None, 0, 0)
        self._fifo.end_restore(int(words[at + 1]), upto)

    # Commands

    def _command(self, words: list[str]) -> Command:
        verb, who, rest = words[0], words[1], words[2:]
        match verb:
            case "publish":
                return self._publish(who, rest)
            case "settle":
                return Settle(self._key(who), OUTCOMES[rest[0]], runs_in(rest[1:]))
            case "attach":
                auto, exclusive = "auto" in rest, "exclusive" in rest
                numbers = number_after("credit", rest), number_after("priority", rest)
                return Attach(self._key(who), numbers[0], auto, exclusive, numbers[1])
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

    def _publish(self, who: str, rest: list[str]) -> Enqueue:
        first = number_after("from", rest) or self._sent.get(who, 0) + 1
        count = int(rest[0])
        self._sent[who] = first + count - 1
        return Enqueue(self._session(who), first, count)

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
            case Delivers():
                flag = " redelivered" if effect.redelivered else ""
                messages = span(effect.first, effect.count)
                return f"deliver {self._name(effect.key)} #{effect.delivery_seq} {messages}{flag}"
            case Left():
                return f"left {span(effect.first, effect.count)} {REASONS[int(effect.reason)]}"
            case _:
                return self._tell_seldom(effect)

    def _tell_seldom(self, effect: Effect) -> str:
        match effect:
            case Got(message=0):
                return f"nothing for {self._session_name(effect.session)}"
            case Got():
                flag = " redelivered" if effect.redelivered else ""
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
            case _:
                raise ValueError(type(effect).__name__)

    def _state(self) -> str:
        parts = ["ready " + self._marked(self._fifo.ready.runs())]
        for key, consumer in self._fifo.consumers.items():
            held = self._marked(consumer.held.runs())
            credit = f" credit {consumer.credit}" if consumer.attached else " detached"
            parts.append(f"{self._name(key)} {held}{credit}")
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

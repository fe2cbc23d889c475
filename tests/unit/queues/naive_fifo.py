"""The rules of a queue written a second time: one message at a time, lists and dicts, no runs.

It takes commands and the time, and gives effects as rows, one per message (`effect_rows` makes the
same of the machine's). It knows every option. Things expire on the millisecond here and a little
later in the machine, so a comparison keeps away from those moments. Nothing is put off: what is to
leave leaves in the same batch. Slow on purpose.
"""

from queues.machine.annotations import decode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    QUEUE_LIMIT,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
    Configure,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    Restarted,
    Settle,
    Tick,
)
from queues.machine.effects import (
    LEFT_ACCEPTED,
    LEFT_DELIVERY_LIMIT,
    LEFT_DUPLICATE,
    LEFT_EXPIRED,
    LEFT_MAXLEN,
    LEFT_PURGED,
    LEFT_REFUSED,
    LEFT_REJECTED,
    LEFT_REPLACED,
    LEFT_TOO_LARGE,
)
from queues.machine.options import (
    DELAY_ALL,
    DELAY_FAILED,
    DELAY_RETURNED,
    DROP_HEAD,
    REJECT_PUBLISH_DLX,
    Options,
)
from queues.machine.traits import Traits
from tests.unit.queues.effect_rows import Row
from tests.unit.queues.naive_bounds import bounded, due_with


def time_in(words: bytes) -> int:
    """The delivery time that a consumer noted, or 0."""
    value = decode_words(words).get(b"x-opt-delivery-time", b"\x83" + bytes(8))
    return int.from_bytes(value[1:], "big")


class NaiveMessage:
    def __init__(self, seq: int, level: int, size: int, arrived_ms: int, own_ttl: int) -> None:
        self.seq = seq
        self.level = level
        self.size = size
        self.key = b""  # of last values
        self.arrived_ms = arrived_ms
        self.own_due_ms = arrived_ms + own_ttl if own_ttl >= 0 else None
        self.has_expiration = False  # `own_due_ms` is not by the queue's default
        self.redelivered = False
        self.acquired = 0
        self.failed = 0
        self.words: dict[bytes, bytes] = {}  # what consumers noted
        self.until_ms: int | None = None  # it waits for this time

    def is_due(self, now_ms: int, queue_ttl: int) -> bool:
        if self.own_due_ms is not None and self.own_due_ms <= now_ms:
            return True
        return 0 <= queue_ttl <= now_ms - self.arrived_ms


class NaiveConsumer:
    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.credit = 0
        self.delivery_count = 0
        self.auto_return = False
        self.exclusive = False
        self.attached = True
        self.timeout_ms = -1
        self.own_window = QUEUE_LIMIT
        self.own_rate = QUEUE_LIMIT
        self.rate = -1
        self.tokens = 1000  # of a message; rates are so low that no more are kept
        self.filled_ms = 0
        self.settled = 0  # since the last look for slow consumers
        self.waiting = 0  # for it, then
        self.until_ms = 0  # it waits for tokens; 0: it does not
        self.held: list[int] = []
        self.seen_ms: dict[int, int] = {}  # when what it holds was first looked at

    def put_down(self, seq: int) -> None:
        self.held.remove(seq)
        self.seen_ms.pop(seq, None)


class NaiveFifo:
    """A message is in `messages` as long as it is in the queue, and in `ready` while it waits."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = Options() if options is None else options
        self.messages: dict[int, NaiveMessage] = {}
        self.ready: list[int] = []
        self.consumers: dict[int, NaiveConsumer] = {}
        self.line: list[int] = []
        self.active: int | None = None
        self.waits = False  # for the active one to hold nothing
        self.last_seqs: dict[int, int] = {}
        self.next_seq = 1
        self.now_ms = 0
        self.used_ms: int | None = None
        self.look_ms: int | None = None  # when to look at what consumers hold
        self.look_sooner = False
        self.holds_all = self._waits_for_consumers()
        self.first_ms: int | None = None  # the first consumer that waits for others
        self.newest: dict[bytes, int] = {}  # message of each key
        self.ids: list[bytes] = []  # of messages that were taken, the oldest first
        self.slow_ms: int | None = None  # when to look for slow consumers
        self.effects: list[Row] = []
        self.unserved = False  # messages or credit came since consumers were served last

    def apply(self, commands: list[Command], now_ms: int) -> list[Row]:
        self.now_ms = max(self.now_ms, now_ms)
        self.effects = []
        self._pass_time()
        self.unserved = False
        for command in commands:
            self._catch_up(command)
            self._apply(command)
        self._serve()
        self._drop()  # what came back may be too much
        if self.held() and (self.look_ms is None or self.look_sooner):
            self._plan_look()
        return self.effects

    def _catch_up(self, command: Command) -> None:
        """What was before the command has had its effects, if the command could tell."""
        match command:
            case Get() | Inspect() | Purge() | Configure():
                self._serve()
                self._drop()
                self.unserved = False
            case Attach() | Credit() | Settle() if self.unserved:
                self._serve()
                self._drop()
                self.unserved = False
            case Enqueue() if self.options.levels > 1:
                self._serve()
        if isinstance(command, (Attach, Credit, Enqueue)):
            self.unserved = True

    def _apply(self, command: Command) -> None:
        match command:
            case Enqueue():
                self._enqueue(command)
            case Settle():
                self._settle(command)
            case Attach():
                self._attach(command)
            case Credit():
                self._credit(command)
            case Detach():
                self._go(command.key)
                self._choose()
                self.effects.append(("detached", command.key))
            case Get():
                self._get(command.session)
            case Purge():
                self.effects.append(("purged", command.session, len(self.waiting())))
                for seq in self.waiting():
                    self._leave(seq, LEFT_PURGED)
            case Inspect():
                self.used_ms = self.now_ms
                counts = len(self.ready), len(self.attached())
                self.effects.append(("inspected", command.session, *counts))
            case EndSession():
                self._end(command.session)
            case Configure():
                self._configure(command)
            case Restarted():
                for session in [*self.last_seqs, *(key >> 32 for key in self.consumers)]:
                    self._end(session)
                self.next_seq = max(self.next_seq, command.next_seq)
                self.used_ms = self.now_ms
            case Tick():
                pass
            case _:
                raise AssertionError(type(command).__name__)

    # What there is

    def attached(self) -> list[int]:
        return [key for key, consumer in self.consumers.items() if consumer.attached]

    def held(self) -> list[int]:
        return [seq for consumer in self.consumers.values() for seq in consumer.held]

    def redelivered(self) -> list[int]:
        return [seq for seq, message in self.messages.items() if message.redelivered]

    def delayed(self) -> list[int]:
        return [seq for seq, message in self.messages.items() if message.until_ms is not None]

    def waiting(self) -> list[int]:
        """What counts for the limits."""
        return [*self.ready, *self.delayed()]

    def ready_bytes(self) -> int:
        return sum(self.messages[seq].size for seq in self.ready)

    def waiting_bytes(self) -> int:
        return sum(self.messages[seq].size for seq in self.waiting())

    def _level(self, seq: int) -> int:
        return self.messages[seq].level

    def _next(self) -> int:
        """Who is served next: of the highest level the oldest."""
        return min(self.ready, key=lambda seq: (-self._level(seq), seq))

    def _is_due(self, seq: int) -> bool:
        return self.messages[seq].is_due(self.now_ms, self.options.ttl_ms)

    # Publishing

    def _enqueue(self, command: Enqueue) -> None:
        """Each number is either the next, or known, or after a gap that ends the command."""
        accepted: list[tuple[int, int]] = []  # the session's number, place in the command
        for place in range(command.count):
            number = command.first_seq + place
            last = self.last_seqs.get(command.session, 0)
            if number <= last:
                self.effects.append(("known", command.session, number))
            elif number == last + 1:
                self.last_seqs[command.session] = number
                seq = self.next_seq + len(accepted)
                self.effects.append(("enqueued", command.session, number, seq))
                accepted.append((number, place))
            else:
                self.effects.append(("resend", command.session, last + 1))
                return
        due_at_once = False
        for number, place in accepted:
            digest = self._digest(command.traits, place)
            if digest in self.ids:
                self.effects.append(("left", self.next_seq, LEFT_DUPLICATE))
                self.next_seq += 1
                continue
            message = self._message(command.traits, place)
            due_at_once = self._admit(message, command.session, number) or due_at_once
            if digest and message.seq in self.messages:
                self.ids = [*self.ids, digest][-self._id_cache_size() :]
        if accepted and self._is_over():
            self._serve()
            self._drop()
        if due_at_once:
            self._serve()
            self._expire()

    def _id_cache_size(self) -> int:
        address = self.options.address
        return 0 if address is None else int(address.id_cache_size)

    def _digest(self, traits: Traits | None, place: int) -> bytes:
        """Of the message's id; empty: it has none, or that does not matter."""
        if traits is None or traits.ids is None or self._id_cache_size() == 0:
            return b""
        return traits.ids[16 * place : 16 * place + 16].strip(bytes(1))

    def _message(self, traits: Traits | None, place: int) -> NaiveMessage:
        priority, ttl, size = -1, -1, 0
        if traits is not None:
            priority, ttl = traits.priority_of(place), traits.ttl_of(place)
            size = traits.size_of(place) if traits.sizes is not None else 0
        has_expiration = ttl >= 0
        ttl = bounded(self.options.address, ttl)
        level = min(priority, self.options.levels - 1)
        if priority < 0:
            level = self.options.default_level
        seq = self.next_seq
        self.next_seq += 1
        made = NaiveMessage(seq, level, size, self.now_ms, ttl)
        made.has_expiration = has_expiration
        if self.options.keeps_last_values and traits is not None and traits.keys is not None:
            made.key = traits.keys[16 * place : 16 * place + 16].strip(bytes(1))
        return made

    def _admit(self, message: NaiveMessage, session: int, number: int) -> bool:
        """Let it in if there is room; return whether it is due already."""
        if self.options.overflow != DROP_HEAD and not self._has_room(message):
            self._serve()
            if not self._has_room(message):
                dead = self.options.overflow == REJECT_PUBLISH_DLX
                self.effects.append(("refused publish", session, number))
                reason = LEFT_MAXLEN if dead else LEFT_REFUSED
                self.effects.append(("left", message.seq, reason))
                return False
        old = self.newest.get(message.key)
        if message.key and self.options.keeps_last_values:
            self.newest[message.key] = message.seq
            if old in self.waiting():
                self._leave(old, LEFT_REPLACED)
        self.messages[message.seq] = message
        self.ready.append(message.seq)
        return self._is_due(message.seq)

    def _has_room(self, message: NaiveMessage) -> bool:
        options = self.options
        if 0 <= options.length_max < len(self.waiting()) + 1:
            return False
        return options.bytes_max < 0 or self.waiting_bytes() + message.size <= options.bytes_max

    def _is_over(self) -> bool:
        options = self.options
        if options.overflow != DROP_HEAD:
            return False
        if 0 <= options.length_max < len(self.waiting()):
            return True
        return 0 <= options.bytes_max < self.waiting_bytes()

    def _drop(self) -> None:
        while self._is_over():
            chosen = [min(self.delayed())] if self.delayed() else []
            if self.ready:
                chosen.append(min(self.ready, key=lambda seq: (self._level(seq), seq)))
            self._leave(min(chosen), LEFT_MAXLEN)

    # Settling

    def _settle(self, command: Settle) -> None:
        consumer = self.consumers.get(command.key)
        if consumer is None:
            return
        named = [seq for first, count in command.runs for seq in range(first, first + count)]
        for seq in named:
            if seq not in consumer.held:
                continue
            consumer.put_down(seq)
            consumer.settled += 1
            if command.outcome != ACCEPT:
                self.messages[seq].words.update(decode_words(command.annotations))
            if command.outcome == ACCEPT:
                self._leave(seq, LEFT_ACCEPTED)
            elif command.outcome == REJECT:
                self._leave(seq, LEFT_REJECTED)
            elif command.outcome == REJECT_TOO_LARGE:
                self._leave(seq, LEFT_TOO_LARGE)
            else:
                at_ms = time_in(command.annotations) if self.options.delays else 0
                self._requeue(seq, command.outcome, at_ms, self.options.counts_returns)
            if consumer.auto_return and consumer.attached:
                self._give(command.key, consumer.credit + 1)
        if consumer.attached and self._has_limits(consumer):
            self._give(command.key, consumer.credit)
        if not consumer.attached and not consumer.held:
            del self.consumers[command.key]
        self._choose()

    def _leave(self, seq: int, reason: int) -> None:
        if seq in self.ready:
            self.ready.remove(seq)
        message = self.messages.pop(seq)
        words = message.words
        if self.newest.get(message.key) == seq:
            del self.newest[message.key]
        self.effects.append(("left", seq, reason))
        if words:
            self.effects.append(("noted", seq, tuple(words.items())))

    def _requeue(self, seq: int, outcome: int, at_ms: int = 0, counts: bool = False) -> None:
        message = self.messages[seq]
        assert outcome in (RELEASE, RETURN_UNSEEN, FAIL)
        if outcome != RETURN_UNSEEN:
            message.redelivered = True
            if counts_deliveries(self.options):
                message.acquired += 1
                message.failed += outcome == FAIL or counts
        if outcome != RETURN_UNSEEN and 0 <= self.options.delivery_limit < message.failed:
            self._leave(seq, LEFT_DELIVERY_LIMIT)
        elif message.key and self.newest.get(message.key) != seq:
            self._leave(seq, LEFT_REPLACED)
        elif self._is_due(seq):
            self._leave(seq, LEFT_EXPIRED)
        elif outcome != RETURN_UNSEEN and self._until(message, outcome, at_ms) > self.now_ms:
            message.until_ms = self._until(message, outcome, at_ms)
        else:
            self.ready.append(seq)

    def _until(self, message: NaiveMessage, outcome: int, at_ms: int) -> int:
        """When it may be delivered again."""
        if at_ms:
            return at_ms
        return max(self._late_until(message), self._retry_until(message, outcome))

    def _late_until(self, message: NaiveMessage) -> int:
        address = self.options.address
        if address is None or address.redelivery_ms == 0:
            return 0
        most = address.redelivery_max_ms
        if most < 0:
            most = 10 * address.redelivery_ms
        wait = address.redelivery_ms
        for _ in range(1, message.acquired):
            wait *= address.redelivery_multiplier // 1000
        return self.now_ms + max(min(wait, most), 1)

    def _retry_until(self, message: NaiveMessage, outcome: int) -> int:
        options = self.options
        if options.delay_type not in (
            DELAY_ALL,
            DELAY_FAILED if outcome == FAIL else DELAY_RETURNED,
        ):
            return 0
        wait = options.delay_min_ms * max(message.failed, 1)
        return self.now_ms + (wait if options.delay_max_ms < 0 else min(wait, options.delay_max_ms))

    # Consumers

    def _attach(self, command: Attach) -> None:
        others = [self.consumers[key] for key in self.attached()]
        refused = any(other.exclusive for other in others)
        if command.exclusive and (others or self.options.single_active):
            refused = True
        if refused:
            self.effects.append(("refused", command.key))
            return
        consumer = self.consumers[command.key] = NaiveConsumer(command.priority)
        consumer.auto_return = command.auto_return
        consumer.exclusive = command.exclusive
        consumer.timeout_ms = command.timeout_ms
        consumer.own_window, consumer.own_rate = command.window_bytes, command.rate_max
        consumer.filled_ms = self.now_ms
        self.effects.append(("attached", command.key))
        self._see_dispatch()
        self._set_limits(command.key)
        self._plan_slow()
        self._ask_for_sizes([command.key])
        self._choose()
        self._give(command.key, command.credit)
        self.look_sooner = True

    def _credit(self, command: Credit) -> None:
        consumer = self.consumers.get(command.key)
        if consumer is None or not consumer.attached:
            return
        consumer.auto_return = command.auto_return
        limit = command.delivery_count + command.credit
        self._give(command.key, limit - consumer.delivery_count)
        if command.drain:
            self._serve()
            consumer.delivery_count += consumer.credit
            consumer.credit = 0
            self.effects.append(("drained", command.key, consumer.delivery_count))

    def _give(self, key: int, credit: int) -> None:
        self.consumers[key].credit = max(credit, 0)
        if credit > 0 and key not in self.line and not self.is_closed(self.consumers[key]):
            self.line.append(key)

    # Windows and rates

    def window(self, consumer: NaiveConsumer) -> int:
        address = self.options.address
        if consumer.own_window != QUEUE_LIMIT:
            return consumer.own_window
        return -1 if address is None else address.window_bytes

    def _rate(self, consumer: NaiveConsumer) -> int:
        address = self.options.address
        if consumer.own_rate != QUEUE_LIMIT:
            return consumer.own_rate
        return -1 if address is None else address.rate_max

    def _has_limits(self, consumer: NaiveConsumer) -> bool:
        return self.window(consumer) >= 0 or self._rate(consumer) > 0

    def is_closed(self, consumer: NaiveConsumer) -> bool:
        if consumer.until_ms or self.holds_all:
            return True
        window = self.window(consumer)
        if window == 0:
            return bool(consumer.held)
        if window < 0:
            return False
        return not self.options.counts_bytes or self.held_bytes(consumer) >= window

    def held_bytes(self, consumer: NaiveConsumer) -> int:
        return sum(self.messages[seq].size for seq in consumer.held)

    def _waits_for_consumers(self) -> bool:
        address = self.options.address
        if address is None:
            return False
        return address.dispatch_consumers > 0 or address.dispatch_delay_ms > 0

    def _see_dispatch(self) -> None:
        """Whether there are consumers enough, or for long enough."""
        address, attached, held = self.options.address, len(self.attached()), self.holds_all
        if address is None or not self._waits_for_consumers():
            self.holds_all = False
        elif attached == 0:
            self.holds_all, self.first_ms = True, None
        elif self.holds_all:
            if self.first_ms is None:
                self.first_ms = self.now_ms
            delay = address.dispatch_delay_ms
            is_enough = 0 < address.dispatch_consumers <= attached
            if is_enough or (delay >= 0 and self.now_ms >= self.first_ms + delay):
                self.holds_all = False
        if held != self.holds_all:
            for key in self.attached():
                self._set_limits(key)

    def _set_limits(self, key: int) -> None:
        """The consumer came, or the options are others."""
        consumer = self.consumers[key]
        rate = self._rate(consumer)
        if rate != consumer.rate:
            consumer.rate, consumer.until_ms = rate, 0
            consumer.tokens, consumer.filled_ms = 1000, self.now_ms
        if self.is_closed(consumer):
            if key in self.line:
                self.line.remove(key)
        else:
            self._give(key, consumer.credit)

    def _ask_for_sizes(self, keys: list[int]) -> None:
        has_window = any(self.window(self.consumers[key]) > 0 for key in keys)
        if has_window and not self.options.counts_bytes:
            self.effects.append(("sizes wanted",))

    def _plan_slow(self) -> None:
        address = self.options.address
        if address is not None and address.slow_threshold > 0:
            planned = self.now_ms + address.slow_period_ms
            self.slow_ms = planned if self.slow_ms is None else min(self.slow_ms, planned)

    def _look_for_slow(self) -> None:
        address = self.options.address
        self.slow_ms = None
        if address is None or address.slow_threshold < 0 or not self.attached():
            return
        self.slow_ms = self.now_ms + address.slow_period_ms
        slow = []
        wanted = address.slow_threshold * address.slow_period_ms // 1000
        for key in self.attached():
            consumer = self.consumers[key]
            waiting = len(consumer.held) + (len(self.ready) if consumer.credit > 0 else 0)
            if consumer.settled < min(wanted, consumer.waiting) and waiting > 0:
                slow.append((key, consumer.settled))
            consumer.settled, consumer.waiting = 0, waiting
        for key, settled in slow:
            self.effects.append(("slow", key, settled, address.slow_kills == 1))
            if address.slow_kills:
                self.effects.append(("timed out", key, 0))
                self._remove(key, RELEASE)
        if address.slow_kills:
            self._choose()

    def _has_token(self, consumer: NaiveConsumer) -> bool:
        if consumer.rate <= 0:
            return True
        elapsed = self.now_ms - consumer.filled_ms
        consumer.tokens = min(consumer.tokens + elapsed * consumer.rate, 1000)
        consumer.filled_ms = self.now_ms
        if consumer.tokens < 1000:
            consumer.until_ms = self.now_ms + 1000
            return False
        return True

    def _go(self, key: int) -> None:
        """The consumer is attached no more; what it holds stays its own."""
        consumer = self.consumers.get(key)
        if consumer is None or not consumer.attached:
            return
        consumer.attached = False
        consumer.credit = 0
        if key in self.line:
            self.line.remove(key)
        if not consumer.held:
            del self.consumers[key]
        if not self.attached():
            self._see_dispatch()
            self.used_ms = self.now_ms
            self.effects.append(("last consumer gone",))

    def _end(self, session: int) -> None:
        self.last_seqs.pop(session, None)
        for key in [key for key in self.consumers if key >> 32 == session]:
            self._remove(key, FAIL)
        self._choose()

    def _remove(self, key: int, outcome: int) -> None:
        held = sorted(self.consumers[key].held)
        self._go(key)
        self.consumers.pop(key, None)
        for seq in held:
            self._requeue(seq, outcome)

    def _choose(self) -> None:
        """Who is the single active consumer."""
        if not self.options.single_active:
            return
        best = None
        for key in self.attached():
            rank = (self.consumers[key].priority, key == self.active)
            if best is None or rank > (self.consumers[best].priority, best == self.active):
                best = key
        old = self.consumers.get(self.active) if self.active is not None else None
        if best == self.active:
            self.waits = False
            return
        if old is not None and old.held and (old.attached or self.options.drain_handover):
            self.waits = True
            return
        self.waits = False
        if old is not None and old.attached:
            self.effects.append(("activated", self.active, False))
        self.active = best
        if best is not None:
            self.effects.append(("activated", best, True))

    # Taking

    def _get(self, session: int) -> None:
        self.used_ms = self.now_ms
        if not self.ready:
            self.effects.append(("got", session, 0, False, 0, 0))
            return
        key = session << 32
        if key not in self.consumers:
            self.consumers[key] = NaiveConsumer(0)
            self.consumers[key].attached = False
            self.look_sooner = True
        message = self._take(self.consumers[key])
        row = (message.seq, message.redelivered, len(self.ready), self.attempts(message))
        self.effects.append(("got", session, *row))

    def _take(self, consumer: NaiveConsumer) -> NaiveMessage:
        seq = self._next()
        self.ready.remove(seq)
        consumer.held.append(seq)
        return self.messages[seq]

    def attempts(self, message: NaiveMessage) -> int:
        return message.acquired << 32 | message.failed

    def _served(self) -> list[int]:
        """Those in line who may get something."""
        if not self.options.single_active:
            return self.line
        return [key for key in self.line if key == self.active and not self.waits]

    def _serve(self) -> None:
        """One message at a time to the first in line of the highest priority; then to its end."""
        while self.ready and self._served():
            highest = max(self.consumers[key].priority for key in self._served())
            key = next(key for key in self._served() if self.consumers[key].priority == highest)
            self.line.remove(key)
            consumer = self.consumers[key]
            if consumer.credit == 0 or not self._has_token(consumer):
                continue
            message = self._take(consumer)
            consumer.credit -= 1
            consumer.tokens -= 1000 if consumer.rate > 0 else 0
            consumer.delivery_count += 1
            row = (key, consumer.delivery_count, message.seq, message.redelivered)
            self.effects.append(("delivers", *row, self.attempts(message)))
            if consumer.credit > 0 and not self.is_closed(consumer):
                self.line.append(key)

    # Time

    def _pass_time(self) -> None:
        if self.used_ms is None:
            self.used_ms = self.now_ms
        for seq in sorted(self.delayed()):
            if (self.messages[seq].until_ms or 0) <= self.now_ms:
                self.messages[seq].until_ms = None
                self.ready.append(seq)
        self._expire()
        self._see_dispatch()
        for key, consumer in self.consumers.items():
            if 0 < consumer.until_ms <= self.now_ms:
                consumer.until_ms = 0
                self._give(key, consumer.credit)
        if self.slow_ms is not None and self.slow_ms <= self.now_ms:
            self._look_for_slow()
        if self.look_ms is not None and self.look_ms <= self.now_ms:
            self.look_ms = None
            self._look()
            if self.held():
                self._plan_look()
        expires_ms = self.options.expires_ms
        if expires_ms >= 0 and not self.attached() and self.now_ms >= self.used_ms + expires_ms:
            self.effects.append(("queue expired",))
            self.used_ms = self.now_ms

    def _expire(self) -> None:
        for seq in sorted(self.waiting()):
            if self._is_due(seq):
                self._leave(seq, LEFT_EXPIRED)

    def _timeout(self, consumer: NaiveConsumer) -> int:
        """How long it may hold a delivery; 0: for ever."""
        own = consumer.timeout_ms
        return max(own if own >= 0 else self.options.consumer_timeout_ms, 0)

    def _plan_look(self) -> None:
        """An eighth of the shortest timeout from now, between 20 ms and a minute."""
        self.look_sooner = False
        timeouts = [self._timeout(each) for each in self.consumers.values() if self._timeout(each)]
        if timeouts:
            planned = self.now_ms + min(max(min(timeouts) // 8, 20), 60_000)
            self.look_ms = planned if self.look_ms is None else min(self.look_ms, planned)

    def _look(self) -> None:
        """Who has held something, from a look on until now, for too long?"""
        late: list[int] = []
        for key, consumer in self.consumers.items():
            timeout = self._timeout(consumer)
            if timeout == 0:
                continue
            for seq in consumer.held:
                consumer.seen_ms.setdefault(seq, self.now_ms)
            if any(seen + timeout <= self.now_ms for seen in consumer.seen_ms.values()):
                late.append(key)
        for key in late:
            self.effects.append(("timed out", key, self._timeout(self.consumers[key])))
            self._remove(key, RELEASE)
        self._choose()

    # Options

    def _configure(self, command: Configure) -> None:
        """What came before there was a TTL counts from now on, and with the given sizes."""
        options = command.options
        old = self.options
        if not old.counts_bytes:
            told = {first + at: size for first, n, size in command.sizes for at in range(n)}
            for seq, message in self.messages.items():
                message.size = told.get(seq, 0)
        self.options = options
        for message in self.messages.values():
            due = message.own_due_ms
            if due is None or due > self.now_ms:
                expires = message.has_expiration
                message.own_due_ms = due_with(
                    old.address, options.address, due, expires, self.now_ms
                )
        if old.ttl_ms < 0:
            for message in self.messages.values():
                message.arrived_ms = self.now_ms
        if not options.keeps_last_values:
            self.newest = {}
            for message in self.messages.values():
                message.key = b""
        size = self._id_cache_size()
        self.ids = self.ids[-size:] if size else []
        if old.expires_ms != options.expires_ms:
            self.used_ms = self.now_ms
        self.look_sooner = True
        if not counts_deliveries(options):
            for message in self.messages.values():
                message.acquired = message.failed = 0
        self._see_dispatch()
        for key in self.attached():
            consumer = self.consumers[key]
            if self._has_limits(consumer) or consumer.rate > 0 or key not in self.line:
                self._set_limits(key)
        for key in self.attached():
            self.consumers[key].settled = self.consumers[key].waiting = 0
            self._plan_slow()
        self._ask_for_sizes(self.attached())
        self._choose()
        self._drop()
        self._pass_time()


def counts_deliveries(options: Options) -> bool:
    """Whether the queue knows how often each message was delivered."""
    return options.counts_deliveries or options.delivery_limit >= 0 or options.redelivers_late

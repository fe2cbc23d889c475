"""What a message becomes when its queue gives it up: other names, a history of deaths. Compiled.

Takes messages in stored form 1 (`wire.amqp091.events`), why they died and when; gives runs of
messages in the same form, to be routed by the dead-letter exchange and published as one chunk
each. Nothing here fails because of what a client sent: headers that cannot be read are replaced.

A dead letter is its message with the dead-letter exchange as exchange; with the rule's routing key
if there is one, else its own; without `expiration` and the header BCC; and with these headers, as
RabbitMQ 4 writes them:

    x-death                         array of tables, newest first, one for each (queue, reason):
                                    [original-expiration S,] count l, reason S, queue S, time T,
                                    exchange S, routing-keys A of S
    x-first-death-{exchange,queue,reason}   of the first death; set once, never changed
    x-last-death-{exchange,queue,reason}    of this death

A second death of the same pair moves its table to the front and raises its count; the rest of it
stays that of the first death: time, exchange, keys, expiration. Routing keys are the message's own
and those in CC; `original-expiration` is the message's `expiration`, whatever the reason was.

A history is believed only if the broker wrote it. A dead letter's publish frame says so: it is on
channel 0, where no client can publish, and its ticket is `DEATH_TICKET`, or `ALONE_TICKET` if the
rule's routing key has replaced those in CC, which stays without effect. Other parts of the broker
that make messages on channel 0 write another ticket. Such headers in a message without that mark
are a client's, and ours take their place (as RabbitMQ 4 does), unless the rule trusts clients
(3.x).
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_HEADERS
from warren.wire.amqp091.fields import (
    Reader,
    encode_table,
    write_long_string,
    write_longlong,
    write_short,
    write_short_bytes,
)
from warren.wire.amqp091.properties import CONTENT_TYPE, EXPIRATION, HEADERS, value_end
from warren.wire.amqp091.values import Int64
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i32_le,
    write_i32_be,
    write_i32_le,
)
from warren.wire.errors import ProtocolError

REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
HEADERS_TOO_LARGE: Final = "headers_too_large"  # for the frame_max of a consumer
REASONS: Final = (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT, HEADERS_TOO_LARGE)

DEATH_TICKET: Final = 0xDEAD  # with channel 0: the headers of this message are our own
ALONE_TICKET: Final = 0xDEAE  # the same, and the keys in CC do not count any more
COUNT_MAX: Final = (1 << 63) - 1

PUBLISH: Final = 0x003C0028
FRAME_END: Final = 0xCE
FRAME_HEAD: Final = 7  # kind, channel, size
FRAME_OVERHEAD: Final = 8  # the same, and the end
CONTENT_HEAD: Final = 12  # class, weight and body size, before the properties
NAMES_AT: Final = 13  # exchange and routing key in a publish frame, behind class, method, ticket
TICKET_AT: Final = 11

LETTERS_KEPT_MAX: Final = 256  # of `DeadLetterRule`; at the limit it is emptied
KEY_BYTES_MAX: Final = 4096  # what is known by more than that is not remembered

FIRST_DEATH: Final = (b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason")
LAST_DEATH: Final = (b"x-last-death-exchange", b"x-last-death-queue", b"x-last-death-reason")
SPECIAL: Final = frozenset((b"CC", b"BCC", b"x-death", *FIRST_DEATH, *LAST_DEATH))

Death = tuple[str, str]  # queue, reason


@final
@mypyc_attr(acyclic=True)
class Letter:
    """What dead letters of one kind have in common: all but a client's properties and the body."""

    def __init__(
        self, publish: bytes, entries: bytes, routing_keys: list[bytes], deaths: list[Death]
    ) -> None:
        self.publish = publish  # its publish frame
        self.entries = entries  # our own, at the end of its headers
        self.routing_keys = routing_keys
        self.deaths = deaths

    def travels_with(self, other: "Letter") -> bool:
        """Whether both go to the same queues, for all that can be said without looking inside."""
        return self.routing_keys == other.routing_keys and self.deaths == other.deaths


@final
class DeadLetterRule:
    """What a queue does with its dead: to which exchange, by which key.

    It also remembers the letters of the current reason and second, for the next message is mostly
    like the one before it. Invariant: `_letters` holds at most LETTERS_KEPT_MAX, each by a key of
    at most KEY_BYTES_MAX.
    """

    def __init__(
        self,
        queue: str,
        exchange: str,
        routing_key: bytes | None = None,
        trusts_clients: bool = False,
    ) -> None:
        """ValueError: a name of more than 255 bytes."""
        self.queue = queue
        self.exchange = exchange.encode()
        self.routing_key = routing_key  # None: the keys of the message
        self.trusts_clients = trusts_clients  # a client's x-death goes on, as up to RabbitMQ 3.13
        if len(self.exchange) > 255 or (routing_key is not None and len(routing_key) > 255):
            raise ValueError("a short string holds at most 255 bytes")
        self._reason = ""
        self._now_s: i64 = -1
        self._letters: dict[bytes, Letter] = {}

    def recall(self, key: bytes, reason: str, now_s: i64) -> Letter | None:
        if now_s != self._now_s or reason != self._reason:
            self._letters.clear()
            self._reason = reason
            self._now_s = now_s
            return None
        return self._letters.get(key)

    def remember(self, key: bytes, letter: Letter) -> None:
        """For the reason and second of the `recall` before it."""
        if len(key) > KEY_BYTES_MAX:
            return
        if len(self._letters) >= LETTERS_KEPT_MAX:
            self._letters.clear()
        self._letters[key] = letter


@final
@mypyc_attr(acyclic=True)
class DeadRun:
    """Dead letters that follow one another and go the same way, to be published as one chunk.

    Message `i` is `data[offsets[i]:offsets[i + 1]]` in stored form 1. `deaths` are theirs, newest
    first and with this one, for `is_cycle`.
    """

    def __init__(self, data: bytes, offsets: bytes, letter: Letter) -> None:
        self.data = data
        self.offsets = offsets  # count + 1 times u32 little-endian; the first is 0
        self.routing_keys = letter.routing_keys  # at least one; the first is in `key`
        self.deaths = letter.deaths
        publish = letter.publish
        self.key = publish[NAMES_AT : len(publish) - 1]  # as of `Publishes.keys`

    def count(self) -> i64:
        return len(self.offsets) // 4 - 1


def info_of_dead(info: i64) -> i64:
    """The bits of `Publishes.infos` of a dead letter, by those of its message."""
    return (info & ~INFO_EXPIRATION) | INFO_HEADERS


def is_cycle(target_queue: str, deaths: list[Death], reason: str) -> bool:
    """Whether a letter that just died for `reason` is not to go to this queue.

    It is not if it died there before and no client has rejected it since, that death included. It
    always is if `reason` is "rejected": who rejects may do so for ever.
    """
    if reason == REJECTED:
        return False
    for queue, why in deaths:
        if why == REJECTED:
            return False
        if queue == target_queue:
            return True
    return False


def dead_letter(
    rule: DeadLetterRule, data: bytes, start: i64, end: i64, reason: str, now_s: i64
) -> DeadRun:
    """The message `data[start:end]` as a dead letter: a run of one."""
    offsets = BytesWriter()
    write_i32_le(offsets, i32(start))
    write_i32_le(offsets, i32(end))
    return dead_letters(rule, data, 0, offsets.getvalue(), 0, 1, reason, now_s)[0]


def dead_letters(
    rule: DeadLetterRule,
    data: bytes,
    base: i64,
    offsets: bytes,
    first: i64,
    last: i64,
    reason: str,
    now_s: i64,
) -> list[DeadRun]:
    """Messages first..last-1 of a chunk as dead letters, in order, in as few runs as there can be.

    Message `i` is `data[offsets[i] - base : offsets[i + 1] - base]`.
    """
    runs: list[DeadRun] = []
    parts = Parts()
    headers = Headers()
    current: Letter | None = None
    writer = BytesWriter()
    places = BytesWriter()
    write_i32_le(places, 0)
    start = i64(read_i32_le(offsets, 4 * first)) - base
    while first < last:
        first += 1
        end = i64(read_i32_le(offsets, 4 * first)) - base
        parts.locate(data, start, end)
        headers.read(data, parts, rule.trusts_clients)
        letter = _letter(rule, data, parts, headers, reason, now_s)
        if current is not None and letter is not current and not letter.travels_with(current):
            runs.append(DeadRun(writer.getvalue(), places.getvalue(), current))
            writer = BytesWriter()
            places = BytesWriter()
            write_i32_le(places, 0)
        current = letter
        _write_letter(writer, data, parts, headers.kept, letter)
        write_i32_le(places, i32(len(writer)))
        start = end
    if current is not None:
        runs.append(DeadRun(writer.getvalue(), places.getvalue(), current))
    return runs


@final
class Parts:
    """Where the parts of one message are; it is moved from message to message.

    Invariant after `locate`: start < header_at < properties_at < headers_at <= headers_end <=
    expiration_at <= expiration_end <= properties_end < end. What is absent is empty.
    """

    def __init__(self) -> None:
        self.start: i64 = 0
        self.header_at: i64 = 0  # the content header frame
        self.properties_at: i64 = 0
        self.flags: i64 = 0  # of the properties
        self.headers_at: i64 = 0  # the table's length
        self.headers_end: i64 = 0
        self.expiration_at: i64 = 0  # the string's length
        self.expiration_end: i64 = 0
        self.properties_end: i64 = 0
        self.end: i64 = 0

    def locate(self, data: bytes, start: i64, end: i64) -> None:
        self.start = start
        self.end = end
        self.header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
        self.properties_at = self.header_at + FRAME_HEAD + CONTENT_HEAD
        payload_bytes = i64(read_i32_be(data, self.header_at + 3))
        self.properties_end = self.header_at + FRAME_HEAD + payload_bytes
        self.flags = i64(read_i16_be(data, self.properties_at)) & 0xFFFF
        self.headers_at = self._skip(data, self.properties_at + 2, CONTENT_TYPE, HEADERS)
        self.headers_end = self._skip(data, self.headers_at, HEADERS, HEADERS >> 1)
        self.expiration_at = self.headers_end
        if self.flags & EXPIRATION != 0:
            self.expiration_at = self._skip(data, self.headers_end, HEADERS >> 1, EXPIRATION)
        self.expiration_end = self._skip(data, self.expiration_at, EXPIRATION, EXPIRATION >> 1)

    def _skip(self, data: bytes, pos: i64, flag: i64, until: i64) -> i64:
        """Where property `until` is or would be, if property `flag` is or would be at `pos`."""
        while flag != until:
            if self.flags & flag != 0:
                pos = value_end(data, pos, self.properties_end, flag)
                assert pos >= 0  # Checked when the message came in.
            flag >>= 1
        return pos

    def is_ours(self, data: bytes) -> bool:
        """Whether the message is a dead letter of the broker's own making."""
        return self._ticket(data) == DEATH_TICKET or self.goes_alone(data)

    def goes_alone(self, data: bytes) -> bool:
        """Whether it is one that no longer goes by the keys in CC."""
        return self._ticket(data) == ALONE_TICKET

    def _ticket(self, data: bytes) -> i64:
        """The ticket of a message that the broker made; -1 for a client's."""
        if read_i16_be(data, self.start + 1) != 0:
            return -1
        return i64(read_i16_be(data, self.start + TICKET_AT)) & 0xFFFF


@final
class Headers:
    """What the headers of one message say of its life so far; moved from message to message.

    Values are as they are in a table: kind, then value; empty where absent. Headers that cannot be
    read say nothing, and nothing of them stays.
    """

    def __init__(self) -> None:
        self.is_alone = False  # the keys in CC do not count
        self.kept = b""  # the entries that stay, without those of FIRST_DEATH
        self.copies = b""  # the value of CC
        self.history = b""  # the value of x-death, if it is to be believed
        self.first_death = b""  # the entries of FIRST_DEATH; they mean nothing without a history

    def read(self, data: bytes, parts: Parts, trusts_clients: bool) -> None:
        self._clear()
        self.is_alone = parts.goes_alone(data)
        if parts.headers_at == parts.headers_end:
            return
        try:
            self._read(data, parts, trusts_clients or parts.is_ours(data))
        except ProtocolError:
            self._clear()

    def _clear(self) -> None:
        self.kept = b""
        self.copies = b""
        self.history = b""
        self.first_death = b""

    def _read(self, data: bytes, parts: Parts, trusted: bool) -> None:
        reader = Reader(data, parts.headers_at + 4, parts.headers_end)
        kept: list[bytes] = []
        first_death: list[bytes] = []
        kept_from = reader.pos
        while reader.pos < reader.end:
            entry_at = reader.pos
            name = reader.short_bytes()
            value_at = reader.pos
            reader.skip_value()
            if name not in SPECIAL:
                continue
            if name == b"CC":
                if len(self.copies) == 0 and not self.is_alone:
                    self.copies = data[value_at : reader.pos]
                continue
            if trusted and name == b"x-death" and len(self.history) == 0:
                self.history = data[value_at : reader.pos]
            elif name in FIRST_DEATH:
                first_death.append(data[entry_at : reader.pos])
            kept.append(data[kept_from:entry_at])
            kept_from = reader.pos
        kept.append(data[kept_from : reader.end])
        self.kept = b"".join(kept)
        self.first_death = b"".join(first_death)

    def key(self) -> bytes:
        """Different for headers that make different letters. Each value says itself how long it is,
        so it is enough to say which are there."""
        if len(self.copies) == 0 and len(self.history) == 0:
            return b"a" if self.is_alone else b""
        present = b"c" if len(self.copies) != 0 else b"-"
        if self.is_alone:
            present = b"a"
        return present + self.copies + self.history + self.first_death


@final
@mypyc_attr(acyclic=True)
class OneDeath:
    """A table of x-death: whose it is, and its bytes with their length."""

    def __init__(self, queue: str, reason: str, table: bytes) -> None:
        self.queue = queue
        self.reason = reason
        self.table = table


def _letter(
    rule: DeadLetterRule, data: bytes, parts: Parts, headers: Headers, reason: str, now_s: i64
) -> Letter:
    """What becomes of the message at `parts`; from memory, if there was one like it."""
    key = data[parts.start + NAMES_AT : parts.header_at - 2]  # without bits and frame end
    rest = headers.key()
    if len(rest) != 0 or parts.expiration_at != parts.expiration_end:
        key += b"e" if parts.expiration_at != parts.expiration_end else b"-"
        key += data[parts.expiration_at : parts.expiration_end] + rest
    letter = rule.recall(key, reason, now_s)
    if letter is None:
        letter = _make_letter(rule, data, parts, headers, reason, now_s)
        rule.remember(key, letter)
    return letter


def _make_letter(
    rule: DeadLetterRule, data: bytes, parts: Parts, headers: Headers, reason: str, now_s: i64
) -> Letter:
    exchange_at = parts.start + NAMES_AT
    key_at = exchange_at + 1 + data[exchange_at]
    exchange = data[exchange_at + 1 : key_at]
    keys = [data[key_at + 1 : key_at + 1 + data[key_at]], *_strings_of(headers.copies)]
    expiration: bytes | None = None
    if parts.expiration_at != parts.expiration_end:
        expiration = data[parts.expiration_at + 1 : parts.expiration_end]
    past = _deaths_of(headers.history)
    death = _new_death(rule.queue, reason, now_s, exchange, keys, expiration)
    deaths = _newest_first(death, past)
    is_alone = headers.is_alone
    if rule.routing_key is not None:
        keys = [rule.routing_key]
        is_alone = is_alone or len(headers.copies) > 0
    last = _strings((exchange, rule.queue.encode(), reason.encode()), LAST_DEATH)
    first = headers.first_death
    if len(past) == 0:
        first = _strings((exchange, rule.queue.encode(), reason.encode()), FIRST_DEATH)
    entries = _history(deaths) + first + last
    pairs = [(one.queue, one.reason) for one in deaths]
    return Letter(_publish_frame(rule.exchange, keys[0], is_alone), entries, keys, pairs)


def _history(deaths: list[OneDeath]) -> bytes:
    """The entry x-death of a headers table."""
    tables = BytesWriter()
    for one in deaths:
        tables.append(70)  # F
        tables.write(one.table)
    writer = BytesWriter()
    writer.write(b"\x07x-deathA")
    write_long_string(writer, tables.getvalue())
    return writer.getvalue()


def _strings(values: tuple[bytes, bytes, bytes], names: tuple[bytes, bytes, bytes]) -> bytes:
    """Entries of a headers table."""
    writer = BytesWriter()
    for name, value in zip(names, values, strict=True):
        write_short_bytes(writer, name)
        writer.append(83)  # S
        write_long_string(writer, value)
    return writer.getvalue()


def _publish_frame(exchange: bytes, routing_key: bytes, is_alone: bool) -> bytes:
    """The publish frame of a dead letter, with its mark."""
    writer = BytesWriter()
    writer.append(1)
    write_short(writer, 0)
    write_i32_be(writer, i32(9 + len(exchange) + len(routing_key)))
    write_i32_be(writer, PUBLISH)
    write_short(writer, ALONE_TICKET if is_alone else DEATH_TICKET)
    write_short_bytes(writer, exchange)
    write_short_bytes(writer, routing_key)
    writer.append(0)
    writer.append(FRAME_END)
    return writer.getvalue()


def _write_letter(
    writer: BytesWriter, data: bytes, parts: Parts, kept: bytes, letter: Letter
) -> None:
    """The message at `parts` as this letter; `kept` is what stays of its headers."""
    writer.write(letter.publish)
    flags = (parts.flags | HEADERS) & ~EXPIRATION
    gone = parts.headers_end - parts.headers_at + parts.expiration_end - parts.expiration_at
    table_bytes = i64(len(kept)) + i64(len(letter.entries))
    size = parts.properties_end - parts.header_at - FRAME_HEAD - gone + 4 + table_bytes
    writer.write(data[parts.header_at : parts.header_at + 3])
    write_i32_be(writer, i32(size))
    writer.write(data[parts.header_at + FRAME_HEAD : parts.properties_at])
    write_short(writer, flags)
    writer.write(data[parts.properties_at + 2 : parts.headers_at])
    write_i32_be(writer, i32(table_bytes))
    writer.write(kept)
    writer.write(letter.entries)
    if parts.expiration_at != parts.expiration_end:
        writer.write(data[parts.headers_end : parts.expiration_at])
    writer.write(data[parts.expiration_end : parts.end])


def _strings_of(value: bytes) -> list[bytes]:
    """The strings in an array; anything else says nothing."""
    if len(value) == 0 or value[0] != 65:  # A
        return []
    reader = Reader(value, 5, len(value))
    found: list[bytes] = []
    try:
        while reader.pos < reader.end:
            if value[reader.pos] == 83:  # S
                reader.octet()
                found.append(reader.long_string())
            else:
                reader.skip_value()
    except ProtocolError:
        found.clear()
    return found


def _deaths_of(value: bytes) -> list[OneDeath]:
    """The tables of an x-death header that say whose death they are, and how often it was."""
    if len(value) == 0 or value[0] != 65:  # A
        return []
    reader = Reader(value, 5, len(value))
    found: list[OneDeath] = []
    try:
        while reader.pos < reader.end:
            table_at = reader.pos + 1  # behind its kind
            one = _death_of(reader.value(), value, table_at, reader)
            if one is not None:
                found.append(one)
    except ProtocolError:
        found.clear()
    return found


def _death_of(fields: object, value: bytes, table_at: i64, reader: Reader) -> OneDeath | None:
    if not isinstance(fields, dict):
        return None
    queue: object = fields.get("queue")
    reason: object = fields.get("reason")
    if isinstance(queue, str) and isinstance(reason, str) and _is_count(fields.get("count")):
        return OneDeath(queue, reason, value[table_at : reader.pos])
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _newest_first(death: OneDeath, past: list[OneDeath]) -> list[OneDeath]:
    """The history with this death in it: the pair's own table with a higher count, or its first."""
    newest = death
    rest: list[OneDeath] = []
    for one in past:
        if one.queue != death.queue or one.reason != death.reason:
            rest.append(one)
        elif newest is death:
            newest = OneDeath(one.queue, one.reason, _counted_up(one.table))
    return [newest, *rest]


def _counted_up(table: bytes) -> bytes:
    fields = Reader(table, 0, len(table)).table()
    count = fields["count"]
    assert isinstance(count, int)
    fields["count"] = Int64(min(int(count) + 1, COUNT_MAX))
    return encode_table(fields)


def _new_death(
    queue: str,
    reason: str,
    now_s: i64,
    exchange: bytes,
    routing_keys: list[bytes],
    expiration: bytes | None,
) -> OneDeath:
    keys = BytesWriter()
    for routing_key in routing_keys:
        keys.append(83)  # S
        write_long_string(keys, routing_key)
    fields = BytesWriter()
    if expiration is not None:
        fields.write(b"\x13original-expirationS")
        write_long_string(fields, expiration.lstrip(b"+0") or b"0")  # as a number is written
    fields.write(b"\x05countl\0\0\0\0\0\0\0\1\x06reasonS")
    write_long_string(fields, reason.encode())
    fields.write(b"\x05queueS")
    write_long_string(fields, queue.encode())
    fields.write(b"\x04timeT")
    write_longlong(fields, int(now_s))
    fields.write(b"\x08exchangeS")
    write_long_string(fields, exchange)
    fields.write(b"\x0crouting-keysA")
    write_long_string(fields, keys.getvalue())
    table = BytesWriter()
    write_long_string(table, fields.getvalue())
    return OneDeath(queue, reason, table.getvalue())

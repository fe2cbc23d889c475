"""The state of a queue machine as one MessagePack array (docs/formats/queue-snapshot.md).

All of it (`machine_state`), or the head of one that is long, without the parts that follow
it (`queues.machine.fifo_snapshot`). `restore` puts a new machine into that state; BadSnapshot: no
machine
has it. Runs of message_seqs are (first, count) pairs; the first element is the version. Everything
here is done at once, so it is for machines with little in them. Not compiled.
"""

from typing import Final

import msgspec

from queues.machine.annotations import WORDS_BYTES_MAX, decode_words
from queues.machine.commands import (
    QUEUE_LIMIT,
    BadCommand,
    Command,
    ConsumerKey,
    SessionId,
    decode,
    encode,
)
from queues.machine.consuming.checked_out import Rows
from queues.machine.consuming.consumers import Consumer, Generation
from queues.machine.consuming.numbered_sessions import Streams
from queues.machine.consuming.selection import Selection
from queues.machine.consuming.selections import Selections
from queues.machine.delays import Delays
from queues.machine.expiry import FAR
from queues.machine.fifo import NONE, Fifo, Leaving
from queues.machine.leadership_snapshot import (
    LeadershipState,
    RowState,
    leadership_state,
    restored_rows,
    restored_streams,
    row_states,
)
from queues.machine.message_groups import BUCKETS_MAX
from queues.machine.notes import Noted, noted_runs
from queues.machine.options import Options, decode_options
from queues.machine.pending_dead_letters import DEATHS
from queues.machine.published_numbers import Numbers
from queues.runs.seqset import SeqSet

VERSION: Final = 4
OLD_VERSIONS: Final = (1, 2, 3)  # without annotations, changing leaders, delays
HEAD: Final = 5  # long parts follow it
LIMITED: Final = 6  # the same as VERSION and HEAD, with what only few queues have behind it
LIMITED_HEAD: Final = 7
HEADS: Final = (HEAD, LIMITED_HEAD)
Runs = list[tuple[int, int]]
COMMON_FIELDS: Final = 31  # of every state
KEY_BYTES: Final = 20
SESSION_BYTES: Final = 16


class BadSnapshot(Exception):
    """Bytes that are no snapshot of a version that this node knows."""


class ConsumerState(msgspec.Struct, frozen=True, array_like=True):
    key: bytes
    priority: int
    credit: int
    delivery_count: int
    auto_return: bool
    attached: bool
    timeout_ms: int
    held: Runs
    generations: list[tuple[int, Runs]]
    returned: Runs
    suspended: bool = False
    rows: list[RowState] | None = None


class LimitState(msgspec.Struct, frozen=True, array_like=True):
    """What a consumer has of its own, and where it stands with its limits, if it has any."""

    key: bytes
    own_window_bytes: int
    own_rate_max: int
    barred: bool
    held_bytes: int = 0
    tokens: int = 0
    filled_ms: int = 0
    next_ms: int = 0
    settled_count: int = 0
    waiting_count: int = 0


class SelectionState(msgspec.Struct, frozen=True, array_like=True):
    """A selector, its consumers, and what is known of its messages."""

    number: int
    selector: bytes
    seen: int
    known: Runs
    attached: list[tuple[bytes, int]]  # key, the last message to see before its drain ends
    idle: list[bytes]


class FifoState(msgspec.Struct, frozen=True, array_like=True):
    version: int
    options: bytes
    next_seq: int
    now_ms: int
    delivered_high: int
    unused_since_ms: int
    lanes: list[Runs]
    redelivered: Runs
    overdue: Runs
    consumers: list[ConsumerState]
    lines: list[list[bytes]]  # keys in their order, the highest priority first
    exclusive: bytes
    active: bytes
    gives_way: bool
    last_seqs: list[tuple[bytes, int]]
    leaving: list[tuple[int, int, bytes, Runs]]  # reason, purged, session, messages
    arrivals: list[tuple[int, int]]
    calendar: list[tuple[int, int, int]]
    attempts: list[tuple[int, int]]
    levels: list[tuple[int, int, int]]  # first, count, level of what is not ready
    sizes: list[tuple[int, int, int]]
    check_ms: int  # when consumers are looked at that keep what they hold for too long
    look_sooner: bool
    put_off: list[bytes]  # commands that wait until what is due has left
    annotations: list[tuple[int, int, bytes]] = []  # first, count, words of each
    retired: bytes = b""  # the session that retired it; empty: it has not retired
    pending_dead_letters: list[tuple[int, int, int]] = []  # first, count, reason
    led: LeadershipState | None = None  # where the leader may change
    pending_dead_letter_sizes: list[
        tuple[int, int, int]
    ] = []  # first, count, body bytes, where they count
    delayed: Runs = []
    delays: list[tuple[int, int, int]] = []  # due, first, count; some may be gone
    limits: list[LimitState] = []  # of consumers with a window or a rate
    dispatch: tuple[int, int] = (0, -1)  # 1: no consumer is served; when the first of them came
    look_ms: int = FAR  # for slow consumers
    ids: bytes = b""  # digests of the ids that are known, the oldest first
    last_values: bytes = b""  # messages with keys of last values
    selections: list[SelectionState] = []  # the one used longest ago first
    last_selection: int = 0  # the highest number that a selection had
    buckets: list[tuple[int, int, int]] = []  # first, count, bucket of the groups of messages
    owners: list[tuple[int, bytes]] = []  # of buckets
    idle: list[bytes] = []  # consumers for which there is nothing, in queues that heed groups


def machine_state(machine: Fifo) -> FifoState:
    """All of it."""
    return _state_of(machine, True)


def head_of(machine: Fifo) -> FifoState:
    """Without the parts that may be long: of sets there are none but empty ones."""
    return _state_of(machine, False)


def _state_of(machine: Fifo, whole: bool) -> FifoState:
    roster = machine.roster
    notes, pending_dead_letters, delays = (
        machine.notes,
        machine.pending_dead_letters,
        machine.delays,
    )
    everything: Runs = []
    if whole and (machine.options.levels > 1 or machine.options.counts_bytes):
        everything = machine.queue_within(1, machine.next_seq - 1)
    arrivals = zip(machine.arrivals.firsts, machine.arrivals.times, strict=True)
    return FifoState(
        VERSION if whole else HEAD,
        machine.options.encode(),
        machine.next_seq,
        machine.now_ms,
        machine.delivered_high,
        machine.unused_since_ms,
        [_runs(lane, whole) for lane in machine.ready.lanes],
        _runs(machine.redelivered, whole),
        _runs(machine.overdue, whole),
        [_consumer_state(each, whole) for each in roster.consumers.values()],
        [
            [_key(each.key) for each in level.standing()]
            for level in roster.lines.levels
            if level.count
        ],
        b"" if roster.exclusive_key is None else _key(roster.exclusive_key),
        b"" if roster.active_key is None else _key(roster.active_key),
        roster.gives_way,
        [(_session(session), seq) for session, seq in machine.last_seqs.all().items()],
        [
            (each.reason, each.purged, _session(each.session), _runs(each.seqs, whole))
            for each in machine.leaving
        ],
        list(arrivals) if whole else [],
        machine.calendar.entries() if whole else [],
        machine.attempts.items() if whole else [],
        notes.level_runs(everything),
        notes.size_runs(everything),
        machine.timeouts.check_ms,
        machine.timeouts.look_sooner,
        [encode(command) for command in machine.put_off],
        machine.annotations.runs(),
        _session(machine.retired_by) if machine.retired else b"",
        pending_dead_letters.runs() if whole else [],
        leadership_state(machine.streams),
        pending_dead_letters.size_runs() if whole else [],
        [] if delays is None else _runs(delays.seqs, whole),
        delays.calendar.entries() if whole and delays is not None else [],
        [found for each in roster.consumers.values() for found in _limit_states(each)],
        (int(machine.limiter.holds_all), machine.limiter.first_ms),
        machine.limiter.look_ms,
        b"" if machine.known_ids is None else machine.known_ids.encode(),
        b"" if machine.last_values is None else machine.last_values.encode(),
        [] if roster.selections is None else _selection_states(roster.selections, whole),
        0 if roster.selections is None else roster.selections.last_number,
        *_group_fields(machine),
    )


def _group_fields(machine: Fifo) -> tuple[Noted, list[tuple[int, bytes]], list[bytes]]:
    groups = machine.ready.groups
    if groups is None:
        return [], [], []
    alive = machine.queue_within(1, machine.next_seq - 1)
    owners = [(bucket, _key(owner.key)) for bucket, owner in sorted(groups.owners.items())]
    return noted_runs(groups.buckets, alive), owners, [_key(key) for key in groups.idle]


def _selection_states(selections: Selections, whole: bool) -> list[SelectionState]:
    found: list[SelectionState] = []
    for each in selections.all:
        group = selections.group(each)
        found.append(
            SelectionState(
                each.number,
                each.selector,
                each.seen,
                _runs(each.known, whole),
                [(_key(key), consumer.drain_upto) for key, consumer in group.attached.items()],
                [_key(key) for key in group.idle],
            )
        )
    return found


def _runs(seqs: SeqSet, whole: bool) -> Runs:
    return seqs.runs() if whole else []


def is_limited(state: FifoState) -> bool:
    """Whether the machine has more to it than the elements of versions 4 and 5 say."""
    if len(state.limits) > 0 or len(state.ids) > 0 or len(state.last_values) > 0:
        return True
    if state.last_selection > 0 or len(state.buckets) > 0 or len(state.idle) > 0:
        return True
    if len(state.owners) > 0:
        return True
    return state.dispatch != (0, -1) or state.look_ms < FAR


def encode_state(state: FifoState) -> bytes:
    fields = list(msgspec.structs.astuple(state))
    if not is_limited(state):
        return msgspec.msgpack.encode(fields[:COMMON_FIELDS])
    fields[0] = LIMITED_HEAD if state.version == HEAD else LIMITED
    return msgspec.msgpack.encode(fields)


def decode_state(data: bytes) -> FifoState:
    """BadSnapshot: the bytes are none."""
    try:
        state = msgspec.msgpack.decode(data, type=FifoState)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadSnapshot(str(error)) from error
    if state.version not in (*OLD_VERSIONS, VERSION, LIMITED, *HEADS):
        raise BadSnapshot(f"a snapshot of version {state.version}")
    return state


def restore(machine: Fifo, state: FifoState) -> None:
    """Put a new machine into this state; of a head, the parts behind it are put in next."""
    try:
        options = decode_options(state.options)
        put_off: list[Command] = [decode(command) for command in state.put_off]
    except (ValueError, BadCommand) as error:
        raise BadSnapshot(str(error)) from error
    if options.levels != machine.options.levels:
        raise BadSnapshot(f"{options.levels} levels of priority")
    _check(state, options)
    try:
        streams = None if state.led is None else restored_streams(state.led)
        rows = [_rows(each, streams) for each in state.consumers]
    except ValueError as error:
        raise BadSnapshot(str(error)) from error
    assert machine.next_seq == 1
    machine.set_options(options)
    _restore_digests(machine, state)
    machine.streams = streams if streams is not None else machine.streams
    machine.next_seq = state.next_seq
    machine.now_ms = state.now_ms
    machine.delivered_high = state.delivered_high
    if state.retired:
        machine.set_retired(True, _to_session(state.retired))
    for first, count, reason in state.pending_dead_letters:
        machine.pending_dead_letters.add(first, count, reason)
    machine.pending_dead_letters.weigh(state.pending_dead_letter_sizes)
    machine.notes.pending_dead_letter_bytes = machine.pending_dead_letters.bytes
    machine.unused_since_ms = state.unused_since_ms
    for level, runs in enumerate(state.lanes):
        for first, count in runs:
            machine.ready.add(first, count, level)
    machine.redelivered = _set(state.redelivered) if state.redelivered else NONE
    machine.overdue = _set(state.overdue) if state.overdue else NONE
    _restore_consumers(machine, state, rows)
    _restore_selections(machine, state)
    _restore_groups(machine, state)
    machine.last_seqs = Numbers((_to_session(session), seq) for session, seq in state.last_seqs)
    for reason, purged, session, runs in state.leaving:
        leaving = Leaving(_set(runs), reason)
        leaving.purged = purged
        leaving.session = _to_session(session)
        machine.leaving.append(leaving)
    machine.arrivals.firsts = [first for first, _ in state.arrivals]
    machine.arrivals.times = [time for _, time in state.arrivals]
    for due, first, count in state.calendar:
        machine.calendar.restore(due, first, count)
    for seq, tries in state.attempts:
        if tries > 0:
            machine.attempts.put(seq, tries)
    machine.timeouts.check_ms = state.check_ms
    machine.timeouts.look_sooner = state.look_sooner
    machine.put_off.extend(put_off)
    for first, count, words in state.annotations:
        machine.own_annotations().restore(first, count, words)
    machine.notes.restore(state.levels, state.sizes)
    if state.delays:
        _restore_delays(machine, state)
    _restore_limiter(machine, state)
    machine.due_by(state.now_ms)


def _limit_states(consumer: Consumer) -> list[LimitState]:
    own = consumer.own_window_bytes, consumer.own_rate_max
    limits = consumer.limits
    if limits is None:
        has_own = own != (QUEUE_LIMIT, QUEUE_LIMIT)
        return [LimitState(_key(consumer.key), *own, consumer.barred)] if has_own else []
    now = limits.held_bytes, limits.tokens, limits.filled_ms, limits.next_ms
    seen = limits.settled_count, limits.waiting_count
    return [LimitState(_key(consumer.key), *own, consumer.barred, *now, *seen)]


def _restore_limits(machine: Fifo, state: LimitState) -> None:
    consumer = machine.roster.consumers[_to_key(state.key)]
    consumer.own_window_bytes = state.own_window_bytes
    consumer.own_rate_max = state.own_rate_max
    limits = machine.limiter.restore(consumer, machine.now_ms)
    consumer.barred = state.barred
    if limits is not None:
        limits.held_bytes = state.held_bytes
        limits.tokens = state.tokens
        limits.filled_ms = state.filled_ms
        limits.next_ms = state.next_ms
        limits.settled_count = state.settled_count
        limits.waiting_count = state.waiting_count
        machine.limiter.due_ms = min(machine.limiter.due_ms, state.next_ms)


def _restore_digests(machine: Fifo, state: FifoState) -> None:
    """Ids, keys of last values and groups of messages, of a machine that has its options."""
    if machine.ready.groups is not None:
        for first, count, bucket in state.buckets:
            machine.ready.groups.restore(first, count, bucket)
    known, last_values = machine.known_ids, machine.last_values
    if (state.ids and known is None) or (state.last_values and last_values is None):
        raise BadSnapshot("ids or keys of a queue that has no use for them")
    try:
        if known is not None:
            known.restore(state.ids)
        if last_values is not None:
            last_values.restore(state.last_values, state.next_seq)
    except ValueError as error:
        raise BadSnapshot(str(error)) from error


def _restore_limiter(machine: Fifo, state: FifoState) -> None:
    for each in state.limits:
        _restore_limits(machine, each)
    limiter = machine.limiter
    limiter.look_ms = state.look_ms
    holds, first_ms = state.dispatch
    limiter.holds_all = bool(holds)
    limiter.first_ms = first_ms
    if limiter.holds_all:
        limiter.due_ms = machine.now_ms
        for consumer in machine.roster.consumers.values():
            consumer.barred = consumer.barred or consumer.attached


def _restore_selections(machine: Fifo, state: FifoState) -> None:
    """Lanes and consumers are there; of a head, `known` follows."""
    if state.last_selection == 0:
        return
    selections = machine.roster.begin_selections(machine.ready)
    selections.last_number = state.last_selection
    consumers = machine.roster.consumers
    for each in state.selections:
        selection = Selection(each.number, each.selector, selections.levels)
        selection.seen = each.seen
        selection.known = _set(each.known)
        selection.rebuild(machine.ready.lanes)
        selections.put(selection)
        for key, drain_upto in each.attached:
            consumer = consumers[_to_key(key)]
            consumer.drain_upto = drain_upto
            selections.attach(consumer, selection)
        for key in each.idle:
            selections.rest(consumers[_to_key(key)])


def _restore_groups(machine: Fifo, state: FifoState) -> None:
    """Consumers are there."""
    groups = machine.ready.groups
    if groups is None:
        return
    consumers = machine.roster.consumers
    for bucket, key in state.owners:
        groups.owners[bucket] = consumers[_to_key(key)]
    for key in state.idle:
        groups.rest(consumers[_to_key(key)])


def _restore_delays(machine: Fifo, state: FifoState) -> None:
    delays = Delays(machine.notes)
    delays.seqs = _set(state.delayed)
    for due, first, count in state.delays:
        delays.calendar.restore(due, first, count)
    machine.delays = delays
    machine.notes.count_beside(delays.seqs)


def _check(state: FifoState, options: Options) -> None:
    """BadSnapshot: these fields together are of no machine."""
    numbers = [state.now_ms, state.check_ms, state.delivered_high, max(state.unused_since_ms, 0)]
    numbers += [seq for _, seq in state.last_seqs] + [tries for _, tries in state.attempts]
    numbers += [time for _, time in state.arrivals] + [due for due, _, _ in state.calendar]
    numbers += [due for due, _, _ in state.delays]
    numbers += [state.look_ms, state.dispatch[0], state.dispatch[1] + 1]
    for each in state.limits:
        numbers += [
            each.settled_count,
            each.waiting_count,
            each.held_bytes,
            each.tokens,
            each.filled_ms,
            each.next_ms,
        ]
        numbers += [each.own_window_bytes - QUEUE_LIMIT, each.own_rate_max - QUEUE_LIMIT]
    if not 1 <= state.next_seq <= FAR or min(numbers) < 0 or max(numbers) > FAR:
        raise BadSnapshot("a number out of its bounds")
    _check_keys(state)
    _check_selections(state)
    alive = [run for lane in state.lanes for run in lane]
    for consumer in state.consumers:
        alive += consumer.held
    for _, _, _, runs in state.leaving:
        alive += runs
    alive += state.delayed
    others = [state.redelivered, state.overdue, *(each.returned for each in state.consumers)]
    others += [runs for each in state.consumers for _, runs in each.generations]
    others += [[(first, count)] for _, first, count in state.calendar]
    others += [[(first, count)] for _, first, count in state.delays]
    others += [[(seq, 1)] for seq, _ in state.attempts] + [[(seq, 1)] for seq, _ in state.arrivals]
    for runs in others:
        _merged(runs, state.next_seq)
    everything = _merged(sorted(alive), state.next_seq)
    pending_dead_letters = [(first, count) for first, count, _ in state.pending_dead_letters]
    kept = _merged(sorted(alive + pending_dead_letters), state.next_seq)
    if state.version in HEADS and state.next_seq > 1:
        kept = [(1, state.next_seq - 1)]  # They follow it.
    _check_kept(state, pending_dead_letters)
    if any(reason not in DEATHS for _, _, reason in state.pending_dead_letters):
        raise BadSnapshot("a death of an unknown reason")
    if len(state.lanes) != options.levels:
        raise BadSnapshot(f"{len(state.lanes)} levels of messages")
    for rows, wanted in ((state.levels, options.levels > 1), (state.sizes, options.counts_bytes)):
        noted = _merged([(first, count) for first, count, _ in rows], state.next_seq)
        if noted != (everything if wanted else []):
            raise BadSnapshot("levels or sizes of other messages than there are")
    _check_groups(state, options, everything)
    if any(not 0 <= level < options.levels for _, _, level in state.levels):
        raise BadSnapshot("a level that there is not")
    if any(not 0 <= size < 1 << 31 for _, _, size in state.sizes):
        raise BadSnapshot("a size out of its bounds")
    _check_annotations(state, kept)


def _check_groups(state: FifoState, options: Options, everything: Runs) -> None:
    """`everything` is in the queue; of a head it is empty, for the messages follow."""
    noted = _merged([(first, count) for first, count, _ in state.buckets], state.next_seq)
    if options.group_buckets == 0 and (noted or state.owners or state.idle):
        raise BadSnapshot("groups of a queue that heeds none")
    if options.group_buckets > 0 and state.version not in HEADS and noted != everything:
        raise BadSnapshot("groups of other messages than there are")
    if any(not 0 <= bucket <= BUCKETS_MAX for _, _, bucket in state.buckets):
        raise BadSnapshot("a bucket that there is not")
    if [bucket for bucket, _ in state.owners] != sorted({bucket for bucket, _ in state.owners}):
        raise BadSnapshot("a bucket of two consumers")
    attached = {each.key for each in state.consumers if each.attached}
    if not attached.issuperset(key for _, key in state.owners):
        raise BadSnapshot("a bucket of a consumer that is not there")


def _check_kept(state: FifoState, pending_dead_letters: Runs) -> None:
    """What is delayed has a time, what is weighed is dying."""
    for wanted, known in (
        (state.delayed, [(first, count) for _, first, count in state.delays]),
        (
            [(first, count) for first, count, _ in state.pending_dead_letter_sizes],
            pending_dead_letters,
        ),
    ):
        there = _set(_merged(sorted(known), state.next_seq))
        _merged(wanted, state.next_seq)
        for first, count in wanted:
            if sum(found for _, found in there.within(first, count)) != count:
                raise BadSnapshot("a delay of no message, or a size")
    if any(not 0 <= size < 1 << 31 for _, _, size in state.pending_dead_letter_sizes):
        raise BadSnapshot("a size out of its bounds")


def _check_annotations(state: FifoState, everything: Runs) -> None:
    _merged([(first, count) for first, count, _ in state.annotations], state.next_seq)
    alive = SeqSet()
    for first, count in everything:
        alive.add(first, count)
    for first, count, words in state.annotations:
        if sum(found for _, found in alive.within(first, count)) != count:
            raise BadSnapshot("annotations of messages that are not there")
        if not 0 < len(words) <= WORDS_BYTES_MAX:
            raise BadSnapshot(f"annotations of {len(words)} bytes")
        try:
            decode_words(words)
        except ValueError as error:
            raise BadSnapshot(str(error)) from error


def _check_selections(state: FifoState) -> None:
    """BadSnapshot: what is known of selectors cannot be."""
    numbers = [each.number for each in state.selections]
    if len(set(numbers)) != len(numbers) or any(
        not 0 < number <= state.last_selection for number in numbers
    ):
        raise BadSnapshot("selectors with wrong numbers")
    if len({each.selector for each in state.selections}) != len(numbers):
        raise BadSnapshot("a selector twice")
    for each in state.selections:
        attached = {key for key, _ in each.attached}
        if not each.selector or not attached.issuperset(each.idle):
            raise BadSnapshot("an idle consumer of another selector")
        if not 0 <= each.seen < state.next_seq:
            raise BadSnapshot("a selector that has seen messages which are still to come")
        if any(not 0 <= upto < state.next_seq for _, upto in each.attached):
            raise BadSnapshot("a drain that waits for messages which are still to come")
        _merged(each.known, each.seen + 1)


def _check_keys(state: FifoState) -> None:
    known = {each.key for each in state.consumers}
    keys = [*known, *(key for key in (state.exclusive, state.active) if key)]
    sessions = [session for session, _ in state.last_seqs] + [each[2] for each in state.leaving]
    if any(len(key) != KEY_BYTES for key in keys):
        raise BadSnapshot("a key of a wrong length")
    sessions += [state.retired] if state.retired else []
    if any(len(session) != SESSION_BYTES for session in sessions):
        raise BadSnapshot("a session of a wrong length")
    known_limits = [each.key for each in state.limits]
    if len(set(known_limits)) != len(known_limits) or not known.issuperset(known_limits):
        raise BadSnapshot("limits of a consumer twice, or of one that is not there")
    standing = [key for line in state.lines for key in line]
    standing += [key for each in state.selections for key in each.idle] + state.idle
    attached = [key for each in state.selections for key, _ in each.attached]
    if len(set(attached)) != len(attached) or len(set(standing)) != len(standing):
        raise BadSnapshot("a consumer of two selectors, or in two lines")
    standing += attached
    standing += [state.exclusive] if state.exclusive else []
    if len(known) != len(state.consumers) or not known.issuperset(standing):
        raise BadSnapshot("a consumer twice, or one that is not there")


def _merged(runs: Runs, next_seq: int) -> Runs:
    """Ascending runs of numbers below `next_seq`, those that meet as one; else BadSnapshot."""
    merged: Runs = []
    end = 1
    for first, count in runs:
        if first < end or count < 1 or first + count > next_seq:
            raise BadSnapshot(f"messages {first}.. in a wrong place")
        if merged and first == end:
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        else:
            merged.append((first, count))
        end = first + count
    return merged


def _rows(state: ConsumerState, streams: Streams | None) -> Rows | None:
    order = 0 if streams is None else streams.order
    return restored_rows(state.rows, state.held, state.delivery_count, order)


def _restore_consumers(machine: Fifo, state: FifoState, rows: list[Rows | None]) -> None:
    roster = machine.roster
    for each, own in zip(state.consumers, rows, strict=True):
        consumer = Consumer(_to_key(each.key), each.priority)
        consumer.credit = each.credit
        consumer.delivery_count = each.delivery_count
        consumer.auto_return = each.auto_return
        consumer.attached = each.attached
        consumer.timeout_ms = each.timeout_ms
        consumer.held = _set(each.held)
        consumer.rows = own
        consumer.suspended = each.suspended
        consumer.barred = each.suspended
        consumer.generations = [Generation(at, _set(runs)) for at, runs in each.generations]
        consumer.returned = _set(each.returned) if each.returned else None
        roster.add(consumer)
        roster.attached_count += 1 if each.attached else 0
        machine.checked_out += consumer.held.count
    for line in state.lines:
        for key in line:
            roster.lines.join(roster.consumers[_to_key(key)])
    roster.exclusive_key = _to_key(state.exclusive) if state.exclusive else None
    roster.active_key = _to_key(state.active) if state.active else None
    roster.gives_way = state.gives_way


def _consumer_state(consumer: Consumer, whole: bool) -> ConsumerState:
    rows: list[RowState] | None = []
    if whole or consumer.rows is None:
        rows = row_states(consumer.rows)
    returned = consumer.returned
    return ConsumerState(
        _key(consumer.key),
        consumer.priority,
        consumer.credit,
        consumer.delivery_count,
        consumer.auto_return,
        consumer.attached,
        consumer.timeout_ms,
        _runs(consumer.held, whole),
        [(each.at_ms, _runs(each.seqs, whole)) for each in consumer.generations],
        [] if returned is None else _runs(returned, whole),
        consumer.suspended,
        rows,
    )


def _set(runs: Runs) -> SeqSet:
    made = SeqSet()
    for first, count in runs:
        made.add(first, count)
    return made


def _key(key: ConsumerKey) -> bytes:
    return int(key).to_bytes(KEY_BYTES, "little")


def _to_key(data: bytes) -> ConsumerKey:
    return ConsumerKey(int.from_bytes(data, "little"))


def _session(session: SessionId) -> bytes:
    return int(session).to_bytes(SESSION_BYTES, "little")


def _to_session(data: bytes) -> SessionId:
    return SessionId(int.from_bytes(data, "little"))

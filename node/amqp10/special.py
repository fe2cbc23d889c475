"""Publishes of AMQP 1.0 that need a look at each message.

Takes a run and gives runs of the same order that have one way each, or a refusal of theirs. Looked
at are: the address in `to` (the anonymous terminus), the user-id, further routing keys in the
annotation x-cc, the size of the sections before the body, and all that an exchange which routes by
content asks for.
"""

from typing import Final

from msgspec import Struct

from node.amqp091.plans import Plan
from node.amqp10.owner import Owner10
from node.amqp10.termini import error_of, names_of
from node.auth.asked_access import Undecided
from queues.conversion.to_amqp091 import X_CC
from queues.routing.content10 import Content10
from queues.sessions.publishing import Targets
from warren.wire.amqp10.codec.message import (
    INFO_ANNOTATIONS,
    INFO_USER_ID,
    TO,
    USER_ID,
    Sections,
    fail_sections,
)
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import read_i32_le

X_CC_BYTES: Final = X_CC.encode()
NOWHERE: Final = Targets([])


class Special(Struct):
    """Messages that go the same way; `error`: they do not go at all."""

    run: Transfers
    targets: Targets
    names: bytes
    error: ProtocolError | None


class Way(Struct, frozen=True):
    """Where one message goes."""

    targets: Targets
    names: bytes
    error: ProtocolError | None


def is_special(run: Transfers, frame_max: int) -> bool:
    """Whether messages of the run may need a look, whatever the plan says."""
    if run.payload_max() > frame_max:
        return True
    seen = 0
    for info in run.infos:
        seen |= info
    if seen & INFO_USER_ID:
        return True
    return seen & INFO_ANNOTATIONS != 0 and X_CC_BYTES in run.data


def look(owner: Owner10, run: Transfers, names: bytes | None, plan: Plan | None) -> list[Special]:
    """Split the run by the destinations of its messages.

    Stop when the time that this turn has for routing is spent, or at a message whose permission is
    not known: `rest_of` has the other messages.
    """
    found: list[Special] = []
    ways: list[Way] = []
    sections = Sections()
    known: dict[bytes, Way] = {}
    plans = owner.plans()
    for place in range(run.count):
        try:
            way = _way(owner, run, place, names, plan, sections, known)
        except Undecided as undecided:
            plans.put_off(undecided)
            break
        if way is None:
            break
        ways.append(way)
        if plans.is_spent():
            break
    first = 0
    for place in range(1, len(ways) + 1):
        if place < len(ways) and _alike(ways[place], ways[first]):
            continue
        way = ways[first]
        found.append(Special(part(run, first, place), way.targets, way.names, way.error))
        first = place
    return found


def rest_of(run: Transfers, looked_at: list[Special]) -> Transfers | None:
    """The messages of the run that `look` had no time for."""
    count = sum(special.run.count for special in looked_at)
    return part(run, count, run.count) if count < run.count else None


def _alike(one: Way, other: Way) -> bool:
    return one.targets is other.targets and one.names == other.names and one.error is other.error


def part(run: Transfers, first: int, last: int) -> Transfers:
    """Messages first..last-1 of the run."""
    if first == 0 and last == run.count:
        return run
    firsts: list[int] = []
    infos: list[int] = []
    for k, begin in enumerate(run.firsts):
        end = run.firsts[k + 1] if k + 1 < len(run.firsts) else run.count
        if begin < last and end > first:
            firsts.append(max(begin - first, 0))
            infos.append(run.infos[k])
    cut = Transfers(
        run.channel,
        run.handle,
        run.id_at(first),
        run.settled,
        run.message_format,
        run.data,
        run.offsets[4 * first : 4 * last + 4],
        firsts,
        infos,
    )
    cut.ids = run.ids[4 * first : 4 * last]
    cut.transaction = run.transaction
    return cut


def _way(
    owner: Owner10,
    run: Transfers,
    place: int,
    names: bytes | None,
    plan: Plan | None,
    sections: Sections,
    known: dict[bytes, Way],
) -> Way | None:
    """`known` holds the ways of plain addresses, so that messages of one way go together.

    None: this turn has no time for all keys of the message, or for hosts of its queues. Undecided.
    """
    data = run.data
    start = int(read_i32_le(run.offsets, 4 * place))
    end = int(read_i32_le(run.offsets, 4 * place + 4))
    payload = payload_at(data, start)
    if not sections.walk(data, payload, end):
        fail_sections(sections)
    try:
        _check_size(sections.body_at - payload, owner.frame_max)
        if sections.info & INFO_USER_ID:
            _check_user(owner, sections.property(data, USER_ID))
        if names is None:
            names = _names_in(sections, data)
    except ProtocolError as error:
        return Way(NOWHERE, b"", error)
    if plan is None:
        plans = owner.plans()
        plan = plans.get(names + b"\x00") or plans.make_some(names + b"\x00")
        if plan is None:
            return None
    if plan.error is not None:
        return _refused(plan, names, known)
    keys = _more_keys(sections, data)
    if keys:
        refused = owner.plans().keys_refusal(plan.exchange, keys)
        if refused is not None:
            return Way(NOWHERE, names, error_of(refused))
    if keys or plan.per_message:
        content = Content10(data, start, end)
        route = owner.plans().route(plan.exchange, plan.routing_key, content, keys)
        if route is None:
            return None
        return Way(owner.plans().targets(route.queues, plan.exchange), names, None)
    return Way(plan.targets, names, None)


def _names_in(sections: Sections, data: bytes) -> bytes:
    """Of the address in `to`."""
    try:
        return names_of(sections.property(data, TO))
    except ProtocolError as error:
        raise ProtocolError(Condition.PRECONDITION_FAILED, error.text, Scope.LINK) from error


def _refused(plan: Plan, names: bytes, known: dict[bytes, Way]) -> Way:
    assert plan.error is not None
    way = known.get(names)
    if way is None:
        way = Way(NOWHERE, names, error_of(plan.error))
        known[names] = way
    return way


def _check_size(head_bytes: int, frame_max: int) -> None:
    """Refuse what a client of AMQP 0-9-1 cannot be sent: it must fit in one header frame."""
    if head_bytes > frame_max:
        text = (
            f"properties, annotations and application properties have {head_bytes} bytes; "
            f"limits.frame_max allows {frame_max}, because AMQP 0-9-1 cannot split them"
        )
        raise ProtocolError(Condition.MESSAGE_SIZE_EXCEEDED, text, Scope.LINK)


def _check_user(owner: Owner10, user_id: object) -> None:
    if not isinstance(user_id, bytes) or user_id == owner.user.encode():
        return
    if owner.is_impersonator():
        return
    shown = user_id.decode("utf-8", "replace")
    text = f"user_id property set to '{shown}' but authenticated user was '{owner.user}'"
    raise ProtocolError(Condition.UNAUTHORIZED_ACCESS, text, Scope.LINK)


def _more_keys(sections: Sections, data: bytes) -> tuple[bytes, ...]:
    """Of the annotation x-cc: a list of texts."""
    if not sections.info & INFO_ANNOTATIONS:
        return ()
    annotations = sections.annotations(data)
    value = annotations.get(X_CC) if isinstance(annotations, dict) else None
    if not isinstance(value, list):
        return ()
    return tuple(each.encode() for each in value if isinstance(each, str))

"""Whose record a bad one was, from what its bytes still agree on. No I/O. Compiled.

Takes the first bytes of a record whose checksum is wrong, and the distance to the next sound one;
gives kind, targets and index, as far as two places that say the same thing can be believed: the
length and the distance, the owner and its hash, the header and the first target. Where too little
agrees (several records are gone, or zeros are there) it returns nothing and names no owner.
"""

from typing import Final

from warren.storage.record import (
    CHECKPOINT,
    CHECKPOINT_HEAD,
    DELETED,
    ENTRY,
    HARD_STATE,
    HEADER,
    HEADER_BYTES,
    LABEL_LENGTH,
    LABELLED_VERSION,
    MARK,
    PAYLOAD_VERSION,
    PUBLISH,
    PUBLISH_BYTES,
    PUBLISH_HEAD,
    RAFT_ENTRY,
    RAFT_HEAD_BYTES,
    SETTLE,
    SETTLE_HEAD,
    STATE_BYTES,
    TARGET,
    TARGETS_MAX,
    owner_check,
    padded,
)

UNKNOWN: Final = 0
RAFT_ZEROS_AT: Final = 17  # in the payload of a RAFT_ENTRY
Targets = tuple[tuple[int, int, int], ...]  # (owner, first message_seq, count); 0: not known
NO_OWNER: Final[tuple[int, Targets, int]] = (UNKNOWN, (), 0)


def identify(head: bytes, span: int) -> tuple[int, Targets, int]:
    """(kind, targets, index) of the bad record that begins with `head` and takes `span` bytes."""
    if len(head) < HEADER_BYTES:
        return NO_OWNER
    fields = HEADER.unpack_from(head)
    length: int = fields[1]
    owner: int = fields[4]
    index: int = fields[5]
    kind: int = fields[6]
    check: int = fields[8]
    fits = padded(length) == span
    named = owner_check(owner) == check
    found = publish_targets(head, span, length if fits else -1)
    if found and (kind == PUBLISH or publish_bytes(head) == length or not fits):
        first = found[0][0]
        if first == owner or owner_check(first) == check:
            return PUBLISH, found, index
        if not named:
            return NO_OWNER
        if len(found) == 1:
            return PUBLISH, ((owner, 0, found[0][2]),), index
        return PUBLISH, ((owner, *found[0][1:]), *found[1:]), index
    if not fits or not named:
        return NO_OWNER
    if kind == PUBLISH:  # Its payload does not say how many messages it has.
        number = target_count(head, length)
        targets = targets_at(head, number, 0) if 1 < number < TARGETS_MAX else ()
        if number == 1:
            targets = ((owner, 0, 0),)
        elif targets and targets[0][0] != owner:
            targets = ()
        return PUBLISH, targets, index
    return believed_kind(head, kind, length), ((owner, 0, 0),), index


def believed_kind(head: bytes, kind: int, length: int) -> int:
    """The kind that the header claims, if the payload looks like it."""
    payload = head[HEADER_BYTES:]
    if kind in (SETTLE, CHECKPOINT):
        layout = SETTLE_HEAD if kind == SETTLE else CHECKPOINT_HEAD
        if len(payload) < layout.size or payload[0] != PAYLOAD_VERSION or any(payload[1:4]):
            return UNKNOWN
        range_count: int = layout.unpack_from(payload)[1]
        return kind if layout.size + 16 * range_count == length else UNKNOWN
    if kind in (MARK, DELETED):
        return kind if length == 0 else UNKNOWN
    if kind == HARD_STATE:
        return kind if length == STATE_BYTES else UNKNOWN
    if kind == RAFT_ENTRY:
        padding = payload[RAFT_ZEROS_AT:RAFT_HEAD_BYTES]
        return kind if len(padding) == 7 and not any(padding) else UNKNOWN
    return kind if kind == ENTRY and length > 0 else UNKNOWN


def publish_bytes(head: bytes) -> int:
    """Bytes of the payload of a PUBLISH, by its own account; -1 if it is none."""
    if len(head) < HEADER_BYTES + PUBLISH_BYTES:
        return -1
    version, _, _, targets, stride, count, byte_count, _ = PUBLISH_HEAD.unpack_from(
        head, HEADER_BYTES
    )
    if version not in (PAYLOAD_VERSION, LABELLED_VERSION) or targets == 0 or count == 0:
        return -1
    size: int = PUBLISH_BYTES + 16 * targets + stride * count + 4 * (count + 1) + byte_count
    return size + labelled_bytes(head, version, targets)


def labelled_bytes(head: bytes, version: int, targets: int) -> int:
    """Bytes that a label takes behind so many targets; what is not there counts as none."""
    at = HEADER_BYTES + PUBLISH_BYTES + 16 * targets
    if version != LABELLED_VERSION or at + LABEL_LENGTH.size > len(head):
        return 0
    length: int = LABEL_LENGTH.unpack_from(head, at)[0]
    return LABEL_LENGTH.size + length


def target_count(head: bytes, length: int) -> int:
    """How many targets a PUBLISH of that length has, although its account does not add up."""
    if len(head) < HEADER_BYTES + PUBLISH_BYTES:
        return 0
    fields = PUBLISH_HEAD.unpack_from(head, HEADER_BYTES)
    targets: int = fields[3]
    stride: int = fields[4]
    count: int = fields[5]
    byte_count: int = fields[6]
    rest = length - PUBLISH_BYTES - stride * count - 4 * (count + 1) - byte_count
    rest -= labelled_bytes(head, fields[0], targets)
    return rest // 16 if rest > 0 and rest % 16 == 0 else targets


def publish_targets(head: bytes, span: int, length: int) -> Targets:
    """The targets of a PUBLISH whose sizes add up to the span; `length` -1: not to be believed."""
    size = publish_bytes(head)
    if size < 0 or padded(size) != span or (length >= 0 and size != length):
        return ()
    _, _, _, number, _, count, _, _ = PUBLISH_HEAD.unpack_from(head, HEADER_BYTES)
    return targets_at(head, number, count)


def targets_at(head: bytes, number: int, count: int) -> Targets:
    """The targets of a PUBLISH, as they stand there."""
    at = HEADER_BYTES + PUBLISH_BYTES
    if at + 16 * number > len(head):
        return ()
    found: list[tuple[int, int, int]] = []
    for place in range(number):
        owner, first = TARGET.unpack_from(head, at + 16 * place)
        found.append((owner, first, count))
    return tuple(found)

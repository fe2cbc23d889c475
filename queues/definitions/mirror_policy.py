"""The `ha-*` keys of policies: RabbitMQ 3.13's sentences, and which nodes they select.

Modes and their rules are those of RabbitMQ's mirrored classic queues; nodes are member ids here.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from queues.definitions.arguments import brief_term, cut

KEYS: Final = (
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-sync-nonblocking",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
)
ALL: Final = "all"
EXACTLY: Final = "exactly"
NODES: Final = "nodes"
ALWAYS: Final = "always"
WHEN_SYNCED: Final = "when-synced"
AUTOMATIC: Final = "automatic"
MANUAL: Final = "manual"
BATCH_SIZE: Final = 4096


def mirror_fault(definition: Mapping[str, object]) -> str | None:
    """Say what is wrong with the `ha-*` keys of a policy; None: nothing."""
    if not any(key in definition for key in KEYS):
        return None
    if "ha-mode" not in definition:
        return (
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        )
    mode = definition["ha-mode"]
    if mode not in (ALL, EXACTLY, NODES):
        return f"{_term(mode)} is not a valid ha-mode value"
    return _params_fault(mode, definition) or _options_fault(definition)


def _params_fault(mode: object, definition: Mapping[str, object]) -> str | None:
    has_params = "ha-params" in definition
    params = definition.get("ha-params")
    given = _term(params) if has_params else "none"
    if mode == ALL:
        return 'ha-mode="all" does not take parameters' if has_params else None
    if mode == EXACTLY:
        is_count = isinstance(params, int) and not isinstance(params, bool) and params > 0
        return None if is_count else f'ha-mode="exactly" takes an integer, {given} given'
    if not isinstance(params, list):
        return f'ha-mode="nodes" takes a list, {given} given'
    if not params:
        return 'ha-mode="nodes" list must be non-empty'
    others = [each for each in params if not isinstance(each, str)]
    if not others:
        return None
    shown = _term(others)
    return f'ha-mode="nodes" takes a list of strings, {shown} was not a string'


def _options_fault(definition: Mapping[str, object]) -> str | None:
    mode = definition.get("ha-sync-mode", MANUAL)
    if mode not in (AUTOMATIC, MANUAL):
        return f'ha-sync-mode must be "manual" or "automatic", got {_term(mode)}'
    size = definition.get("ha-sync-batch-size", BATCH_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        return f"ha-sync-batch-size takes an integer greater than 0, {_term(size)} given"
    nonblocking = definition.get("ha-sync-nonblocking", True)
    if not isinstance(nonblocking, bool):
        return f"ha-sync-nonblocking must be true or false, got {_term(nonblocking)}"
    for key in ("ha-promote-on-shutdown", "ha-promote-on-failure"):
        value = definition.get(key, ALWAYS)
        if value not in (ALWAYS, WHEN_SYNCED):
            return f'{key} must be "always" or "when-synced", got {_term(value)}'
    return None


def _term(value: object) -> str:
    """A value of JSON as an Erlang term, cut if it is long."""
    if isinstance(value, list):
        return cut(f"[{','.join(brief_term(each) for each in value)}]")
    return brief_term(value)


class MirrorPolicy(Struct, frozen=True):
    """What a policy says about the mirrors of a queue. `count` with the leader; `nodes` by name."""

    mode: str
    count: int
    nodes: tuple[str, ...]
    synchronises: bool
    batch_size: int
    always_on_failure: bool
    always_on_shutdown: bool
    blocks: bool = False  # the queue, while mirrors are synchronised


def mirror_policy(settings: Mapping[str, object], synchronises: bool) -> MirrorPolicy | None:
    """Read settings that have no fault; None: the queue has no mirrors.

    `synchronises`: whether mirrors are synchronised automatically where `ha-sync-mode` is not set.
    """
    mode = settings.get("ha-mode")
    if not isinstance(mode, str):
        return None
    params = settings.get("ha-params")
    size = settings.get("ha-sync-batch-size", BATCH_SIZE)
    assert isinstance(size, int)
    sync_mode = settings.get("ha-sync-mode", AUTOMATIC if synchronises else MANUAL)
    return MirrorPolicy(
        mode,
        params if isinstance(params, int) else 0,
        tuple(map(str, params)) if isinstance(params, list) else (),
        sync_mode == AUTOMATIC,
        size,
        settings.get("ha-promote-on-failure", ALWAYS) == ALWAYS,
        settings.get("ha-promote-on-shutdown", WHEN_SYNCED) == ALWAYS,
        settings.get("ha-sync-nonblocking") is False,
    )


class Wanted(Struct, frozen=True):
    """The members that a queue is to have, in no order of their joining."""

    leader: int
    mirrors: tuple[int, ...]


def wanted_members(
    policy: MirrorPolicy,
    leader: int,
    mirrors: Sequence[int],
    synchronised: Sequence[int],
    running: Mapping[str, int],
) -> Wanted:
    """Who is to have the queue, by the present members and the running nodes: ids by name.

    `running` is in the order in which new mirrors are chosen.
    """
    if policy.mode == ALL:
        others = [member for member in running.values() if member != leader]
        return Wanted(leader, tuple(others))
    if policy.mode == EXACTLY:
        wanted = list(mirrors[: policy.count - 1])
        free = [each for each in running.values() if each != leader and each not in wanted]
        return Wanted(leader, tuple(wanted + free[: policy.count - 1 - len(wanted)]))
    named = [running[name] for name in dict.fromkeys(policy.nodes) if name in running]
    return _of_named(named, leader, [each for each in synchronised if each != leader])


def _of_named(named: list[int], leader: int, synchronised: list[int]) -> Wanted:
    """A leader that is not on the list stays until a mirror on it is synchronised."""
    if leader in named or not named:
        return Wanted(leader, tuple(each for each in named if each != leader))
    ready = [each for each in named if each in synchronised]
    if not ready:
        return Wanted(leader, tuple(named))
    return Wanted(ready[0], tuple(each for each in named if each != ready[0]))

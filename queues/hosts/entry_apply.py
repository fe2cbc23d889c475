"""What a member of a quorum queue's group does with an entry that is committed (0011).

`apply_entry` lets the machine have the commands, and carries out what it answers. On every member:
bodies get their place in the queue (Enqueued) and leave (Left). What sessions are told, and what
becomes of dead letters, is the business of the leader alone (who gives `sinks`), and there of those
sessions that somebody stands for: others ask when they come (`HomeEnd.resume`). Compiled.
"""

from mypy_extensions import i64

from queues.hosts.classic import ClassicHost
from queues.hosts.effect_dispatch import session_in, tell
from queues.hosts.quorum_bodies import Bodies
from queues.machine.commands import Command, EndSession, Numbered, SessionId
from queues.machine.effects import (
    LEFT_ACCEPTED,
    Applied,
    DeadLettersPending,
    Delivers,
    Effect,
    Enqueued,
    KnownAlready,
    LastConsumerGone,
    Left,
    QueueExpired,
    ResendFrom,
    SessionOver,
    Unwanted,
)
from queues.remote.remote_interfaces import StreamSink

Sinks = dict[SessionId, StreamSink]
Numbers = list[tuple[SessionId, int]]


def apply_entry(
    host: ClassicHost,
    bodies: Bodies,
    commands: list[Command],
    now_ms: i64,
    sinks: Sinks | None,
) -> None:
    """See the module. `sinks`: None on a follower."""
    machine = host.machine
    effects = machine.apply(commands, now_ms)
    host.capacity.observe(machine.is_able(), machine.now_ms)
    confirmed: Numbers = []
    applied: Numbers = []
    traffic = bodies.traffic
    for effect in effects:
        if isinstance(effect, Enqueued):
            bodies.taken(effect.message_first, effect.count)
            host.published_count += effect.count
            confirmed.append((effect.session, effect.first_seq + effect.count - 1))
        elif isinstance(effect, Left):
            if sinks is not None:
                host.left(effect)
            else:
                host.accepted_count += effect.count if effect.reason == LEFT_ACCEPTED else 0
                host.release_found(effect.first, effect.count)
        elif sinks is not None:
            if isinstance(effect, Applied):
                applied.append((effect.session, effect.number))
            elif isinstance(effect, KnownAlready):
                confirmed.append((effect.session, effect.first_seq + effect.count - 1))
            else:
                say(host, sinks, effect)
                if traffic is not None:
                    traffic.told(effect)
    bodies.drop_passed()
    if sinks is not None:
        decide(host, sinks, confirmed, applied)
        for command in commands:
            end_session(host, sinks, command)


def say(host: ClassicHost, sinks: Sinks, effect: Effect) -> None:
    """What is not about bodies, nor for the end of the entry."""
    if isinstance(effect, (LastConsumerGone, QueueExpired)):
        host.unused(effect)
    elif isinstance(effect, DeadLettersPending):
        host.dies(effect)
    elif isinstance(effect, ResendFrom):
        sink = sinks.get(effect.session)
        if sink is not None:
            sink.on_resend(int(host.uid))
    elif isinstance(effect, SessionOver):
        drop_sink(host, sinks, effect.session, True)
    elif not isinstance(effect, Unwanted):
        if isinstance(effect, Delivers):
            host.delivered_count += effect.count
            host.redelivered_count += effect.count if effect.redelivered else 0
        host.count_answer(effect)
        sink = sinks.get(session_in(effect))
        if sink is not None:
            tell(sink, host.uid, effect, host.auto_delete and host.machine.attached_count == 0)


def decide(host: ClassicHost, sinks: Sinks, confirmed: Numbers, applied: Numbers) -> None:
    """Publishes are decided, behind what was refused of them; commands are in for good."""
    uid = int(host.uid)
    for session, upto in confirmed:
        sink = sinks.get(session)
        if sink is not None:
            sink.on_confirms(uid, upto)
    for session, number in applied:
        sink = sinks.get(session)
        if sink is not None:
            sink.on_applied(uid, number)


def end_session(host: ClassicHost, sinks: Sinks, command: Command) -> None:
    """The session has heard all that it ever will."""
    if isinstance(command, Numbered):
        command = command.command
    if isinstance(command, EndSession):
        drop_sink(host, sinks, command.session, False)


def drop_sink(host: ClassicHost, sinks: Sinks, session: SessionId, is_told: bool) -> None:
    """Nobody is told any more of the session, which may not know yet that it is over."""
    sink = sinks.pop(session, None)
    if sink is None:
        return
    host.forget_sink(session)
    host.credit.peer_down(sink.credit)
    sink.credit.peer_down(host.credit)
    if is_told:
        sink.on_gone(int(host.uid))

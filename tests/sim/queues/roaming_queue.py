"""One quorum queue of the simulation of sessions: its log, who leads it, and what must come of it.

The log is not simulated, its word is: each entry of the leader is committed, or lost when another
leads; a new leader takes commands once it has applied what is committed. The `truth` is what a
machine says that applies each committed entry once.
"""

from random import Random

from queues.machine.commands import Command, encode
from queues.machine.effects import Activated, Delivers, Enqueued, Refused, Unwanted
from queues.machine.fifo_snapshot import encode_fifo
from queues.machine.options import REJECT_PUBLISH, Options
from tests.sim.queues.roaming_client import Truth
from tests.sim.queues.roaming_end import End, Entry, machine_of
from tests.unit.queues.messages import body_of


class LedQueue:
    """`ends` are its members, by node. `news`: to whom, leader, term, not told yet."""

    def __init__(self, uid: int, members: list[int], lots: Random) -> None:
        self.uid = uid
        self.lots = lots
        self.options = draw_options(lots)
        self.truth = Truth()
        self.log: list[Entry] = []
        self._oracle = machine_of(self.options)
        self.ends = {member: End(uid, self.options, lots) for member in members}
        self.term = 0
        self.leader = 0
        self.news: list[tuple[int, int, int]] = []
        self.duties: list[Command] = []  # what the cluster wants done, until it is committed

    @property
    def led_end(self) -> End:
        """The leader's."""
        return self.ends[self.leader]

    def elect(self, member: int) -> None:
        """Another leads; of what the one before had under way some is committed, in order."""
        if self.leader:
            self.commit(self.lots.randrange(len(self.led_end.proposed) + 1))
        self.term += 1
        self.leader = member
        if self.led_end.term:
            self.led_end.step_down()

    def commit(self, count: int) -> None:
        """The leader's next entries are safe."""
        end = self.led_end
        if end.term != self.term:
            return
        for entry in end.proposed[:count]:
            self.log.append(entry)
            self._witness(entry)
        del end.proposed[:count]

    def _witness(self, entry: Entry) -> None:
        commands = entry.decoded()
        self.duties = [duty for duty in self.duties if not is_among(duty, commands)]
        truth = self.truth
        chunks = list(entry.chunks)
        for effect in self._oracle.apply(commands, entry.now_ms):
            if isinstance(effect, Enqueued):
                chunk = chunks.pop(0)
                for place in range(effect.count):
                    body = body_of(chunk, place)
                    name = (effect.session, effect.first_seq + place)
                    assert body.startswith(b"%d/%d/" % name)
                    assert name not in truth.publishes, f"publish {name} was taken twice"
                    truth.publishes[name] = effect.message_first + place
                    truth.bodies[effect.message_first + place] = body
            elif isinstance(effect, Unwanted):
                chunks.pop(0)
            elif isinstance(effect, Refused):
                for seq in range(effect.first_seq, effect.first_seq + effect.count):
                    truth.refused.add((effect.session, seq))
            elif isinstance(effect, Delivers):
                for place in range(effect.count):
                    made = (effect.first + place, effect.redelivered)
                    truth.deliveries[effect.key, effect.delivery_seq + place] = made
            elif isinstance(effect, Activated):
                truth.activations.add((effect.key, effect.active))

    def advance(self, member: int, count: int) -> None:
        """A member applies committed entries; a leader that has applied all begins."""
        end = self.ends[member]
        for entry in self.log[end.applied : end.applied + count]:
            end.apply(entry)
        leads = member == self.leader and end.term != self.term
        if leads and end.applied == len(self.log):
            end.begin(self.term)
            self.news += [(each, member, self.term) for each in self.ends]

    def lead_on(self, now_ms: int) -> None:
        """Who leads, or believes so, makes entries of what there is."""
        end = self.led_end
        if end.term == self.term:
            for duty in self.duties:
                if not any(is_among(duty, entry.decoded()) for entry in end.proposed):
                    end.give(duty)
        for each in self.ends.values():
            each.propose(now_ms)

    def settle(self, now_ms: int) -> None:
        """The leader gets its duties done, and all members have applied it."""
        while self.duties or self.led_end.proposed or self.led_end.term != self.term:
            self.lead_on(now_ms)
            self.commit(1_000_000)
            for member in self.ends:
                self.advance(member, 1_000_000)

    def is_at_rest(self) -> bool:
        end = self.led_end
        if self.duties or self.news or end.proposed:
            return False
        if any(each.applied < len(self.log) for each in self.ends.values()):
            return False
        return not (end.ready_count or end.checked_out_count)

    def describe(self) -> str:
        end = self.led_end
        return f"queue {self.uid}: {end.ready_count} ready, {end.checked_out_count} checked out"

    def is_active(self, key: int) -> bool:
        """The queue has one active consumer, and this is it."""
        return bool(self.led_end.machine.roster.active_key == key)

    def check(self) -> None:
        """Members are alike, and have nothing left."""
        states = {encode_fifo(each.machine) for each in self.ends.values()}
        assert states == {encode_fifo(self._oracle)}, "members differ"
        for end in self.ends.values():
            assert end.body_count == 0, "bodies of messages that are gone"


def draw_options(lots: Random) -> Options:
    """With limits, priorities, lifetimes or one active consumer, or nothing of that."""
    if lots.random() < 0.3:
        return Options(length_max=5, overflow=REJECT_PUBLISH)
    single_active = lots.random() < 0.3
    return Options(
        levels=lots.choice((1, 1, 3)),
        default_level=0,
        ttl_ms=lots.choice((-1, -1, 60)),
        single_active=single_active,
        drain_handover=single_active and lots.random() < 0.5,
        counts_deliveries=lots.random() < 0.5,
    )


def is_among(duty: Command, commands: list[Command]) -> bool:
    """Whether one of the commands says the same."""
    return any(encode(each) == encode(duty) for each in commands)

"""A group whose members run in real hosts, `raft.host.RaftHost`: same weather, same truth.

What the detector of the simulation believes is what a host learns of its links, and beats are
answered as long as it does. Batches of an earlier group of the same number come in now and then.
"""

from raft.codec import decode, encode
from raft.entries import COMMAND, Entry, SnapshotPoint
from raft.links import ENVELOPE, open_batch
from raft.messages import AppendRequest, Message
from tests.sim.raft.detector import tell_host
from tests.sim.raft.host_member import GROUP, HostMember
from tests.sim.raft.member import Member
from tests.sim.raft.restoring import INCARNATION
from tests.sim.raft.world import World

GHOST_TERM = 1000


class HostWorld(World):
    """See the module."""

    def make_member(self, number: int, birth: SnapshotPoint) -> Member:
        return HostMember(number, self, birth, self.settings)

    def _tick(self, member: Member) -> None:
        self.later(self._periods[member.number], lambda: self._tick(member))
        assert isinstance(member, HostMember)
        if member.host is not None and not self.is_paused(member.number):
            member.host.tick(self.now)

    def _beat(self) -> None:
        super()._beat()
        for member in self.up():
            assert isinstance(member, HostMember)
            if not self.is_paused(member.number):
                self._tell_of_others(member)
        if self.up() and self.random.random() < self.faults.ghosts:
            self._haunt()

    def _tell_of_others(self, member: HostMember) -> None:
        """Links stand as long as the other is trusted."""
        host = member.host
        assert host is not None
        for other in self.members:
            if other == member.number:
                continue
            tell_host(self.detector, member.number, other, host)
            self._fill(member, other)

    def _fill(self, member: HostMember, other: int) -> None:
        """A link that is full for a while."""
        host = member.host
        assert host is not None
        if other in member.full and self.random.random() < 0.2 + (self.faults.full == 0):
            member.full.discard(other)
            host.drained(other)
        elif self.random.random() < self.faults.full:
            member.full.add(other)

    def _opinion(self, one: int, other: int, alive: bool) -> None:
        """A lost connection is reported even if it stands again by the next beat."""
        member = self.members[one]
        assert isinstance(member, HostMember)
        if not alive and member.host is not None:
            member.host.lost(other)

    def _haunt(self) -> None:
        """A leader of a group that had this number before, to a member of this one."""
        message = AppendRequest(GHOST_TERM, 0, 0, 1, [Entry(1, GHOST_TERM, COMMAND, [b"ghost"])], 0)
        content = b"".join(encode(message))
        source, target = self.random.choice(list(self.members)), self.random.choice(self.up())
        head = ENVELOPE.pack(GROUP, INCARNATION - 1, source, len(content))
        self._receive(source, target.number, self.now, head + content)

    def send(self, source: int, target: int, message: Message) -> None:
        raise AssertionError("a host sends batches")

    def send_batch(self, source: int, target: int, content: bytes) -> None:
        passes = self.passes
        if passes is not None:
            found = [decode(envelope.message) for envelope in open_batch(memoryview(content))]
            if not all(passes(source, target, message) for message in found):
                return
        self.network.send(self.faults, self.now, source, target, content)

    def _receive(self, source: int, target: int, sent_at: int, content: bytes) -> None:
        member = self.members.get(target)
        if member is None or member.core is None:
            return
        if self.is_paused(target):
            self.later(
                self.paused_for(target), lambda: self._receive(source, target, sent_at, content)
            )
            return
        assert isinstance(member, HostMember)
        for envelope in open_batch(memoryview(content)):
            message = decode(envelope.message)
            if isinstance(message, AppendRequest) and member.core.term <= message.term:
                self.heard.note(source, message.term, target, sent_at)
        member.receive(source, content)

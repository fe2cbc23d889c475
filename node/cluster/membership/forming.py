"""How a node comes to be a member of a cluster: founded, taken in, or refused (0037). No I/O.

Takes the founding list, what the data directory knows, and the words of the other seeds; `decide`
says what to do now. Founding needs a majority of the list that knows of no cluster, all with the
same list: then the configuration of the first group is the list itself, and its election decides.

A node that is empty and meets a member of a cluster never founds: it asks to be taken in. What it
needs not to happen: that a majority of the list lose their data directories at once.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct


class Word(Struct, frozen=True):
    """What a seed says of itself when it is asked."""

    address: str  # as in the founding list
    incarnation: int  # of its data directory
    cluster_id: int  # 0: it knows of none, or is forming one
    list_digest: bytes


class Wait(Struct, frozen=True):
    """Ask again in a while."""

    reason: str


class Found(Struct, frozen=True):
    """Take part in the founding: this node is voter `member` of 1..`voter_count`."""

    member: int
    voter_count: int


class Join(Struct, frozen=True):
    """Ask to be taken in by this seed, which is a member of that cluster."""

    address: str
    cluster_id: int


class Refuse(Struct, frozen=True):
    """Something is configured wrong: the node must not go on."""

    reason: str


Decision = Wait | Found | Join | Refuse


def list_digest(seeds: Sequence[str]) -> bytes:
    """Equal for equal founding lists, whatever their order."""
    return sha256("\n".join(sorted(set(seeds))).encode()).digest()


class Forming:
    """The decision of one empty node.

    Invariant: `_words` has the last word of each other seed, all of our founding list.
    """

    def __init__(self, address: str, incarnation: int, seeds: Sequence[str]) -> None:
        self.seeds = tuple(sorted(set(seeds)))
        self.word = Word(address, incarnation, 0, list_digest(seeds))
        self._words: dict[str, Word] = {}
        self._refusal = ""

    def heard(self, word: Word) -> None:
        """A seed has answered."""
        if word.address not in self.seeds or word.address == self.word.address:
            return
        if word.list_digest != self.word.list_digest and word.cluster_id == 0:
            self._refusal = (
                f"the founding list of {word.address} is another one than this node's "
                f"({', '.join(self.seeds)}): --seed must be the same on every node"
            )
            return
        before = self._words.get(word.address)
        if before is not None and before.incarnation != word.incarnation and not word.cluster_id:
            self._refusal = (
                f"{word.address} has lost its data directory while the cluster was forming; "
                "stop all nodes and begin with empty directories"
            )
            return
        self._words[word.address] = word

    def silent(self, address: str) -> None:
        """A seed cannot be reached, or not any more. What it has said of a cluster still holds."""
        word = self._words.get(address)
        if word is not None and word.cluster_id == 0:
            del self._words[address]

    def decide(self) -> Decision:
        """What to do with what is known."""
        clusters = {word.cluster_id for word in self._words.values() if word.cluster_id}
        if len(clusters) > 1:
            return Refuse("the seeds belong to different clusters: " + self._members())
        if clusters:
            member = min(address for address, word in self._words.items() if word.cluster_id)
            return Join(member, clusters.pop())
        if self._refusal:
            return Refuse(self._refusal)
        if self.word.address not in self.seeds:
            return Wait("no seed knows a cluster, and this node is no seed")
        here = len(self._words) + 1
        needed = len(self.seeds) // 2 + 1
        if here < needed:
            return Wait(f"{here} of {len(self.seeds)} seeds are here, {needed} are needed")
        return Found(self.seeds.index(self.word.address) + 1, len(self.seeds))

    def _members(self) -> str:
        found = sorted(self._words.items())
        return ", ".join(f"{a} of {w.cluster_id:016x}" for a, w in found if w.cluster_id)

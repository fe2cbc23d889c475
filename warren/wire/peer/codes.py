"""Numbers of the peer link, what a refusal means in words, and the one exception. Compiled."""

from collections.abc import Mapping
from typing import Final

# What a connection is for; a link is one of each of the first two.
CONTROL_ROLE: Final = 0
BULK_ROLE: Final = 1
ASK_ROLE: Final = 2  # no link: one question to a node whose id need not be known, and its answer
ROLE_NAMES: Final[tuple[str, ...]] = ("control", "bulk", "ask")

# Lanes: each keeps its order. The first one has the control connection for itself.
CONTROL_LANE: Final = 0
BULK_LANE: Final = 1  # entries and slices of snapshots
LANE_COUNT: Final = 4

# Kinds of frames
BEAT: Final = 1
BEAT_ANSWER: Final = 2
RAFT: Final = 3  # a batch of messages of log groups
ASK: Final = 4  # the question of a connection that asks
ASK_ANSWER: Final = 5
OTHER_KIND_MIN: Final = 128  # from here on to 255: the link does not look into them

# Why a connection is not taken
ACCEPTED: Final = 0
VERSION: Final = 1
PROOF: Final = 2
CLUSTER: Final = 3
UNKNOWN: Final = 4
FORGOTTEN: Final = 5
SAME_NODE: Final = 6
INCARNATION: Final = 7
TWICE: Final = 8
TARGET: Final = 9
DIRECTION: Final = 10
PAIR: Final = 11

REFUSALS: Final[Mapping[int, str]] = {
    VERSION: "no version of the peer link is common to both nodes",
    PROOF: "the proof is wrong: the nodes do not have the same cluster secret",
    CLUSTER: "the nodes belong to different clusters",
    UNKNOWN: "the node is not known here",
    FORGOTTEN: "the node was removed from the cluster",
    SAME_NODE: "both ends have the same node id",
    INCARNATION: "a node of that id is known with another data directory",
    TWICE: "another process has taken the place of this one: two nodes run with one identity",
    TARGET: "another node was expected at this address",
    DIRECTION: "of two nodes the one with the lower id connects",
    PAIR: "there is no control connection that this bulk connection belongs to",
}


def refusal_text(code: int) -> str:
    """A refusal in words, also one that this version does not know."""
    return REFUSALS.get(code) or f"refused for reason {code}"


class PeerFault(Exception):
    """The other side did what the peer link does not allow. `code` is 0 if it is no refusal."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.code = code

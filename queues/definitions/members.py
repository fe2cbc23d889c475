"""The nodes of a cluster as the definitions know them (0037).

A member id is a number of the cluster that is given once and never again; it is the same in all
log groups. A node that comes with a new data directory gets a new one. No I/O.
"""

from typing import Final

import msgspec

ID_DIGITS: Final = 16  # of a process in the ids of its connections


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One node of the cluster."""

    id: int
    name: str  # of the node, as in `rabbit@host`; "": a founding place that no node has taken
    incarnation: int  # of its data directory: random, 64 bit; 0 with no name
    cluster_host: str  # where its peers reach it
    cluster_port: int
    host_id: str = ""  # of the machine that it runs on: members of a queue are spread over them
    zone: str = ""
    amqp: str = ""  # host:port as clients get it; "" where none was configured
    management: str = ""
    draining: bool = False  # in maintenance: takes no clients and no leaders
    amqps: str = ""  # as `amqp`, over TLS
    tags: tuple[tuple[str, str], ...] = ()  # keys and values, for `x-member-placement-tag`
    stream: str = ""  # as `amqp`, for the stream protocol
    stream_tls: str = ""

    @property
    def uid(self) -> int:
        """Below 0, for it is none of those that the machine gives to objects."""
        return -self.id


class RemovedMember(msgspec.Struct, frozen=True, array_like=True):
    """One that was a member, and never will be again."""

    id: int
    name: str
    incarnation: int


class Process(msgspec.Struct, frozen=True, array_like=True):
    """A node from its start to its end: its connections and sessions are of this process."""

    node: str
    member: int
    incarnation: int  # random, 64 bit: `ProcessIdentity.incarnation`

    @property
    def uid(self) -> int:
        """As that of a member."""
        return -self.incarnation


def process_of_connection(connection: str) -> int:
    """Incarnation of the process that a connection is of, by its id; 0: that is none of ours."""
    head = connection[:ID_DIGITS]
    if len(head) != ID_DIGITS or connection[ID_DIGITS : ID_DIGITS + 1] != ".":
        return 0
    try:
        return int(head, 16)
    except ValueError:
        return 0

"""The nodes of a cluster as the definitions know them (0037).

A member id is a number of the cluster that is given once and never again; it is the same in all
log groups. A node that comes with a new data directory gets a new one.
"""

import msgspec


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One node of the cluster."""

    id: int
    name: str  # of the node, as in `rabbit@host`
    incarnation: int  # of its data directory: random, 64 bit
    cluster_host: str  # where its peers reach it
    cluster_port: int
    host_id: str = ""  # of the machine that it runs on: members of a queue are spread over them
    zone: str = ""
    amqp: str = ""  # host:port as clients are told it; "" where none was configured
    management: str = ""
    draining: bool = False  # in maintenance: takes no clients and no leaders

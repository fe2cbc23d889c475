"""Reports to the service manager: this node is ready, stops, is alive.

The protocol is systemd's sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Without
that variable nothing is sent.
"""

import logging
import os
import socket
from typing import Final

log = logging.getLogger("warren.node")

READY: Final = b"READY=1"
STOPPING: Final = b"STOPPING=1"
ALIVE: Final = b"WATCHDOG=1"


def notify(state: bytes) -> None:
    """Send a state; a manager that cannot be reached is logged, and nothing else follows."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending:
            sending.sendto(state, address)
    except OSError as error:
        log.warning("the service manager did not receive %s: %s", state.decode(), error)


def is_watched() -> bool:
    """Whether the manager restarts this process when it hears nothing from it."""
    return bool(os.environ.get("WATCHDOG_USEC"))

"""What is said when a port cannot be had, by the system's words and by those of a loop."""

import errno
import socket

import pytest

from node.connections.bind_errors import taking


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (OSError(errno.EADDRINUSE, "error while attempting to bind"), "Address already in use"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not"),
        (OSError("could not be"), "could not be"),
    ],
)
def test_it_names_the_address_what_it_was_for_and_why_it_cannot_be_had(
    fault: OSError, reason: str
) -> None:
    with pytest.raises(OSError, match=reason) as caught, taking("amqp", "10.0.0.1", 5672):
        raise fault
    assert str(caught.value).startswith("cannot listen on 10.0.0.1:5672 (amqp): ")

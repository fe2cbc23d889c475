"""What a link says of its last fault."""

from socket import gaierror

import pytest

from federation.running import reason_of


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "refused"), "cannot connect: the port refuses connections"),
        (gaierror(-2, "Name or service not known"), "cannot connect: the host name is not known"),
        (TimeoutError(), "no answer in time"),
        (OSError("it\nbreaks"), "it breaks"),
        (OSError(), "OSError"),
        (OSError("x" * 1000), "x" * 500),
    ],
)
def test_a_reason_is_one_line_in_words(error: OSError, text: str) -> None:
    assert reason_of(error) == text

"""What is said when an address cannot be listened on: for whom it was to be, and why not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def taking(purpose: str, host: str, port: int) -> Iterator[None]:
    """An OSError in here is raised again with words for who started the node."""
    try:
        yield
    except OSError as error:
        known = error.errno is not None and error.errno > 0  # Else it is about the host's name.
        reason = os.strerror(error.errno or 0) if known else error.strerror or str(error)
        raise OSError(f"cannot listen on {host}:{port} ({purpose}): {reason}") from error

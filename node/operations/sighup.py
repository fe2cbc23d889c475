"""What is read again when the process gets SIGHUP: files of logs, certificates.

    hangup = SighupHandler(loop)
    hangup.on_signal(reopen_log)         # each is called on the loop, in the order of telling

The signal is handled only once a callback is set: until then it ends the process, as it
ends any program whose terminal is gone.
"""

import asyncio
import signal
from collections.abc import Callable


class SighupHandler:
    """See the module. One for the process, for a signal has one handler."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: list[Callable[[], None]] = []

    def on_signal(self, call: Callable[[], None]) -> None:
        """Call that when the signal comes."""
        if not self._calls:
            self._loop.add_signal_handler(signal.SIGHUP, self._signalled)
        self._calls.append(call)

    def _signalled(self) -> None:
        for call in self._calls:
            call()

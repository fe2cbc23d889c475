"""The TLS contexts of a listener, rebuilt when their files change.

    keeper = TlsKeeper("listeners.amqps", settings)    # TlsFault: the files cannot be used
    keeper.server, keeper.client                       # as they are now; asked for each connection
    await keeper.look()                                # have the files changed?
    watch = TlsWatch(keepers, interval_s); task = create_task(watch.run()); watch.hurry()

Connections that stand keep the context that they began with. Files that have changed and cannot be
used (a key that does not belong to the certificate, half a file) leave everything as it is: that is
logged once for each state of the files, and they are tried again when they change again. Files are
read in a thread, never on the loop.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from node.tls.contexts import TlsFault, TlsSettings, client_context, server_context
from node.tls.validity import BadCertificate, ends_of

log = logging.getLogger("warren.tls")

Stamp = tuple[tuple[int, int, int], ...]  # of each file: when it changed, its size, its number


class TlsKeeper:
    """See the module. Invariant: `server` and `client` are of the same state of the files."""

    def __init__(self, name: str, settings: TlsSettings) -> None:
        self.name = name  # of the setting, for the log
        self.settings = settings
        self.reloads = 0
        self.last_fault = ""  # why the files as they are now are not in use; '': they are
        self._stamp = _stamp(settings.files)
        self.server, self.client = _made(settings)

    async def look(self) -> None:
        """Use the files, if they have changed and can be used."""
        stamp = await asyncio.to_thread(_stamp, self.settings.files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            made = await asyncio.to_thread(_made, self.settings)
        except TlsFault as fault:
            self.last_fault = str(fault)
            log.warning("%s: new files are not used, the old ones hold: %s", self.name, fault)
            return
        self.server, self.client = made
        self.reloads += 1
        self.last_fault = ""
        log.info("%s: new certificate files are in use for new connections", self.name)

    async def ends(self) -> list[tuple[Path, datetime]]:
        """The file and the last moment of each certificate that is shown or trusted."""
        paths = [self.settings.certfile]
        if self.settings.cacertfile is not None:
            paths.append(self.settings.cacertfile)
        return await asyncio.to_thread(_ends, paths)


class TlsWatch:
    """Looks at the files of all keepers, every so often and when told to."""

    def __init__(self, keepers: Sequence[TlsKeeper], interval_s: float) -> None:
        """An interval of 0: only when told to."""
        self._keepers = keepers
        self._interval_s = interval_s or None
        self._hurried = asyncio.Event()

    def hurry(self) -> None:
        """Look now."""
        self._hurried.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._hurried.wait()
            except TimeoutError:
                log.debug("looking at certificate files")
            self._hurried.clear()
            for keeper in self._keepers:
                await keeper.look()


def _made(settings: TlsSettings) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return server_context(settings), client_context(settings)


def _stamp(files: Sequence[Path]) -> Stamp:
    stamps = []
    for path in files:
        try:
            found = os.stat(path)
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


def _ends(paths: Sequence[Path]) -> list[tuple[Path, datetime]]:
    """Of files that can be read; one that cannot has no date."""
    found: list[tuple[Path, datetime]] = []
    for path in paths:
        try:
            found += [(path, end) for end in ends_of(path.read_text("ascii", "replace"))]
        except (OSError, BadCertificate) as error:
            log.warning("%s: %s", path, error)
    return found

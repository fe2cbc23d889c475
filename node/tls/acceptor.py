"""Takes connections that have something before the client's own bytes: a PROXY header, or TLS.

    acceptor = Acceptor(bound, make, keeper, proxies, timeout_s)
    acceptor.start()
    ...
    acceptor.close()

`make` gives the protocol of a connection whose TLS handshake is through; it learns where a proxy
says that the client is, or None. Each connection gets the context that the keeper has at that
moment. Limits: PROXY header and TLS handshake have `timeout_s` each, and UNREADY_MAX connections
are in them at a time; more wait in the backlog of the kernel. A connection whose descriptor the
node keeps for itself (`is_short`) is closed at once. What fails in them is logged, in one
line for each address and minute, and closes that connection alone. Owns the bound socket.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from node.tls.proxy_protocol import BadProxyHeader, Forwarded, ProxyHeader, TrustedProxies

log = logging.getLogger("warren.listener")

UNREADY_MAX: Final = 2048  # connections in PROXY header or handshake
ACCEPTED_MAX: Final = 64  # in one go of the loop
PAUSE_S: Final = 0.5  # when the process has no file descriptors left
SHUTDOWN_S: Final = 5.0  # for the other side to answer the end of TLS
TOLD_S: Final = 60.0  # between two lines about the same address
TOLD_MAX: Final = 1024

MakeProtocol = Callable[[Forwarded | None], asyncio.BaseProtocol]


class Contexts(Protocol):
    """The contexts that are good now (`node.tls.keeper.TlsKeeper`)."""

    @property
    def server(self) -> ssl.SSLContext: ...
    @property
    def client(self) -> ssl.SSLContext: ...


class Acceptor:
    """See the module. Invariant: `_unready` are the tasks of connections that are not made yet."""

    def __init__(
        self,
        bound: socket.socket,
        make: MakeProtocol,
        tls: Contexts | None,
        proxies: TrustedProxies | None = None,
        timeout_s: float = 5.0,
        is_short: Callable[[int], bool] = lambda descriptor: False,
    ) -> None:
        self.failed = 0  # connections that did not get through
        self._socket = bound
        self._make = make
        self._tls = tls
        self._proxies = proxies
        self._timeout_s = timeout_s
        self._is_short = is_short
        self._loop = asyncio.get_running_loop()
        self._unready: set[asyncio.Task[None]] = set()
        self._is_reading = False
        self._is_closed = False
        self._pause: asyncio.TimerHandle | None = None
        self._told: dict[str, float] = {}  # addresses in the log, and when

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """As those of an `asyncio.Server`."""
        return (self._socket,)

    def start(self) -> None:
        if not (self._is_reading or self._is_closed):
            self._is_reading = True
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Take no more; those that are not made yet end."""
        if self._is_closed:
            return
        self._stop_reading()
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        for task in self._unready:
            task.cancel()
        self._socket.close()

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _readable(self) -> None:
        for _ in range(ACCEPTED_MAX):
            if len(self._unready) >= UNREADY_MAX:
                self._stop_reading()  # Until one of them is through, or too late.
                return
            try:
                connection, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._cannot_accept(error)
                return
            if self._is_short(connection.fileno()):
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._take(connection, str(address[0])))
            self._unready.add(task)
            task.add_done_callback(self._is_through)

    def _cannot_accept(self, error: OSError) -> None:
        log.error("port %d: no connection can be taken: %s", self.port, error)
        self._stop_reading()
        self._pause = self._loop.call_later(PAUSE_S, self.start)

    def _is_through(self, task: asyncio.Task[None]) -> None:
        self._unready.discard(task)
        self.start()
        if not task.cancelled():
            task.result()  # It only ends by a fault of ours, which the loop then tells.

    async def _take(self, connection: socket.socket, host: str) -> None:
        is_taken = False
        try:
            forwarded = await self._forwarded(connection, host)
            await self._serve(connection, forwarded)
            is_taken = True
        except TimeoutError:
            self._tell(host, f"nothing came of it within {self._timeout_s:g} s")
        except (OSError, BadProxyHeader) as error:
            self._tell(host, _words(error))
        finally:
            if not is_taken:
                self.failed += 1
                connection.close()

    async def _forwarded(self, connection: socket.socket, host: str) -> Forwarded | None:
        """Read the PROXY header of a proxy that may send one."""
        if self._proxies is None or host not in self._proxies:
            return None
        header = ProxyHeader()
        async with asyncio.timeout(self._timeout_s):
            while (count := header.need()) > 0:
                read = await self._loop.sock_recv(connection, count)
                if not read:
                    raise BadProxyHeader("it closed before the end of the header")
                header.take(read)
        return header.source

    async def _serve(self, connection: socket.socket, forwarded: Forwarded | None) -> None:
        more: dict[str, Any] = {}
        if self._tls is not None:
            more = {
                "ssl": self._tls.server,
                "ssl_handshake_timeout": self._timeout_s,
                "ssl_shutdown_timeout": SHUTDOWN_S,
            }
        await self._loop.connect_accepted_socket(lambda: self._make(forwarded), connection, **more)

    def _tell(self, host: str, reason: str) -> None:
        now_s = self._loop.time()
        if now_s - self._told.get(host, -TOLD_S) < TOLD_S:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[host] = now_s
        log.warning("port %d: a connection from %s was closed: %s", self.port, host, reason)


def bound_socket(host: str, port: int, backlog: int, reuse_port: bool = False) -> socket.socket:
    """A socket that listens there; OSError if that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
        bound.listen(backlog)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def _words(error: Exception) -> str:
    """Why TLS or a PROXY header failed, without the library's own file names and numbers."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error) or "it went away"

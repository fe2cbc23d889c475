"""GET /ws: AMQP over WebSocket, on the management listener and on one of its own.

The path is that of RabbitMQ, the subprotocol `amqp` that of the AMQP WebSocket binding of OASIS.
Behind the opening handshake such a connection is one of AMQP 1.0 or 0-9-1 like any other: the same
login, limits and endpoints (`node.connections.web_socket`).
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web

from node.connections.listener import Greeting
from node.connections.web_socket import Socket, WebSocketTransport
from node.management.replies import ApiError

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.amqp_listeners import AmqpListeners
    from node.tls.certificate import LoginName

PATH: Final = "/ws"
SUBPROTOCOL: Final = "amqp"
ANY: Final = "*"
PORTS: Final = {"http": ":80", "https": ":443"}


class WebAmqp:
    """The resource. `listeners`: no client is let in while those are closed."""

    def __init__(self, broker: "Broker", listeners: "AmqpListeners") -> None:
        self._broker = broker
        self._listeners = listeners
        # A client may send as much in one message as in one frame of AMQP. The library refuses
        # a message of exactly its limit.
        section = broker.config.web_amqp
        self._message_bytes = max(section.max_message_bytes, broker.config.limits.frame_max) + 1

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self.connect)]

    async def connect(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), compress=False, max_msg_size=self._message_bytes
        )
        below = request.transport
        if not socket.can_prepare(request).ok or below is None:
            upgrade = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            reason = f"{PATH} takes WebSocket handshakes of version 13 alone (RFC 6455)"
            raise ApiError(426, "upgrade_required", reason, upgrade)
        self._check(request, below)
        await socket.prepare(request)
        greeting = Greeting(self._broker, login=self._login(below), is_web=True)
        await WebSocketTransport(as_socket(socket), below, greeting).run()
        return socket

    def _login(self, below: asyncio.Transport) -> "LoginName | None":
        """What of a client's certificate names the user; None: it came without TLS."""
        if below.get_extra_info("sslcontext") is None:
            return None
        from node.tls.tls_listeners import login_name_of

        return login_name_of(self._broker.config)

    def _check(self, request: web.Request, below: asyncio.Transport) -> None:
        """ApiError: the client is not let in."""
        origin = request.headers.get("Origin")
        allowed = self._broker.config.web_amqp.allowed_origins
        if origin is not None and not is_allowed(origin, request.headers.get("Host", ""), allowed):
            reason = f"origin '{origin}' is neither this host nor in web_amqp.allowed_origins"
            raise ApiError(403, "forbidden", reason)
        offered = request.headers.getall("Sec-WebSocket-Protocol", [])
        names = [name.strip() for each in offered for name in each.split(",")]
        if names and SUBPROTOCOL not in names:
            reason = f"no supported subprotocol in '{', '.join(names)}'; allowed: '{SUBPROTOCOL}'"
            raise ApiError.bad_request(reason)
        if not self._listeners.is_open:
            raise ApiError(503, "service_unavailable", "the node accepts no AMQP connections")
        if self._broker.descriptors.is_short(below):
            raise ApiError(503, "service_unavailable", "the node is out of file descriptors")


def as_socket(socket: web.WebSocketResponse) -> Socket:
    return socket


def is_allowed(origin: str, host: str, allowed: Sequence[str]) -> bool:
    """Whether a page of this origin may connect: one of this very host, or one that is named.

    A browser sends the origin of the page whatever the script does; other clients send none.
    """
    if ANY in allowed or origin.lower() in (each.lower().rstrip("/") for each in allowed):
        return True
    parts = urlsplit(origin)
    port = PORTS.get(parts.scheme, "")
    return bool(port) and parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)

"""GET /api/connections and /api/connections/{name}; DELETE closes one."""

from typing import Final

from aiohttp import web

from node.management.access import Context, caller_of, not_authorized
from node.management.listing import list_reply, sorted_in_slices
from node.management.replies import ApiError, json_reply
from node.management.view import ConnectionView

REASON_DEFAULT: Final = "Closed via management plugin"  # RabbitMQ's words; clients show them
REASON_LENGTH_MAX: Final = 200  # it travels in a short string, behind the name of the code


class Connections:
    """All connections for monitoring users; for others, their own."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/connections", self.every),
            web.get("/api/connections/{name}", self.one),
            web.delete("/api/connections/{name}", self.close),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        view = self._context.view

        def row_of(name: str) -> dict[str, object] | None:
            connection = view.connection(name)
            if connection is None or not (caller.is_monitor or connection.user == caller.name):
                return None
            return connection_row(connection)

        names = view.connection_names()
        if not caller.is_monitor:  # The counts of a page are of those that the caller sees.
            names = [name for name in names if row_of(name) is not None]
        return await list_reply(request, await sorted_in_slices(names, str), str, row_of)

    async def one(self, request: web.Request) -> web.Response:
        return json_reply(connection_row(self._asked(request)))

    async def close(self, request: web.Request) -> web.Response:
        connection = self._asked(request)
        caller = caller_of(request)
        if not caller.is_administrator and connection.user != caller.name:
            raise not_authorized("Not administrator user")
        reason = request.headers.get("X-Reason", REASON_DEFAULT)[:REASON_LENGTH_MAX]
        if not self._context.view.close_connection(connection.name, reason):
            raise ApiError.not_found()
        return web.Response(status=204)

    def _asked(self, request: web.Request) -> ConnectionView:
        """The connection in the path, if there is one and the caller may see it."""
        caller = caller_of(request)
        connection = self._context.view.connection(request.match_info["name"])
        if connection is None:
            raise ApiError.not_found()
        if not caller.is_monitor and connection.user != caller.name:
            raise not_authorized("User not authorised to access object")
        return connection


def connection_row(connection: ConnectionView) -> dict[str, object]:
    return {
        "name": connection.name,
        "user_provided_name": connection.client_properties.get("connection_name"),
        "node": connection.node,
        "user": connection.user,
        "vhost": connection.vhost,
        "protocol": connection.protocol,
        "state": connection.state,
        "host": connection.host,
        "port": connection.port,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
        "channels": connection.channels,
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "auth_mechanism": connection.mechanism,
        "ssl": connection.tls,
        "connected_at": connection.connected_at_ms,
        "client_properties": connection.client_properties,
        "recv_oct": connection.received_bytes,
        "recv_cnt": connection.received_frames,
        "send_oct": connection.sent_bytes,
        "send_cnt": connection.sent_frames,
        "send_pend": connection.pending_bytes,
    }

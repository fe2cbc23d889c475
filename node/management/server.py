"""The management listener: HTTP with JSON on its own port, for operators and their tools.

    server = ManagementServer(Context(view, access, logins, operations))
    port = await server.start("127.0.0.1", 15672)
    ...
    await server.stop()

Every path under /api needs a login; `/` is the web page. No task outlives its request but the
listener's own. This module imports aiohttp, which takes a tenth of a second or more: a node imports
it in a thread, and not before it is ready (`node.management.management_front`).
"""

import asyncio
import logging
import re
from collections.abc import Callable
from socket import socket
from typing import Final, Protocol, cast
from urllib.parse import unquote_to_bytes

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from node.auth.asked_access import Undecided
from node.events.authors import HTTP, REQUESTED_BY, Author
from node.management.access import CALLER, Context, identify
from node.management.api.addresses import Addresses
from node.management.api.bindings import Bindings
from node.management.api.channels import Channels
from node.management.api.connections import Connections
from node.management.api.consumers import Consumers
from node.management.api.definitions import DefinitionFiles
from node.management.api.exchanges import Exchanges
from node.management.api.federation_links import FederationLinks
from node.management.api.leases import LeaseLists
from node.management.api.limits import Limits
from node.management.api.messages import Messages
from node.management.api.openapi import OpenApi
from node.management.api.operations.cluster import ClusterOperations
from node.management.api.operations.controls import Controls
from node.management.api.operations.events import EventStreams
from node.management.api.operations.features import Features
from node.management.api.operations.flow import Flow
from node.management.api.operations.health import Health
from node.management.api.operations.log_levels import LogLevels
from node.management.api.operations.node_details import NodeDetails
from node.management.api.operations.nodes import Nodes
from node.management.api.operations.overview import Overview
from node.management.api.operations.placement import Placement
from node.management.api.parameters import Parameters
from node.management.api.permissions import Permissions
from node.management.api.policies import Policies
from node.management.api.queue_messages import Letters
from node.management.api.queues import Queues
from node.management.api.security import Security
from node.management.api.shovels import Shovels
from node.management.api.standby import Standbys
from node.management.api.streams import StreamClients
from node.management.api.users import Users
from node.management.api.vhosts import Vhosts
from node.management.assets import REFERENCE, Assets
from node.management.auditing import AUDIT, audit_changes
from node.management.bodies import BODY_BYTES_MAX
from node.management.metrics.scraping import Metrics
from node.management.replies import ApiError
from node.tls.acceptor import Acceptor, Contexts

LOG: Final = logging.getLogger("warren.management")

CLIENT_LEFT: Final = 499  # as nginx logs it; no client reads it
STOP_SECONDS: Final = 2.0  # for requests under way when the listener stops
STALE: Final = '110 - "Response is Stale"'  # the header Warning (RFC 7234, 5.5.1)
IDLE_SECONDS: Final = 60.0
HOLE: Final = re.compile(r"\{([a-z_]+)\}")
SECRET_HOLES: Final = frozenset({"password"})  # of paths: never in a log
NAMES: Final = {413: "payload_too_large"}  # of errors that the library raises
CONTEXT: Final = web.AppKey("context", Context)


class Resource(Protocol):
    """Some paths of the API."""

    def routes(self) -> list[web.RouteDef]: ...


def make_app(context: Context) -> web.Application:
    """The application with all its resources."""
    app = web.Application(
        middlewares=[answer_errors, audit_changes, require_login], client_max_size=BODY_BYTES_MAX
    )
    app[CONTEXT] = context
    if context.audit is not None:
        app[AUDIT] = context.audit
    resources: tuple[Resource, ...] = (
        Overview(context),
        OpenApi(context),
        Placement(context),
        Features(context),
        Nodes(context),
        Queues(context),
        Connections(context),
        Channels(context),
        Consumers(context),
        StreamClients(context),
        Exchanges(context),
        Bindings(context),
        Vhosts(context),
        Users(context),
        Permissions(context),
        Policies(context),
        Policies(context, operator=True),
        Parameters(context),
        Limits(context),
        Messages(context),
        Letters(context),
        DefinitionFiles(context),
        Health(context),
        Flow(context),
        Addresses(context),
        Metrics(context),
        Security(context),
        Assets(),
        *of_running(context),
    )
    for resource in resources:
        routes = with_any_name(resource.routes())
        app.add_routes(routes)
        app.add_routes(slashed(routes))
    if context.feed is not None:
        app.on_shutdown.append(end_streams)
    return app


def of_running(context: Context) -> tuple[Resource, ...]:
    """What only a node that runs has."""
    found: list[Resource] = []
    if context.cluster is not None:
        found += (
            ClusterOperations(context, context.cluster),
            LogLevels(context, context.cluster),
            NodeDetails(context, context.cluster),
        )
    if context.links is not None:
        found.append(Shovels(context, context.links))
        found.append(FederationLinks(context, context.links))
        found.append(Standbys(context, context.links.standbys))
    if context.leases is not None:
        found.append(LeaseLists(context, context.leases))
    if context.controls is not None:
        found.append(Controls(context, context.controls))
    if context.feed is not None:
        found.append(EventStreams(context, context.feed))
    config = context.config
    if context.web_amqp is not None and config is not None and config.web_amqp.enabled:
        found.append(context.web_amqp)
    return tuple(found)


async def end_streams(app: web.Application) -> None:
    """Or else the listener waits for them."""
    feed = app[CONTEXT].feed
    if feed is not None:
        feed.close()


def make_metrics_app(context: Context) -> web.Application:
    """Metrics alone, for a listener of their own."""
    app = web.Application(middlewares=[answer_errors])
    app[CONTEXT] = context
    app.add_routes(Metrics(context, is_open=True).routes())
    return app


def make_web_amqp_app(context: Context) -> web.Application:
    """AMQP over WebSocket alone, for a listener of its own."""
    assert context.web_amqp is not None
    app = web.Application(middlewares=[answer_errors])
    app.add_routes(context.web_amqp.routes())
    return app


def with_any_name(routes: list[web.RouteDef]) -> list[web.RouteDef]:
    """The same routes for names with braces in them, too, which the library takes for its own."""
    return [
        web.RouteDef(each.method, HOLE.sub(r"{\1:[^/]+}", each.path), each.handler, each.kwargs)
        for each in routes
    ]


def slashed(routes: list[web.RouteDef]) -> list[web.RouteDef]:
    """The same paths with a slash at their end, as some clients write them."""
    return [
        web.RouteDef(each.method, each.path + "/", each.handler, each.kwargs)
        for each in routes
        if each.path.startswith("/api/")
    ]


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error leaves as JSON. The outermost of a request: here a fault of ours is logged."""
    try:
        check_encoding(request)
        return await handler(request)
    except ApiError as error:
        if error.log_text:
            LOG.warning("%s from %s", error.log_text, request.remote)
        return error.reply()
    except web.HTTPNotFound:
        return ApiError.not_found().reply()
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        reason = f"{error.method} is not one of {allowed}"
        return ApiError(405, "method_not_allowed", reason, {"Allow": allowed}).reply()
    except web.HTTPException as error:
        name = NAMES.get(error.status, "bad_request")
        return ApiError(error.status, name, error.reason).reply()
    except ConnectionError:  # The client has left; aiohttp drops what is answered.
        LOG.debug("%s %s: the client has left", request.method, path_for_log(request))
        return web.Response(status=CLIENT_LEFT)
    except Exception:
        LOG.exception("%s %s failed", request.method, path_for_log(request))
        return ApiError(500, "internal_error", "Internal Server Error").reply()


def path_for_log(request: web.Request) -> str:
    """The path, or, where a password is in it, that of the route."""
    resource = request.match_info.route.resource
    if resource is None or not SECRET_HOLES.intersection(request.match_info):
        return request.path
    return resource.canonical


def check_encoding(request: web.Request) -> None:
    """Refuse a path or a query that is not UTF-8: no name could be told from it."""
    raw = request.raw_path
    if "%" in raw or not raw.isascii():
        try:
            unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ApiError.bad_request("the path is not UTF-8") from error


@web.middleware
async def require_login(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Put the caller into the request, or end it with 401; mark what may be stale. /metrics
    looks after itself, and the files of the page need no login."""
    if request.path.startswith("/api/") and request.path != REFERENCE:
        caller = request[CALLER] = await identify(request.app[CONTEXT], request)
        REQUESTED_BY.set(Author(caller.name, request.remote or "", HTTP))
    answer = await decided(request, handler)
    if request.app[CONTEXT].view.is_stale() and not answer.prepared:
        answer.headers["Warning"] = STALE
    return answer


async def decided(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The answer; a handler that needs a permission which is not known runs again with it. None has
    changed anything by then."""
    while True:
        try:
            return await handler(request)
        except Undecided as undecided:
            await undecided.wait()


def in_one_line(record: logging.LogRecord) -> bool:
    """A request that is no HTTP is no fault of ours: the library logs a trace for each."""
    error = None if record.exc_info is None else record.exc_info[1]
    if isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
        record.msg, record.args = "%s: %s", (record.getMessage(), type(error).__name__)
        record.exc_info = None
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


IsShort = Callable[[asyncio.Transport], bool]


class Entrance(asyncio.Protocol):
    """Closes a new connection for which the node has no descriptor to spare."""

    def __init__(self, make: Callable[[], asyncio.Protocol], is_short: IsShort) -> None:
        self._make = make
        self._is_short = is_short

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        if self._is_short(accepted):
            accepted.abort()
            return
        protocol = self._make()
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)


class ManagementServer:
    """An application on a port."""

    def __init__(
        self,
        context: Context,
        make: Callable[[Context], web.Application] = make_app,
        is_short: IsShort = lambda transport: False,
    ) -> None:
        self._is_short = is_short
        self._servers: list[asyncio.Server] = []  # of ports without TLS
        self._acceptors: list[Acceptor] = []  # of ports with TLS
        logging.getLogger("aiohttp.server").addFilter(in_one_line)
        self._runner = web.AppRunner(
            make(context),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )

    async def start(self, host: str, port: int) -> int:
        """Listen; OSError if that cannot be. Returns the port, which the system chose for 0."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address = self._runner.addresses[0]
        return int(address[1])

    async def serve(
        self,
        bound: socket,
        tls: Contexts | None = None,
        handshake_s: float = 5.0,
        is_short: Callable[[int], bool] = lambda descriptor: False,
    ) -> None:
        """Listen on a socket that is bound already; called for each of them. `is_short` says
        whether the node needs that descriptor itself, before TLS."""
        if self._runner.server is None:
            await self._runner.setup()
        if tls is None:
            loop = asyncio.get_running_loop()
            self._servers.append(await loop.create_server(self._connection, sock=bound))
            return
        acceptor = Acceptor(bound, self._connection, tls, None, handshake_s, is_short)
        self._acceptors.append(acceptor)
        acceptor.start()

    def _connection(self, forwarded: object = None) -> asyncio.BaseProtocol:
        assert self._runner.server is not None
        return Entrance(self._runner.server, self._is_short)

    async def stop(self) -> None:
        """Close the listeners and their connections."""
        for server in self._servers:
            server.close()
        for acceptor in self._acceptors:
            acceptor.close()
        await self._runner.cleanup()

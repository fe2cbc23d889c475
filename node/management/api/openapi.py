"""GET /api/openapi.json: the OpenAPI document of the routes that this node has.

The entries (`node.management.schema`) are imported, and the document made, in a thread when a
client
first asks for it; its bytes are kept.
"""

import asyncio
from collections.abc import Iterator

from aiohttp import web

from node.management.access import Context
from node.management.assets import REFERENCE
from node.management.replies import HEADERS


class OpenApi:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._document: bytes | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/openapi.json", self.get)]

    async def get(self, request: web.Request) -> web.Response:
        if self._document is None:
            version = self._context.view.node().version
            routes = list(routes_of(request.app))
            self._document = await asyncio.to_thread(made, routes, version)
        return web.Response(body=self._document, headers=HEADERS)


def routes_of(app: web.Application) -> Iterator[tuple[str, str]]:
    """Method and path of all that is under /api; each once, without a slash at its end."""
    for route in app.router.routes():
        if route.resource is not None and route.method != "HEAD":
            path = route.resource.canonical
            if path.startswith("/api/") and path != REFERENCE and not path.endswith("/"):
                yield route.method, path


def made(routes: list[tuple[str, str]], version: str) -> bytes:
    """Runs in a thread."""
    from node.management.schema.document import document

    return document(routes, version)

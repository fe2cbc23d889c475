"""The web page: GET / and the files that it is made of, each read when it is first asked for.

Static files need no login; what they show, they fetch from /api with the caller's own. No request
leaves the node's own address, and no script runs that is not one of these files (the policy in
CONTENT_POLICY): names that clients have chosen can do nothing on the page. A node whose page no
client opens keeps the names of the files and nothing else.
"""

import asyncio
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
INDEX: Final = "index.html"
REFERENCE: Final = "/api/index.html"  # where RabbitMQ has the document of its API


class Asset:
    """One file as it is sent. Invariant: `_etag` belongs to `_body`; both are empty until asked."""

    def __init__(self, file: Traversable) -> None:
        self.name = file.name
        self._file = file
        self._body = b""
        self._etag = ""
        self._type = TYPES[file.name.rpartition(".")[2]]

    async def get(self, request: web.Request) -> web.Response:
        """The file, or 304 if the browser has it."""
        if not self._etag:
            body = await asyncio.to_thread(self._file.read_bytes)
            self._body, self._etag = body, sha256(body).hexdigest()[:16]
        headers = {
            "Content-Security-Policy": CONTENT_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
            "ETag": f'"{self._etag}"',
        }
        known = request.if_none_match or ()
        if any(etag.value == self._etag for etag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(
            body=self._body, content_type=self._type, charset="utf-8", headers=headers
        )


class Assets:
    """All files of the page."""

    def __init__(self) -> None:
        folder = files("node.management") / "page"
        self._assets = [
            Asset(entry)
            for entry in sorted(folder.iterdir(), key=lambda each: each.name)
            if entry.name.rpartition(".")[2] in TYPES
        ]

    def routes(self) -> list[web.RouteDef]:
        found = [web.get(f"/{asset.name}", asset.get) for asset in self._assets]
        (index,) = [asset for asset in self._assets if asset.name == INDEX]
        return [web.get("/", index.get), web.get(REFERENCE, to_reference), *found]


async def to_reference(request: web.Request) -> web.Response:
    """The view of the page that shows the document."""
    return web.Response(status=302, headers={"Location": "../#/api"})

"""The primary of a standby, over its HTTP API. Not compiled.

PrimaryFailed: it cannot be asked; the text says why, without credentials. Questions are those of
`node.standby.questions`, answers are MessagePack (`node.management.api.standby`).
"""

from asyncio import timeout
from collections.abc import Mapping
from random import choice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from federation.ends import SideFailed, tls_of
from federation.running import reason_of
from federation.standby_parameter import StandbyConfig, parse_http_uri
from federation.uris import BadUri, Uri, without_credentials
from node.standby.questions import Question
from node.standby.stored_runs import Runs, StoredRun

if TYPE_CHECKING:
    from aiohttp import ClientSession

TIMEOUT_S: Final = 30.0
PROBE_S: Final = 2.0
REASON_MAX: Final = 300


class PrimaryFailed(Exception):
    """See the module."""


class PrimaryClient:
    """One address of the primary at a time; another one, if there are several, after a failure."""

    def __init__(self, config: StandbyConfig) -> None:
        self._config = config
        self._session: ClientSession | None = None
        self._uri: Uri | None = None
        self.shown = ""  # the address that is used, without credentials

    async def definitions(self, known: bytes) -> tuple[bytes, dict[str, Any] | None]:
        """Their digest, and the rows; None: the digest is the known one."""
        digest, rows = await self._ask(Question("definitions", (known,)))
        return digest, rows

    async def state(self, known: Mapping[str, bytes]) -> list[Any]:
        """See `Feed.state`."""
        return list(await self._ask(Question("state", (), known)))

    async def messages(self, uid: int, runs: Runs) -> list[StoredRun]:
        return [StoredRun(*each) for each in await self._ask(Question("messages", (uid, runs)))]

    async def digests(self, uid: int, runs: Runs) -> dict[int, bytes]:
        return dict(await self._ask(Question("digests", (uid, runs))))

    async def answers(self) -> bool:
        """Whether the primary serves the vhost now."""
        try:
            async with timeout(PROBE_S):
                await self._ask(Question("state", ()))
        except (PrimaryFailed, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, question: Question) -> Any:
        from aiohttp import ClientError

        try:
            session, uri = self._opened()
            scheme = "https" if uri.tls else "http"
            host = f"[{uri.host}]" if ":" in uri.host else uri.host
            vhost = quote(self._config.vhost, safe="")
            path = f"{scheme}://{host}:{uri.port}/api/vhosts/{vhost}/standby-feed"
            body = question.encode()
            async with session.post(encoded_url(path), data=body) as answer:
                content = await answer.read()
                status = answer.status
        except (ClientError, OSError, BadUri, SideFailed) as error:
            await self.close()
            refused = getattr(error, "os_error", error)  # of the library: it names the address
            raise PrimaryFailed(reason_of(refused)) from error
        if status != 200:
            raise PrimaryFailed(_refusal(status, content))
        try:
            return msgspec.msgpack.decode(content)
        except msgspec.DecodeError as error:
            raise PrimaryFailed("the answer is no MessagePack: is it another version?") from error

    def _opened(self) -> "tuple[ClientSession, Uri]":
        if self._session is None or self._uri is None:
            from aiohttp import BasicAuth, ClientSession, ClientTimeout, TCPConnector

            text = choice(self._config.uris)
            self.shown = without_credentials(text)
            uri = self._uri = parse_http_uri(text)
            self._session = ClientSession(
                connector=TCPConnector(ssl=tls_of(uri) if uri.tls else True),
                auth=BasicAuth(uri.user, uri.password, "utf-8"),
                timeout=ClientTimeout(total=TIMEOUT_S),
            )
        return self._session, self._uri


def encoded_url(path: str) -> Any:
    """The path as it is: a vhost with a slash must stay encoded."""
    from yarl import URL

    return URL(path, encoded=True)


def _refusal(status: int, content: bytes) -> str:
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        found = None
    reason = found.get("reason", "") if isinstance(found, dict) else ""
    return f"the primary answers with status {status}: {reason}"[:REASON_MAX]

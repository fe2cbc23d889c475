"""The back end `http`: a service checks passwords, asked as by RabbitMQ's
rabbitmq_auth_backend_http, and says what users may.

A request has fields, as a form or in the query: of a login `username` and `password`, else those of
the question. The answer is text: `allow`, of a login perhaps with tags behind it (`allow
administrator management`), or `deny`, perhaps with a reason. Anything else, and any status but 200
and 201, means that the service cannot be asked. Redirects are not followed.
"""

import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from node.auth.back_ends import BackEndDown, BackEndsUnavailable
from node.auth.grants import Rights
from node.auth.login import on_one_line

if TYPE_CHECKING:
    from aiohttp import ClientSession, StreamReader

    from node.auth.asked_access import Question
    from node.config.config_back_ends import AuthHttpSection

ANSWER_BYTES_MAX: Final = 4096
ALLOW: Final = "allow"
DENY: Final = "deny"


class HttpBackEnd:
    """See the module."""

    name = "http"

    def __init__(self, section: "AuthHttpSection") -> None:
        """BackEndsUnavailable: a file with certificates cannot be used."""
        self._section = section
        self._session: ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._paths = {
            "vhost": section.vhost_path,
            "resource": section.resource_path,
            "topic": section.topic_path,
        }
        if any(each.startswith("https:") for each in (section.user_path, *self._paths.values())):
            self._tls = _context(section)

    async def authenticate(self, user: str, password: bytes) -> Rights | None:
        try:
            fields = {"username": user, "password": password.decode()}
        except UnicodeDecodeError:
            return None  # It could not be told to the service as it is.
        answer = await self._ask(self._section.user_path, fields)
        return None if answer is None else Rights(tuple(dict.fromkeys(answer.split())))

    async def may(self, question: "Question") -> bool:
        """What it says of one permission. BackEndDown: it cannot be asked now."""
        return await self._ask(self._paths[question.about], dict(question.fields)) is not None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _ask(self, path: str, fields: dict[str, str]) -> str | None:
        """What stands behind `allow`; None: it denies."""
        from aiohttp import ClientError

        is_post = self._section.http_method == "post"
        asking = self._opened().request(
            self._section.http_method,
            path,
            data=fields if is_post else None,
            params=None if is_post else fields,
            allow_redirects=False,
        )
        try:
            async with asking as answer:
                content = await read_at_most(answer.content, ANSWER_BYTES_MAX + 1)
                status = answer.status
        except (ClientError, OSError) as error:
            text = on_one_line(str(error)) or type(error).__name__
            raise BackEndDown(f"{_shown(path)}: {text}") from error
        return _parsed(path, status, content)

    def _opened(self) -> "ClientSession":
        """Made on the loop, with the first request."""
        if self._session is None:
            from aiohttp import ClientSession, ClientTimeout, TCPConnector

            connector = TCPConnector(limit=self._section.requests_max, ssl=self._tls or True)
            # The time limit is that of the whole request, which those who ask keep.
            self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=None))
        return self._session


async def read_at_most(content: "StreamReader", count: int) -> bytes:
    """The first bytes, up to the end: one `read` gives what has come so far."""
    found = b""
    while len(found) < count and (more := await content.read(count - len(found))):
        found += more
    return found


def _parsed(path: str, status: int, content: bytes) -> str | None:
    if status not in (200, 201):
        raise BackEndDown(f"{_shown(path)} answers with status {status}")
    if len(content) > ANSWER_BYTES_MAX:
        raise BackEndDown(f"{_shown(path)} answers with more than {ANSWER_BYTES_MAX} bytes")
    text = content.decode("utf-8", "replace").strip().lower()
    verdict, _, rest = text.partition(" ")
    if verdict == ALLOW:
        return rest
    if verdict == DENY:
        return None
    shown = on_one_line(text[:80])
    raise BackEndDown(f"{_shown(path)} answers '{shown}'; allowed: allow, allow TAG ..., deny")


def _shown(path: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(path)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _context(section: "AuthHttpSection") -> ssl.SSLContext:
    where = f"auth_http.cacertfile = {section.cacertfile}"
    try:
        cafile = None if section.cacertfile is None else str(section.cacertfile)
        context = ssl.create_default_context(cafile=cafile)
        if section.certfile is not None and section.keyfile is not None:
            where = f"auth_http.certfile = {section.certfile}"
            context.load_cert_chain(section.certfile, section.keyfile)
    except (OSError, ssl.SSLError) as error:
        raise BackEndsUnavailable(f"{where}: {error}") from error
    return context

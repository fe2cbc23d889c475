"""Requests that may change something, noted in the audit log (`node.events.audit`) with how they
went.

Between the answers to errors and the login: what is refused without a login is logged
by the login. Not noted are requests that read (those of a standby too), tries of a login, and
publishes, which are messages and no changes.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from node.events.audit import Audit
from node.events.authors import HTTP, Author
from node.management.access import CALLER, LOGIN_PATH
from node.management.replies import ApiError

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
UNNOTED: Final = ("/publish", "/standby-feed", LOGIN_PATH)  # how paths end
PATH_MAX: Final = 500
NOTED: Final = web.RequestKey("noted", str)  # what its handler has to add to the outcome
AUDIT: Final = web.AppKey("audit", Audit)


@web.middleware
async def audit_changes(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note the request once its outcome is known."""
    audit = request.app.get(AUDIT)
    if audit is None or request.method in READING or request.path.rstrip("/").endswith(UNNOTED):
        return await handler(request)
    try:
        answer = await handler(request)
    except ApiError as error:
        note(audit, request, f"{error.status} {error.reason}")
        raise
    except web.HTTPException as error:
        note(audit, request, str(error.status))
        raise
    more = request.get(NOTED)
    note(audit, request, f"{answer.status}: {more}" if more else str(answer.status))
    return answer


def note(audit: Audit, request: web.Request, outcome: str) -> None:
    caller = request.get(CALLER)
    if caller is not None:
        author = Author(caller.name, request.remote or "", HTTP)
        audit.requested(author, request.method, request.rel_url.raw_path[:PATH_MAX], outcome)

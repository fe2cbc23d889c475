"""What operators ask about logins, certificates and the configuration.

GET and DELETE /api/auth/attempts/{node}, and /source: logins by protocol, and by address and user
where `auth.track_attempt_source` is set. POST /api/auth/hash_password: a hash for a definitions
file, without a password in a path. GET /api/config/effective: what is in force, secrets hidden.
GET /api/health/checks/certificate-expiration/{within}/{unit}: the certificates of this node.
"""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Final, get_args

from aiohttp import web

from node.auth.passwords import DEFAULT_HASHING, SALT_BYTES, Hashing, hash_password
from node.cluster.services.status_channel import NoAnswer
from node.config.config_view import shown
from node.management.access import Context, caller_of
from node.management.bodies import Body, read_body, text
from node.management.replies import ApiError, json_reply
from node.management.rows.attempt_rows import ATTEMPTS, attempt_rows
from node.tls.keeper import TlsKeeper

UNIT_DAYS: Final = {"days": 1.0, "weeks": 7.0, "months": 365 / 12, "years": 365.0}
WITHIN_MAX: Final = 100_000
# Settings of listeners, and the protocols that nodes name them by.
PROTOCOLS: Final = {
    "listeners.amqps": "amqp/ssl",
    "listeners.management_tls": "https",
    "cluster.tls": "clustering",
}


class Security:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        attempts = "/api/auth/attempts/{node}"
        return [
            web.get(attempts, self.attempts),
            web.get(f"{attempts}/source", self.attempts),
            web.delete(attempts, self.reset),
            web.delete(f"{attempts}/source", self.reset),
            web.post("/api/auth/hash_password", self.hash_password),
            web.get("/api/config/effective", self.effective),
            web.get("/api/health/checks/certificate-expiration/{within}/{unit}", self.expiration),
        ]

    # Logins

    async def attempts(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        kind = "source" if request.path.rstrip("/").endswith("/source") else "protocol"
        return json_reply(await self._of_node(request.match_info["node"], kind))

    async def reset(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        await self._of_node(request.match_info["node"], "reset")
        return web.Response(status=204)

    async def _of_node(self, name: str, what: str) -> list[Body]:
        """This node's, or another one's as it says itself."""
        if name == self._context.view.node().name:
            return self._rows(what)
        cluster = self._context.cluster
        member = None if cluster is None else cluster.operating.cluster_snapshot.member_named(name)
        if cluster is None or member is None:
            raise ApiError.not_found()
        try:
            (rows,) = await cluster.operating.status.ask(member.id, ATTEMPTS, what)
        except NoAnswer as error:
            raise ApiError(503, "no_answer", f"node {name}: {error}") from error
        found: list[Body] = rows
        return found

    def _rows(self, what: str) -> list[Body]:
        return attempt_rows(self._context.logins.log, what)

    async def hash_password(self, request: web.Request) -> web.Response:
        """By default of the kind that every RabbitMQ reads."""
        caller_of(request)
        body = await read_body(request, "password")
        password = text(body, "password")
        asked = body.get("hashing_algorithm", DEFAULT_HASHING)
        for known in get_args(Hashing):
            if known == asked:
                salt = os.urandom(SALT_BYTES)
                hashed = await asyncio.to_thread(hash_password, password, known, salt)
                return json_reply({"ok": hashed})
        raise ApiError.bad_request(f"unknown hashing_algorithm: {asked}")

    # Configuration and certificates

    async def effective(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        config = self._context.config
        if config is None:
            raise ApiError.not_found()
        return json_reply(shown(config))

    async def expiration(self, request: web.Request) -> web.Response:
        """200, or 503 with the listeners whose certificates end within that time."""
        limit = datetime.now(UTC) + asked_time(request)
        rows = [
            row
            for name, keeper in self._context.keepers.items()
            if (row := await self._expiring(name, keeper, limit)) is not None
        ]
        if not rows:
            return json_reply({"status": "ok"})
        body = {"status": "failed", "reason": "Certificates expiring", "expired": rows}
        return json_reply(body, 503)

    async def _expiring(self, name: str, keeper: TlsKeeper, limit: datetime) -> Body | None:
        ends = [(path, end) for path, end in await keeper.ends() if end < limit]
        if not ends:
            return None
        settings, protocol = keeper.settings, PROTOCOLS[name]
        node = self._context.view.node()
        listeners = [each for each in node.listeners if each.protocol == protocol]
        return {
            "node": node.name,
            "protocol": protocol,
            "interface": listeners[0].host if listeners else "",
            "port": listeners[0].port if listeners else 0,
            "certfile": str(settings.certfile),
            "cacertfile": str(settings.cacertfile or ""),
            "certfile_expires_on": [_date(end) for path, end in ends if path == settings.certfile],
            "cacertfile_expires_on": [
                _date(end) for path, end in ends if path != settings.certfile
            ],
        }


def asked_time(request: web.Request) -> timedelta:
    """So many days, weeks, months or years; ApiError 400 for anything else."""
    within, unit = request.match_info["within"], request.match_info["unit"].lower()
    if not (within.isascii() and within.isdigit() and int(within[:9]) <= WITHIN_MAX):
        raise ApiError.bad_request("Invalid expiration value.")
    if unit not in UNIT_DAYS:
        raise ApiError.bad_request(
            "Time unit not recognised. Supported units: days, weeks, months, years."
        )
    return timedelta(days=min(int(within[:9]) * UNIT_DAYS[unit], 365_000))


def _date(end: datetime) -> str:
    return end.strftime("%Y-%m-%d %H:%M:%S")

"""GET /api/health/checks/...: 200 `{"status": "ok"}`, or 503 with the reason."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from node.auth.permissions import READ
from node.definitions.definition_changes import queue_declaration
from node.management.access import Context, asked_vhosts
from node.management.bodies import expression
from node.management.changes import acting, change, refused
from node.management.replies import ApiError, json_reply
from node.management.rows.node_rows import alarms_of
from queues.machine.commands import ACCEPT
from warren.wire.errors import ProtocolError

CHECKS: Final = "/api/health/checks"
ALIVENESS: Final = "aliveness-test"
LEADERLESS: Final = "quorum-queues-without-elected-leaders"
LEADERLESS_PATHS: Final = (
    "all-vhosts",
    "all-vhosts/pattern/{pattern}",
    "vhost/{vhost}",
    "vhost/{vhost}/pattern/{pattern}",
)
EMPTY_PROPERTIES: Final = b"\x00\x00"
# Names under which clients ask for the protocol of a listener.
PROTOCOL_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1", "amqp-0-9-1"), "amqp"),
    **dict.fromkeys(("amqp10", "amqp1.0", "amqp1-0", "amqp1_0", "amqp-1-0"), "amqp"),
    "amqps": "amqp/ssl",
    **dict.fromkeys(("http1", "http1.1", "http_api", "management", "management_ui", "ui"), "http"),
    **dict.fromkeys(("cli", "distribution"), "clustering"),
}


class Health:
    """Checks for load balancers and deployment tools."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(f"{CHECKS}/alarms", self.alarms),
            web.get(f"{CHECKS}/local-alarms", self.local_alarms),
            web.get(f"{CHECKS}/is-in-service", self.is_in_service),
            web.get(f"{CHECKS}/ready-to-serve-clients", self.ready_to_serve_clients),
            web.get(f"{CHECKS}/port-listener/{{port}}", self.port_listener),
            web.get(f"{CHECKS}/protocol-listener/{{protocol}}", self.protocol_listener),
            web.get(f"{CHECKS}/virtual-hosts", self.virtual_hosts),
            web.get(f"{CHECKS}/local-crashed-queues", self.crashed_queues),
            web.get(f"{CHECKS}/below-node-connection-limit", self.connection_limit),
            web.get(f"{CHECKS}/metadata-store/initialized", self.metadata_store),
            web.get(f"{CHECKS}/metadata-store/initialized/with-data", self.metadata_store),
            web.get(f"{CHECKS}/node-is-quorum-critical", self.quorum_critical),
            web.get(f"{CHECKS}/node-is-mirror-sync-critical", self.mirror_critical),
            *(
                web.get(f"{CHECKS}/{LEADERLESS}/{path}", self.leaderless)
                for path in LEADERLESS_PATHS
            ),
            web.get(f"{CHECKS}/reached-target-cluster-size", self.cluster_size),
            web.get("/api/aliveness-test/{vhost}", self.aliveness),
            web.get("/api/healthchecks/node", self.node),
            web.get("/api/healthchecks/node/{node}", self.node),
        ]

    async def alarms(self, request: web.Request) -> web.Response:
        cluster = self._context.cluster
        if cluster is None:
            return self._alarms("There are alarms in effect in the cluster")
        alarms = cluster.alarms()
        return (
            _failed("There are alarms in effect in the cluster", alarms=alarms) if alarms else _ok()
        )

    async def local_alarms(self, request: web.Request) -> web.Response:
        return self._alarms("There are alarms in effect on the node")

    def _alarms(self, reason: str) -> web.Response:
        alarms = alarms_of(self._context.view.node())
        return _failed(reason, alarms=alarms) if alarms else _ok()

    async def is_in_service(self, request: web.Request) -> web.Response:
        if not self._context.view.node().in_service:
            return _failed("this node is not in service")
        return _ok()

    async def ready_to_serve_clients(self, request: web.Request) -> web.Response:
        node = self._context.view.node()
        if not node.in_service:
            return _failed("this node is not in service")
        if not any(each.protocol.startswith("amqp") for each in node.listeners):
            return _failed("No active listener", missing="amqp")
        return _ok()

    async def port_listener(self, request: web.Request) -> web.Response:
        text = request.match_info["port"]
        if not (text.isascii() and text.isdigit() and len(text) <= 5):
            raise ApiError.bad_request(f"not a port: {text[:20]}")
        ports = sorted({each.port for each in self._context.view.node().listeners})
        if int(text) not in ports:
            return _failed("No active listener", missing=int(text), ports=ports)
        return _ok(port=int(text))

    async def protocol_listener(self, request: web.Request) -> web.Response:
        asked = request.match_info["protocol"]
        protocols = sorted({each.protocol for each in self._context.view.node().listeners})
        if PROTOCOL_NAMES.get(asked.lower(), asked.lower()) not in protocols:
            return _failed("No active listener", missing=asked, protocols=protocols)
        return _ok(protocol=asked)

    async def virtual_hosts(self, request: web.Request) -> web.Response:
        down = [each.name for each in self._context.view.vhosts() if not each.running]
        if down:
            return _failed("Some virtual hosts are down", **{"virtual-hosts": down})
        return _ok()

    async def crashed_queues(self, request: web.Request) -> web.Response:
        crashed = self._context.view.node().crashed_queues
        if crashed:
            queues = [{"vhost": vhost, "name": name} for vhost, name in crashed]
            return _failed("There are queues that the log does not hold whole", queues=queues)
        return _ok()

    async def connection_limit(self, request: web.Request) -> web.Response:
        node, limit = self._context.view.node(), self._context.view.node().connection_max
        open_now = self._context.view.totals().connections
        if 0 <= limit <= open_now:
            return _failed(
                "node connection limit is reached",
                limit=limit,
                connections=open_now,
                node=node.name,
            )
        return _ok(limit=limit if limit >= 0 else "infinity", connections=open_now)

    async def node(self, request: web.Request) -> web.Response:
        """RabbitMQ's old check of a node: in service, no alarm, virtual hosts up. Of another node:
        whether it runs."""
        here = self._context.view.node().name
        asked = request.match_info.get("node", here)
        if asked != here:
            return self._peer(asked)
        for check in (self.is_in_service, self.local_alarms, self.virtual_hosts):
            answer = await check(request)
            if answer.status != 200:
                return answer
        return _ok()

    def _peer(self, name: str) -> web.Response:
        cluster = self._context.cluster
        cluster_snapshot = None if cluster is None else cluster.operating.cluster_snapshot
        for member in () if cluster_snapshot is None else cluster_snapshot.members():
            if member.name == name:
                assert cluster_snapshot is not None
                if cluster_snapshot.is_running(member.id):
                    return _ok()
                return _failed(f"node {name} is not running")
        raise ApiError.not_found(f"node '{name}' is not a member of this cluster")

    async def metadata_store(self, request: web.Request) -> web.Response:
        """`with-data`: there are definitions in it."""
        metadata = self._context.operations.metadata
        if request.path.endswith("with-data") and not (metadata.vhosts and metadata.access.users):
            return _failed("Metadata store has not yet been initialized with data")
        return _ok()

    async def quorum_critical(self, request: web.Request) -> web.Response:
        """Whether queues, or the definitions, hang on this node: one that is to be stopped."""
        if self._context.cluster is None:
            return _ok()
        operating = self._context.cluster.operating
        here = operating.cluster_snapshot.here
        critical = operating.membership.critical(here)
        queues = [queue_named(each.vhost, each.name) for each in critical]
        definitions = operating.membership.is_definitions_critical(here)
        if not critical and not definitions:
            return _ok()
        return _failed(
            "There are quorum queues that would lose their quorum if the target node is shut down",
            queues=queues,
            definitions=definitions,
        )

    async def mirror_critical(self, request: web.Request) -> web.Response:
        """Queues have no mirrors that could lag behind."""
        return _ok()

    async def leaderless(self, request: web.Request) -> web.Response:
        """Quorum queues without a leader, of the vhosts and names that are asked for."""
        if self._context.cluster is None:
            return _ok()
        vhosts = set(asked_vhosts(self._context, request))
        pattern = expression(request.match_info.get("pattern", ""), "pattern")
        found = self._context.cluster.operating.membership.leaderless(
            lambda queue: queue.vhost in vhosts and pattern.is_found_in(queue.name)
        )
        if not found:
            return _ok()
        queues = [queue_named(each.vhost, each.name) for each in found]
        return _failed("There are quorum queues without elected leaders", queues=queues)

    async def cluster_size(self, request: web.Request) -> web.Response:
        """Whether as many nodes run as the cluster has members."""
        if self._context.cluster is None:
            return _ok()
        cluster_snapshot = self._context.cluster.operating.cluster_snapshot
        members = cluster_snapshot.members()
        running = sum(cluster_snapshot.is_running(each.id) for each in members)
        if running < len(members):
            return _failed(
                "Cluster has not yet reached its target size", running=running, target=len(members)
            )
        return _ok(running=running, target=len(members))

    async def aliveness(self, request: web.Request) -> web.Response:
        """A message through a queue of its own, and back."""
        actor = acting(self._context, request)
        try:
            declare = queue_declaration(
                actor, ALIVENESS, durable=False, exclusive=False, auto_delete=False, arguments={}
            )
            actor.permissions.require(READ, "queue", ALIVENESS)
        except ProtocolError as error:
            refused(error)
        await change(self._context, declare)
        operations = self._context.operations
        queue = operations.broker.definitions.queue(actor.vhost, ALIVENESS)
        assert queue is not None
        try:
            sent = await operations.publish(
                actor.vhost, "", ALIVENESS.encode(), EMPTY_PROPERTIES, b"test_message"
            )
            got = await operations.get(queue, 1, ACCEPT)
        except ProtocolError as error:
            refused(error)
        return _ok() if sent and got else _failed("the message did not come back")


def queue_named(vhost: str, name: str) -> dict[str, str]:
    """A quorum queue, in RabbitMQ's words for it and ours."""
    return {
        "name": name,
        "vhost": vhost,
        "virtual_host": vhost,
        "readable_name": f"queue '{name}' in vhost '{vhost}'",
        "type": "rabbit_quorum_queue",
    }


def _ok(**more: object) -> web.Response:
    return json_reply({"status": "ok", **more})


def _failed(reason: str, **more: object) -> web.Response:
    return json_reply({"status": "failed", "reason": reason, **more}, 503)

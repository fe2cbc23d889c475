"""Runtime parameters: /api/parameters by component, vhost and name; /api/global-parameters.

For policymakers. The cluster's name is the global parameter `cluster_name`; limits have paths of
their own (`node.management.api.limits`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from federation.parameter_checks import validation_failed
from federation.shovel_parameters import local_vhosts, shovel_faults
from federation.standby_parameter import standby_faults
from federation.upstreams import (
    UPSTREAM,
    UPSTREAM_SET,
    upstream_faults,
    upstream_set_faults,
)
from node.federating.pauses import PAUSED_LINKS
from node.federating.stored_uris import sealed, shown
from node.management.access import Context, caller_of, policy_vhosts
from node.management.bodies import (
    Body,
    name_in,
    need,
    path_name,
    read_body,
    read_json,
    stored,
)
from node.management.changes import delete, forget_pause, put
from node.management.replies import ApiError, json_reply, with_warnings
from node.management.rows.listing import list_reply
from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata.commands import DeleteParameter, PutParameter
from queues.definitions.metadata.machine import Metadata
from queues.definitions.policy_warnings import parameter_warnings
from queues.definitions.standby import STANDBY, standby_parameter
from queues.definitions.vhost_limits import USER_LIMITS, VHOST_LIMITS
from queues.definitions.without_effect import COMPONENTS_WITHOUT_EFFECT

if TYPE_CHECKING:
    from node.federating.link_service import LinkService

CLUSTER_NAME = "cluster_name"
IMPORTED = "imported-definitions"  # digests of files; a component that no list shows
LOADED = "loaded-definitions"  # the same, of files that nodes import when they start
HIDDEN = frozenset((USER_LIMITS, IMPORTED, LOADED, PAUSED_LINKS))
SHOVEL = "shovel"
COMPONENTS = ("federation", UPSTREAM, UPSTREAM_SET, SHOVEL, STANDBY)
FAULTS: Final[Mapping[str, Callable[[str, object], list[str]]]] = {
    SHOVEL: shovel_faults,
    UPSTREAM: upstream_faults,
    UPSTREAM_SET: upstream_set_faults,
    STANDBY: standby_faults,
}

Seal = Callable[[str, str, str, object], object]  # vhost, component, name, value: as it is stored


class Parameters:
    """Of vhosts, and global ones."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        one = "/api/parameters/{component}/{vhost}/{name}"
        each = "/api/global-parameters/{name}"
        return [
            web.get("/api/parameters", self.every),
            web.get("/api/parameters/{component}", self.every),
            web.get("/api/parameters/{component}/{vhost}", self.every),
            web.get(one, self.one),
            web.put(one, self.set),
            web.delete(one, self.clear),
            web.get("/api/global-parameters", self.every_global),
            web.get(each, self.one_global),
            web.put(each, self.set_global),
            web.delete(each, self.clear_global),
            web.get("/api/cluster-name", self.cluster_name),
            web.put("/api/cluster-name", self.set_cluster_name),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        component = request.match_info.get("component")
        rows: list[Body] = []
        for vhost in policy_vhosts(self._context, request):
            rows += parameter_rows(self._context, vhost, component, warned=True)
        return await list_reply(request, rows, lambda row: str(row["name"]), lambda row: row)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = policy_vhosts(self._context, request)
        key = (request.match_info["component"], request.match_info["name"])
        found = self._context.operations.metadata.vhosts[vhost].parameters.get(key)
        if found is None:
            raise ApiError.not_found()
        return json_reply(warned_row(self._context, found))

    async def set(self, request: web.Request) -> web.Response:
        (vhost,) = policy_vhosts(self._context, request)
        body = await read_body(request, "value")
        component, name = request.match_info["component"], path_name(request, "name")
        if component == SHOVEL:
            check_local_vhosts(self._context, caller_of(request).name, body["value"])
        if component == STANDBY:
            caller_of(request).require_administrator()
            check_becomes_standby(self._context.operations.metadata, vhost, name)
        seal = partial(sealed_value, self._context.operations.metadata, self._context.links)
        command = parameter_command(vhost, component, name, body["value"], seal)
        return await put(self._context, command)

    async def clear(self, request: web.Request) -> web.Response:
        (vhost,) = policy_vhosts(self._context, request)
        component, name = request.match_info["component"], request.match_info["name"]
        if component == SHOVEL:
            await forget_pause(self._context, vhost, name)
        if component == STANDBY:
            reason = "a standby ends by its promotion (promote_standby), or with its vhost"
            raise ApiError.bad_request(reason)
        return await delete(self._context, DeleteParameter(vhost, component, name))

    # Global ones

    async def every_global(self, request: web.Request) -> web.StreamResponse:
        caller_of(request).require_policymaker()
        rows = global_rows(self._context)
        return await list_reply(request, rows, lambda row: str(row["name"]), lambda row: row)

    async def one_global(self, request: web.Request) -> web.Response:
        caller_of(request).require_policymaker()
        found = self._context.operations.metadata.parameters.get(("", request.match_info["name"]))
        if found is None:
            raise ApiError.not_found()
        return json_reply(global_row(found))

    async def set_global(self, request: web.Request) -> web.Response:
        caller_of(request).require_policymaker()
        body = await read_body(request, "value")
        return await put(self._context, global_command(path_name(request, "name"), body["value"]))

    async def clear_global(self, request: web.Request) -> web.Response:
        caller_of(request).require_policymaker()
        return await delete(self._context, DeleteParameter("", "", request.match_info["name"]))

    async def cluster_name(self, request: web.Request) -> web.Response:
        return json_reply({"name": cluster_name(self._context)})

    async def set_cluster_name(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_json(request)
        if not isinstance(body, dict):
            raise ApiError.bad_request("not_json")
        need(body, "name")
        await put(self._context, global_command(CLUSTER_NAME, name_in(body, "name")))
        return web.Response(status=204)


def cluster_name(context: Context) -> str:
    """As it was set, or as it is from the start."""
    found = context.operations.metadata.parameters.get(("", CLUSTER_NAME))
    value = None if found is None else msgspec.json.decode(found.value)
    return value if isinstance(value, str) else context.view.node().cluster_name


def parameter_command(
    vhost: str, component: str, name: str, value: object, seal: Seal, imported: bool = False
) -> PutParameter:
    """ApiError 400 for an unknown component, a value that makes no sense or, unless imported, a
    component that has no effect."""
    feature = COMPONENTS_WITHOUT_EFFECT.get(component)
    if component not in COMPONENTS or (feature is not None and not imported):
        why = "" if feature is None else f": this version has no {feature}"
        reason = f"Validation failed\n\ncomponent {component} not found{why}\n"
        raise ApiError.bad_request(reason)
    faults = parameter_faults(component, name, value)
    if faults:
        raise ApiError.bad_request(validation_failed(faults))
    return PutParameter(vhost, component, name, stored(seal(vhost, component, name, value)))


def parameter_faults(component: str, name: str, value: object) -> list[str]:
    """What is wrong with the value of a component that has an effect."""
    check = FAULTS.get(component)
    return [] if check is None else check(name, value)


def sealed_value(
    metadata: Metadata,
    links: "LinkService | None",
    vhost: str,
    component: str,
    name: str,
    value: object,
) -> object:
    """The value with encrypted URIs; unchanged where no links are run."""
    if links is None:
        return value
    place = metadata.vhosts.get(vhost)
    found = None if place is None else place.parameters.get((component, name))
    earlier = None if found is None else msgspec.json.decode(found.value)
    return sealed(value, links.box, earlier)


def check_local_vhosts(context: Context, user: str, value: object) -> None:
    """Who has the node itself connect to a vhost must have access to it."""
    for vhost in local_vhosts(value):
        if context.access.permissions(user, vhost) is None:
            reason = f'user "{user}" may not connect to vhost "{vhost}"'
            raise ApiError.bad_request(validation_failed([reason]))


def check_becomes_standby(metadata: Metadata, vhost: str, name: str) -> None:
    """A standby gets all its queues from its primary: it must begin without, and has only one."""
    earlier = standby_parameter(metadata, vhost)
    reason = ""
    if earlier is None and metadata.vhosts[vhost].queues:
        reason = f"vhost '{vhost}' has queues: delete the vhost, add it again, then set the standby"
    elif earlier is not None and earlier.name != name:
        reason = f"vhost '{vhost}' is a standby by the parameter '{earlier.name}' already"
    if reason:
        raise ApiError.bad_request(validation_failed([reason]))


def global_command(name: str, value: object) -> PutParameter:
    return PutParameter("", "", name, stored(value))


def parameter_rows(
    context: Context, vhost: str, component: str | None = None, warned: bool = False
) -> list[Body]:
    """Of the vhost, but for its limits."""
    found = context.operations.metadata.vhosts.get(vhost)
    parameters = () if found is None else found.parameters.values()
    return [
        warned_row(context, each) if warned else parameter_row(each)
        for each in parameters
        if each.component != VHOST_LIMITS and component in (None, each.component)
    ]


def warned_row(context: Context, parameter: Parameter) -> Body:
    """Without passwords, and with `warnings` where the parameter has no effect."""
    row = parameter_row(parameter)
    if context.links is not None:
        row["value"] = shown(row["value"], context.links.box)
    return with_warnings(row, parameter_warnings(parameter))


def parameter_row(parameter: Parameter) -> Body:
    return {
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
        "value": msgspec.json.decode(parameter.value),
    }


def global_rows(context: Context) -> list[Body]:
    """All but the limits of users, and digests."""
    parameters = context.operations.metadata.parameters.values()
    return [global_row(each) for each in parameters if each.component not in HIDDEN]


def global_row(parameter: Parameter) -> Body:
    return {"name": parameter.name, "value": msgspec.json.decode(parameter.value)}

"""Policies and operator policies: /api/policies and /api/operator-policies, by vhost and name.

Every user may read the lists of the vhosts that it sees; a single policy is for policymakers, who
set them; operator policies are set by administrators alone.
"""

import msgspec
from aiohttp import web

from node.management.access import Context, asked_vhosts, caller_of, policy_vhosts
from node.management.bodies import path_name, read_body, stored
from node.management.changes import delete, existing_vhost, put
from node.management.replies import ApiError, json_reply, with_warnings
from node.management.rows.listing import list_reply
from queues.definitions.broker_objects import Policy
from queues.definitions.metadata.commands import DeletePolicy, PutPolicy
from queues.definitions.policy_keys import policy_fault
from queues.definitions.policy_warnings import policy_warnings

Row = dict[str, object]
_SORTED = msgspec.json.Encoder(order="sorted")


class Policies:
    """Of users, or of operators."""

    def __init__(self, context: Context, operator: bool = False) -> None:
        self._context = context
        self._operator = operator

    def routes(self) -> list[web.RouteDef]:
        path = "/api/operator-policies" if self._operator else "/api/policies"
        return [
            web.get(path, self.every),
            web.get(f"{path}/{{vhost}}", self.every),
            web.get(f"{path}/{{vhost}}/{{name}}", self.one),
            web.put(f"{path}/{{vhost}}/{{name}}", self.set),
            web.delete(f"{path}/{{vhost}}/{{name}}", self.clear),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        rows: list[Row] = []
        for vhost in asked_vhosts(self._context, request):
            rows += policy_rows(self._context, vhost, self._operator, warned=True)
        return await list_reply(request, rows, lambda row: str(row["name"]), lambda row: row)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = policy_vhosts(self._context, request)
        policies = self._context.operations.metadata.vhosts[vhost].policies
        policy = policies.get(request.match_info["name"], self._operator)
        if policy is None:
            raise ApiError.not_found()
        return json_reply(warned_row(policy))

    async def set(self, request: web.Request) -> web.Response:
        vhost = self._writable_vhost(request)
        body = await read_body(request, "pattern", "definition")
        name = path_name(request, "name")
        return await put(self._context, policy_command(vhost, name, body, self._operator))

    async def clear(self, request: web.Request) -> web.Response:
        vhost = self._writable_vhost(request)
        name = request.match_info["name"]
        return await delete(self._context, DeletePolicy(vhost, name, self._operator))

    def _writable_vhost(self, request: web.Request) -> str:
        if self._operator:
            caller_of(request).require_administrator()
            return existing_vhost(self._context, request)
        (vhost,) = policy_vhosts(self._context, request)
        return vhost


def policy_command(
    vhost: str, name: str, body: Row, operator: bool, imported: bool = False
) -> PutPolicy:
    """ApiError 400 where it says what a policy cannot."""
    definition = body.get("definition")
    apply_to, priority = body.get("apply-to", "all"), body.get("priority", 0)
    pattern = body.get("pattern")
    fault = policy_fault(pattern, apply_to, priority, definition, operator, imported)
    if fault is not None:
        raise ApiError.bad_request(fault)
    assert isinstance(pattern, str)
    assert isinstance(apply_to, str)
    assert isinstance(priority, int)
    encoded = stored(definition, _SORTED)
    return PutPolicy(vhost, name, operator, pattern, apply_to, priority, encoded)


def policy_rows(context: Context, vhost: str, operator: bool, warned: bool = False) -> list[Row]:
    found = context.operations.metadata.vhosts.get(vhost)
    policies = () if found is None else found.policies
    chosen = [each for each in policies if each.operator == operator]
    row_of = warned_row if warned else policy_row
    return [row_of(each) for each in sorted(chosen, key=lambda each: each.name)]


def warned_row(policy: Policy) -> Row:
    """With `warnings` where something of the policy has no effect."""
    return with_warnings(policy_row(policy), policy_warnings(policy))


def policy_row(policy: Policy) -> Row:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": msgspec.json.decode(policy.definition),
        "priority": policy.priority,
    }

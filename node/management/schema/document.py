"""The OpenAPI document: from the entries in this package, for the routes that a node really has.

Takes the method and path of each route and gives the document as JSON. A route that no entry
describes is left out; `undescribed` and `unrouted` tell what does not agree. Schemas with a title
become components. Interpreted; loaded on request for the document.
"""

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

import msgspec

from node.management.schema.model import STRING, Operation, Schema

# Modules beside this one. Each has OPERATIONS; its name without folder is the tag of all of them.
PARTS: Final = (
    "operations.overview", "operations.nodes", "connections", "exchanges", "queues", "bindings",
    "messages", "vhosts", "users", "permissions", "limits", "policies", "parameters", "definitions",
    "operations.health", "operations.cluster", "operations.features", "operations.events",
    "operations.flow", "addresses", "operations.controls", "security", "shovels",
    "federation_links", "standby", "leases", "streams",
)  # fmt: skip

OPENAPI: Final = "3.1.0"
SECURITY: Final = "basic"
ERROR: Final[Schema] = {
    "title": "Error",
    "type": "object",
    "properties": {
        "error": STRING,
        "reason": {"anyOf": [STRING, {"type": "array", "items": STRING}]},
    },
    "required": ["error", "reason"],
}
REFUSALS: Final = {
    400: "The request says what cannot be.",
    401: "The request has no valid login, or the user may not do this.",
    404: "There is no such thing.",
    405: "The path has no such method; the header Allow names those it has.",
    409: "It is not in a state for this.",
    412: "It is protected from this.",
    413: "The body is too large.",
    429: "Too many at once.",
    503: "The check failed, or definitions cannot be changed now.",
}
NAMES: Final = {
    "vhost": "Name of a virtual host, percent-encoded (`%2F` for `/`).",
    "queue": "Name of a queue, percent-encoded.",
    "exchange": "Name of an exchange, percent-encoded; `amq.default` for the default one.",
    "source": "Name of an exchange, percent-encoded; `amq.default` for the default one.",
    "destination": "Name of a queue or an exchange, percent-encoded.",
    "kind": "`q`: the destination is a queue; `e`: an exchange.",
    "key": "The `properties_key` of a binding, percent-encoded.",
    "user": "Name of a user, percent-encoded.",
    "node": "Name of a node.",
    "link": "Id of a federation link.",
    "state": "`running`, `starting` or `error`.",
    "name": "Name of the object, percent-encoded.",
}
_HOLE: Final = re.compile(r"\{([^}]+)\}")


def tag_of(part: str) -> str:
    return part.rpartition(".")[2]


def all_operations() -> list[tuple[str, Operation]]:
    """Every entry with its tag."""
    found: list[tuple[str, Operation]] = []
    for part in PARTS:
        module = import_module(f"node.management.schema.{part}")
        found += [(tag_of(part), each) for each in module.OPERATIONS]
    return found


def undescribed(routes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Routes, by method and path, that have no entry."""
    known = {(each.method, each.path) for _, each in all_operations()}
    return sorted(set(routes) - known)


def unrouted(routes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Entries that have no route."""
    known = set(routes)
    entries = [(each.method, each.path) for _, each in all_operations()]
    return sorted(each for each in entries if each not in known)


def document(routes: Iterable[tuple[str, str]], version: str) -> bytes:
    """The document of these routes."""
    known = set(routes)
    components: dict[str, Schema] = {}
    paths: dict[str, dict[str, object]] = {}
    for tag, each in all_operations():
        if (each.method, each.path) in known:
            entry = _entry(tag, each, components)
            paths.setdefault(each.path, {})[each.method.lower()] = entry
    return msgspec.json.encode(
        {
            "openapi": OPENAPI,
            "info": {
                "title": "Warren management",
                "version": version,
                "description": "The HTTP API of the management listener.",
            },
            "tags": [{"name": tag_of(part)} for part in PARTS],
            "security": [{SECURITY: []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {SECURITY: {"type": "http", "scheme": "basic"}},
            },
        }
    )


def _entry(tag: str, each: Operation, components: dict[str, Schema]) -> Schema:
    holes = _HOLE.findall(each.path)
    entry: Schema = {
        "operationId": _operation_id(each),
        "tags": [tag],
        "summary": each.summary,
        "description": f"For users with the tag `{each.rights}` or one that includes it.",
        "parameters": [
            *(_path_parameter(name) for name in holes),
            *(
                {
                    "name": query.name,
                    "in": "query",
                    "required": False,
                    "schema": query.schema,
                    "description": query.about,
                }
                for query in each.query
            ),
        ],
        "responses": _responses(each, bool(holes), components),
    }
    if each.body is not None:
        schema = _hoisted(each.body, components)
        entry["requestBody"] = {
            "required": "required" in each.body,
            "content": {"application/json": {"schema": schema}},
        }
    return entry


def _path_parameter(name: str) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "description": NAMES.get(name, f"The {name}."),
    }


def _responses(each: Operation, has_name: bool, components: dict[str, Schema]) -> Schema:
    found: Schema = {}
    for status, schema in each.answers.items():
        found[str(status)] = {"description": "Done." if schema is None else "The answer."}
        if schema is not None:
            content = {each.content_type: {"schema": _hoisted(schema, components)}}
            found[str(status)] = {"description": "The answer.", "content": content}
    for status in _refusals(each, has_name):
        content = {"application/json": {"schema": _hoisted(ERROR, components)}}
        if str(status) not in found:
            found[str(status)] = {"description": REFUSALS[status], "content": content}
    return found


def _refusals(each: Operation, has_name: bool) -> Sequence[int]:
    more = [400, 401, 405, *each.refusals]
    if has_name:
        more.append(404)
    if each.body is not None:
        more.append(413)
    if each.method != "GET":
        more.append(503)
    return sorted(set(more))


def _operation_id(each: Operation) -> str:
    path = each.path.removeprefix("/api/").replace("{", "by_").replace("}", "")
    return each.method.lower() + "_" + re.sub(r"[^a-zA-Z0-9]+", "_", path)


def _hoisted(value: object, components: dict[str, Schema]) -> object:
    """The schema with those in it that have a title as components."""
    if isinstance(value, (list, tuple)):
        return [_hoisted(each, components) for each in value]
    if not isinstance(value, dict):
        return value
    title = value.get("title")
    if isinstance(title, str):
        inner = {key: _hoisted(each, components) for key, each in value.items() if key != "title"}
        assert components.setdefault(title, inner) == inner, f"two schemas are called {title}"
        return {"$ref": f"#/components/schemas/{title}"}
    return {key: _hoisted(each, components) for key, each in value.items()}

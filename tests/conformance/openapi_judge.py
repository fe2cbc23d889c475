"""What the OpenAPI document of a node says, and whether an answer agrees with it."""

from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FAULT_LENGTH = 300


class Judge:
    """Says what is wrong with answers. `strict`: what is always there must be there, which holds
    where the request has not asked for columns."""

    def __init__(self, document: Any, strict: bool) -> None:
        whole = {"$schema": DIALECT, **(required_always(document) if strict else document)}
        resource = Resource.from_contents(whole, DRAFT202012)
        self._registry: Any = Registry().with_resource("urn:api", resource)
        self._paths = document["paths"]
        self._validators: dict[str, Any] = {}

    def faults(self, method: str, path: str, status: int, answer: Any) -> list[str]:
        """`path` is as in the document."""
        responses = self._paths[path][method.lower()]["responses"]
        response = responses.get(str(status))
        if response is None:
            return [f"status {status} is not in the document"]
        content = response.get("content")
        if content is None:
            return [] if answer is None else ["there should be no answer"]
        if "application/json" not in content:
            return []
        parts = ("paths", path, method.lower(), "responses", str(status), "content")
        place = "/".join(each.replace("~", "~0").replace("/", "~1") for each in parts)
        errors = self._validator(f"{place}/application~1json/schema").iter_errors(answer)
        return [f"{each.json_path}: {each.message}"[:FAULT_LENGTH] for each in errors]

    def _validator(self, place: str) -> Any:
        found = self._validators.get(place)
        if found is None:
            found = Draft202012Validator({"$ref": f"urn:api#/{place}"}, registry=self._registry)
            self._validators[place] = found
        return found


def required_always(value: Any) -> Any:
    """The document with everything required that is always there."""
    if isinstance(value, list):
        return [required_always(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: required_always(each) for key, each in value.items()}
    if "x-always" in made:
        made["required"] = made["x-always"]
    return made

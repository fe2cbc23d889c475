"""What a runtime parameter may say, in RabbitMQ's sentences: a table of keys and their checks."""

from collections.abc import Callable, Mapping
from typing import Final

from federation.uris import SEALED, BadUri, Uri, check_options, obscured, parse_uri
from queues.definitions.arguments import brief_term, cut

Check = Callable[[str, object], str | None]  # name of the key, its value: the fault
MANDATORY: Final = True
OPTIONAL: Final = False
Spec = Mapping[str, tuple[Check, bool]]


def faults_of(name: str, spec: Spec, value: Mapping[str, object]) -> list[str]:
    """All that is wrong with the keys of the parameter's value."""
    found: list[str] = []
    for key, (check, is_mandatory) in spec.items():
        if key in value:
            fault = check(key, value[key])
            if fault is not None:
                found.append(fault)
        elif is_mandatory:
            found.append(f'Key "{key}" not found in {name}')
    unknown = [
        f"{{{brief_term(key)},{brief_term(value[key])}}}" for key in value if key not in spec
    ]
    if unknown:
        found.append(f"Unrecognised terms [{','.join(unknown)}] in {name}")
    return found


def validation_failed(faults: list[str]) -> str:
    """The whole text of a refusal."""
    return "".join(f"{line}\n" for line in ("Validation failed\n", *faults))


def number(key: str, value: object) -> str | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return None
    return f"{key} should be a number, actually was {brief_term(value)}"


def text(key: str, value: object) -> str | None:
    return (
        None
        if isinstance(value, str)
        else f"{key} should be binary, actually was {brief_term(value)}"
    )


def boolean(key: str, value: object) -> str | None:
    if isinstance(value, bool):
        return None
    return f"{key} should be boolean, actually was {brief_term(value)}"


def table(key: str, value: object) -> str | None:
    if isinstance(value, dict):
        return None
    return f"{key} should be a JSON object, actually was {brief_term(value)}"


def one_of(*words: str) -> Check:
    def check(key: str, value: object) -> str | None:
        if isinstance(value, str) and value in words:
            return None
        shown = ",".join(f"'{word}'" if "-" in word else word for word in words)
        return f"{key} should be one of [{shown}], actually was {brief_term(value)}"

    return check


def uri(key: str, value: object) -> str | None:
    """One URI, or a list of them."""
    return _uris(key, value, check_options)


def stored_uri(key: str, value: object) -> str | None:
    """The same; options without sense are errors of the link that uses them."""
    return _uris(key, value, lambda uri: None)


def as_stored(spec: Spec) -> Spec:
    """The spec for a value that was stored, maybe by an earlier version."""
    return {
        key: (stored_uri if check is uri else check, is_mandatory)
        for key, (check, is_mandatory) in spec.items()
    }


def _uris(key: str, value: object, check: Callable[[Uri], None]) -> str | None:
    if isinstance(value, list) and value:
        return next((fault for each in value if (fault := _one_uri(key, each, check))), None)
    return _one_uri(key, value, check)


def _one_uri(key: str, value: object, check: Callable[[Uri], None]) -> str | None:
    if not isinstance(value, str):
        return f"{key} should be binary, actually was {brief_term(value)}"
    if value.startswith(SEALED):
        return None
    try:
        check(parse_uri(value))
    except BadUri as error:
        return f'"{cut(obscured(value))}" not a valid URI: {error}'
    return None

"""The runtime parameter `standby`: which cluster a vhost is the warm standby of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from federation.parameter_checks import MANDATORY, OPTIONAL, Spec, faults_of, number
from federation.shovel_parameters import uris_of
from federation.uris import SEALED, BadUri, Uri, obscured
from queues.definitions.arguments import brief_term, cut

PORTS: Final = {"http": 15672, "https": 15671}
INTERVAL_S: Final = 1.0
INTERVAL_S_MIN: Final = 0.1
RECONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class StandbyConfig:
    """A standby as its parameter defines it."""

    vhost: str
    name: str
    uris: tuple[str, ...] = field(repr=False)
    interval_s: float = INTERVAL_S
    reconnect_s: float = RECONNECT_S


def parse_http_uri(text: str) -> Uri:
    """The HTTP API of the primary: `http[s]://user:password@host:port?cacertfile=PATH`. BadUri: it
    is none."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadUri(f"{error}") from None
    if parts.scheme not in PORTS:
        raise BadUri(f"the scheme is '{parts.scheme}', allowed are http and https")
    if not parts.hostname or not parts.username:
        raise BadUri("it names no host, or no user")
    return Uri(
        parts.hostname,
        port or PORTS[parts.scheme],
        parts.scheme == "https",
        unquote(parts.username),
        unquote(parts.password or ""),
        None,
        dict(parse_qsl(parts.query)),
    )


def _uri(key: str, value: object) -> str | None:
    for each in value if isinstance(value, list) and value else [value]:
        if not isinstance(each, str):
            return f"{key} should be binary, actually was {brief_term(each)}"
        if each.startswith(SEALED):
            continue
        try:
            parse_http_uri(each)
        except BadUri as error:
            return f'"{cut(obscured(each))}" not a valid URI of an HTTP API: {error}'
    return None


_SPEC: Final[Spec] = {
    "uri": (_uri, MANDATORY),
    "interval": (number, OPTIONAL),
    "reconnect-delay": (number, OPTIONAL),
}


def standby_faults(name: str, value: object) -> list[str]:
    """What is wrong with a value; []: it can be set."""
    if not isinstance(value, dict):
        return [f"{name} should be a JSON object, actually was {brief_term(value)}"]
    return faults_of(name, _SPEC, value)


def standby_config(vhost: str, name: str, value: Mapping[str, object]) -> StandbyConfig:
    """The standby of a value without faults, whose URIs are not sealed."""
    return StandbyConfig(
        vhost,
        name,
        uris_of(value["uri"]),
        max(INTERVAL_S_MIN, _seconds(value, "interval", INTERVAL_S)),
        _seconds(value, "reconnect-delay", RECONNECT_S),
    )


def _seconds(value: Mapping[str, object], key: str, otherwise: float) -> float:
    found = value.get(key)
    return float(found) if isinstance(found, (int, float)) else otherwise

"""SASL responses of AMQP 0-9-1, HTTP Basic and login forms: bytes in, name and password out.

PLAIN (RFC 4616): authorization id, 0, name, 0, password. AMQPLAIN: the entries of a field table,
without its length, with LOGIN and PASSWORD. Texts never quote a response: it holds a password.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from msgspec import Struct

from warren.wire.amqp091.fields import decode_table
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.tls.certificate import TlsPeer

MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL")
UNASKED: Final = ("ANONYMOUS", "EXTERNAL")  # nothing that the peer must tell
RESPONSE_BYTES_MAX: Final = 20 << 10  # an access token is a password, too


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who the peer says to be, and what it knows."""

    user: str
    password: bytes = field(repr=False)


class Malformed(Struct, frozen=True):
    """The response is none of its mechanism: the endpoint answers 502 SYNTAX_ERROR with `text`."""

    text: str


def offered(mechanisms: Sequence[str], tls: "TlsPeer | None") -> list[str]:
    """Those of the configuration that this client can use."""
    can_be_external = tls is not None and tls.login_name != ""
    return [each for each in mechanisms if each != "EXTERNAL" or can_be_external]


def parse_response(mechanism: str, response: bytes) -> Credentials | Malformed:
    """Take apart a response of PLAIN or AMQPLAIN."""
    if len(response) > RESPONSE_BYTES_MAX:
        return Malformed(f"{mechanism} response is longer than {RESPONSE_BYTES_MAX} bytes")
    if mechanism == "AMQPLAIN":
        return _parse_amqplain(response)
    return _parse_plain(response)


def user_in(mechanism: str, response: bytes) -> str:
    """The user that a response of PLAIN or AMQPLAIN names; '' for anything else."""
    if mechanism not in ("PLAIN", "AMQPLAIN"):
        return ""
    parsed = parse_response(mechanism, response)
    return parsed.user if isinstance(parsed, Credentials) else ""


def _parse_plain(response: bytes) -> Credentials | Malformed:
    parts = response.split(b"\0")
    if len(parts) != 3:
        return Malformed("PLAIN response is not of the form: id, 0, name, 0, password")
    identity, name, password = parts
    user = _text(name)
    if user is None or identity not in (b"", name):
        return Malformed("PLAIN response asks to act for another user, or is not UTF-8")
    return Credentials(user, password)


def _parse_amqplain(response: bytes) -> Credentials | Malformed:
    try:
        table = decode_table(len(response).to_bytes(4, "big") + response)
    except ProtocolError:
        return Malformed("AMQPLAIN response is not a field table")
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if isinstance(password, str):
        password = password.encode()
    if not isinstance(user, str) or not isinstance(password, bytes):
        return Malformed("AMQPLAIN response is missing LOGIN or PASSWORD field")
    return Credentials(user, password)


def parse_basic(header: str) -> Credentials | None:
    """The Authorization header of HTTP Basic (RFC 7617); None if it is anything else."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > 2 * RESPONSE_BYTES_MAX:
        return None
    try:
        raw = base64.b64decode(encoded.strip(), validate=True)
    except ValueError:
        return None
    name, separator, password = raw.partition(b":")
    user = _text(name)
    return Credentials(user, password) if separator and user is not None else None


def parse_bearer(header: str) -> Credentials | None:
    """The Authorization header with an access token (RFC 6750); None if it is anything else."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or len(header) > RESPONSE_BYTES_MAX or not token.isascii():
        return None
    return Credentials("", token.strip().encode())


def parse_form(raw: bytes) -> Credentials | None:
    """The fields `username` and `password` of a form (application/x-www-form-urlencoded)."""
    if len(raw) > RESPONSE_BYTES_MAX:
        return None
    try:
        fields = dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=8))
    except ValueError:
        return None
    user, password = fields.get("username"), fields.get("password")
    if user is None or password is None:
        return None
    return Credentials(user, password.encode("utf-8", "replace"))


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None

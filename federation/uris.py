"""AMQP URIs of the other side, with RabbitMQ's query parameters, and their passwords kept secret.

`parse_uri` reads `amqp[s]://user:password@host:port/vhost?heartbeat=5`. A URI without host means
the node's own broker (RabbitMQ's direct connection). A stored URI with a password is sealed:
`encrypted:` and base64 of nonce, ciphertext and tag. `obscured` is for parameters that are shown,
`without_credentials` for status and logs.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

PORTS: Final = {"amqp": 5672, "amqps": 5671}
SEALED: Final = "encrypted:"
HIDDEN: Final = "***"
NONCE_BYTES: Final = 16
TAG_BYTES: Final = 32
MECHANISM: Final = "auth_mechanism"  # may be there several times
MECHANISMS: Final = {"plain": "PLAIN", "amqplain": "AMQPLAIN", "external": "EXTERNAL"}
SERVER_NAME: Final = "server_name_indication"
NO_NAME: Final = "disable"  # in its place: no name is sent and none is verified
HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[0-9A-Za-z_-]{1,63}(\.[0-9A-Za-z_-]{1,63})*\.?")


class BadUri(Exception):
    """The text is no URI of a broker; the message is RabbitMQ's term for the reason."""


@dataclass(frozen=True, slots=True)
class Uri:
    """`host` "" is the broker of this node; `vhost` None: the URI names none."""

    host: str
    port: int
    tls: bool
    user: str
    password: str = field(repr=False)
    vhost: str | None
    query: dict[str, str] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()  # the first one that the broker offers logs in; (): any

    @property
    def is_local(self) -> bool:
        return not self.host

    def dialled(self, default_vhost: str) -> str:
        """The URI for `warren.client`, with the password."""
        vhost = default_vhost if self.vhost is None else self.vhost
        login = ""
        if self.user:
            login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@"
        host = f"[{self.host}]" if ":" in self.host else self.host or "localhost"
        scheme = "amqps" if self.tls else "amqp"
        return f"{scheme}://{login}{host}:{self.port}/{quote(vhost, safe='')}"


def parse_uri(text: str) -> Uri:
    """BadUri: it is none."""
    parts = _split(text)
    if parts.scheme not in PORTS:
        raise BadUri(f'{{unexpected_uri_scheme,"{parts.scheme[:40]}"}}')
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError:
        raise BadUri("{port_requires_integer,...}") from None
    options = parse_qsl(parts.query)
    query = dict(options)
    heartbeat = query.get("heartbeat", "0")
    if not heartbeat.isdecimal():
        raise BadUri(f'{{not_an_integer,"{heartbeat[:40]}"}}')
    path = parts.path.removeprefix("/")
    return Uri(
        parts.hostname or "",
        port,
        parts.scheme == "amqps",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        (unquote(path) or "/") if parts.path else None,
        query,
        tuple(_mechanism(value) for key, value in options if key == MECHANISM),
    )


def _mechanism(value: str) -> str:
    """Its name in SASL; RabbitMQ's option may name the module of its client. What is not known
    stays as it is."""
    return MECHANISMS.get(value.removeprefix("amqp_auth_mechanisms:"), value)


def check_options(uri: Uri) -> None:
    """BadUri: a mechanism is not known, or the name to verify is none. A URI that an earlier
    version has stored may be so: it is refused when it is set and when it is used."""
    for each in uri.mechanisms:
        if each not in MECHANISMS.values():
            allowed = ", ".join(MECHANISMS)
            raise BadUri(f'{{unknown_mechanism,"{each[:40]}"}}: allowed: {allowed}')
    name = uri.query.get(SERVER_NAME)
    if name is not None and not HOST_NAME.fullmatch(name):
        raise BadUri(f'{{invalid_ssl_parameter,{SERVER_NAME},"{name[:40]}"}}')


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise BadUri(f'{{malformed_uri,"{error}"}}') from None


def obscured(text: str) -> str:
    """The URI with `***` for its password."""
    return _with_login(text, lambda user, password: f"{user}:{HIDDEN}@" if password else f"{user}@")


def without_credentials(text: str) -> str:
    """The URI without user, password and query, which may name files."""
    shown = _with_login(text, lambda user, password: "")
    return shown.partition("?")[0]


def has_password(text: str) -> bool:
    try:
        return bool(_split(text).password)
    except BadUri:
        return "@" in text


def _with_login(text: str, login: Callable[[str, bool], str]) -> str:
    try:
        parts = _split(text)
    except BadUri:
        return "a URI that cannot be read"
    if "@" not in parts.netloc:
        return text
    user, _, _ = parts.netloc.rpartition("@")[0].partition(":")
    place = parts.netloc.rpartition("@")[2]
    netloc = login(user, bool(parts.password)) + place
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))


class SecretBox:
    """Encrypts URIs under one key: SHAKE-256 as a stream, then HMAC-SHA-256 over all of it."""

    def __init__(self, secret: bytes) -> None:
        self._stream = hashlib.blake2b(secret, person=b"warren-uri-enc").digest()
        self._tag = hashlib.blake2b(secret, person=b"warren-uri-mac").digest()

    def seal(self, text: str, nonce: bytes) -> str:
        """The stored form; `nonce` is NONCE_BYTES random bytes."""
        assert len(nonce) == NONCE_BYTES
        plain = text.encode()
        sealed = nonce + _xor(plain, self._key_stream(nonce, len(plain)))
        tag = hmac.digest(self._tag, sealed, hashlib.sha256)
        return SEALED + base64.urlsafe_b64encode(sealed + tag).decode()

    def open(self, text: str) -> str:
        """The URI of a stored form, sealed or not. BadUri: another key has sealed it."""
        if not text.startswith(SEALED):
            return text
        try:
            data = base64.urlsafe_b64decode(text.removeprefix(SEALED))
        except ValueError:
            data = b""
        sealed, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
        right = hmac.digest(self._tag, sealed, hashlib.sha256)
        if len(sealed) < NONCE_BYTES or not hmac.compare_digest(tag, right):
            raise BadUri("the URI was encrypted by a cluster with another secret; set it again")
        nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return _xor(body, self._key_stream(nonce, len(body))).decode()

    def _key_stream(self, nonce: bytes, length: int) -> bytes:
        return hashlib.shake_256(self._stream + nonce).digest(length)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))

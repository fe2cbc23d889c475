"""What TLS tells of a client: protocol, cipher suite and certificate, in RabbitMQ's words. No I/O.

Takes what the TLS library gives (`SSLObject.getpeercert()`, `.cipher()`); a certificate is in there
only if it was verified. Gives the values of `/api/connections`, and the name of the user for the
mechanism EXTERNAL: the subject as one line (RFC 4514, the last part first), its common name, or one
of the subject's alternative names.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct

LoginFrom = Literal["distinguished_name", "common_name", "subject_alternative_name"]
SanType = Literal["dns", "ip", "email", "uri"]

# Short names of the parts of a subject, by the names that OpenSSL has for them.
PART_NAMES: Final[Mapping[str, str]] = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "street": "STREET",
    "streetAddress": "STREET",
    "userId": "UID",
}
SAN_KINDS: Final[Mapping[str, str]] = {
    "dns": "DNS",
    "ip": "IP Address",
    "email": "email",
    "uri": "URI",
}
SPECIAL: Final = ',+"\\<>;'
NAME_BYTES_MAX: Final = 255  # of a user

Name = Iterable[Iterable[tuple[str, str]]]  # of a subject or an issuer, as the library has it


class LoginName(Struct, frozen=True):
    """Which part of a certificate names the user."""

    source: LoginFrom = "distinguished_name"
    san_type: SanType = "dns"
    san_index: int = 0


class TlsPeer(Struct, frozen=True):
    """A client that has come over TLS; without a certificate the `peer_` values are ''."""

    protocol: str  # tlsv1.3
    key_exchange: str
    cipher: str
    hash: str
    login_name: str = ""  # the user that the certificate names
    peer_subject: str = ""
    peer_issuer: str = ""
    peer_validity: str = ""


def tls_peer(
    cipher: tuple[str, str, int] | None, certificate: Mapping[str, Any] | None, login: LoginName
) -> TlsPeer:
    """What there is to be told of a client whose handshake is through."""
    suite, version = (cipher[0], cipher[1]) if cipher is not None else ("", "")
    key_exchange, encryption, digest = suite_parts(suite)
    if not certificate:
        return TlsPeer(version.lower(), key_exchange, encryption, digest)
    return TlsPeer(
        version.lower(),
        key_exchange,
        encryption,
        digest,
        login_name(certificate, login),
        distinguished_name(certificate.get("subject", ())),
        distinguished_name(certificate.get("issuer", ())),
        validity(certificate),
    )


def login_name(certificate: Mapping[str, Any], rule: LoginName) -> str:
    """The user that the certificate names; '' if it names none."""
    subject = certificate.get("subject", ())
    if rule.source == "distinguished_name":
        name = distinguished_name(subject)
    elif rule.source == "common_name":
        name = ",".join(value for key, value in _parts(subject) if key == "commonName")
    else:
        kind = SAN_KINDS[rule.san_type]
        found = [value for key, value in certificate.get("subjectAltName", ()) if key == kind]
        name = found[rule.san_index] if rule.san_index < len(found) else ""
    return name if len(name.encode()) <= NAME_BYTES_MAX else ""


def distinguished_name(name: Name) -> str:
    """On one line, the last part first: `CN=orders,OU=shop,O=Example`."""
    lines = []
    for part in name:
        pairs = [f"{PART_NAMES.get(key, key)}={escaped(value)}" for key, value in part]
        lines.append("+".join(pairs))
    return ",".join(reversed(lines))


def escaped(value: str) -> str:
    """A value of such a line (RFC 4514, 2.4)."""
    last = len(value) - 1
    parts = []
    for place, letter in enumerate(value):
        at_edge = letter == " " and place in (0, last)
        if letter in SPECIAL or at_edge or (letter == "#" and place == 0):
            parts.append("\\" + letter)
        elif ord(letter) < 32 or ord(letter) == 127:
            parts.append(f"\\{ord(letter):02X}")
        else:
            parts.append(letter)
    return "".join(parts)


def validity(certificate: Mapping[str, Any]) -> str:
    """`2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z`"""
    dates = (certificate.get("notBefore", ""), certificate.get("notAfter", ""))
    return " - ".join(_date(each) for each in dates)


def _date(text: str) -> str:
    try:
        seconds = ssl.cert_time_to_seconds(text)
    except ValueError:
        return text
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def suite_parts(suite: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a suite in OpenSSL's or the standard's spelling."""
    if suite.startswith("TLS_"):  # Of TLS 1.3: nothing in it about the exchange of keys.
        cipher, _, _ = suite[len("TLS_") :].lower().rpartition("_")
        return "any", cipher, "aead"
    words = suite.lower().split("-")
    exchange = [word for word in words if word in ("ecdhe", "dhe", "rsa", "ecdsa", "psk")]
    rest = [word for word in words if word not in exchange]
    if rest and re.fullmatch(r"sha\d*|md5", rest[-1]):
        digest = rest.pop()
    else:
        digest = "aead"
    cipher = "_".join(re.sub(r"^(aes|camellia|aria)(\d+)$", r"\1_\2", word) for word in rest)
    if re.search(r"gcm|ccm|poly1305", cipher):
        digest = "aead"
    elif re.match(r"(aes|camellia)_\d+$", cipher):
        cipher += "_cbc"
    return "_".join(exchange) or "rsa", cipher, digest


def _parts(name: Name) -> Iterable[tuple[str, str]]:
    for part in name:
        yield from part

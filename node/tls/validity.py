"""Until when certificates are good: the dates in them, out of PEM files. No I/O.

Takes the text of a file, gives the date of each certificate in it. DER (X.690) is read only as far
as it must be: Certificate, TBSCertificate, past version, serial number, algorithm and issuer, to
the two times of Validity (RFC 5280, 4.1). What makes no sense is a `BadCertificate`.
"""

import re
import ssl
from datetime import UTC, datetime
from typing import Final

BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
SEQUENCE: Final = 0x30
VERSION: Final = 0xA0  # explicit tag 0
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18


class BadCertificate(Exception):
    """This is no certificate."""


def ends_of(text: str) -> list[datetime]:
    """The last moments of the certificates in a PEM file, in its order."""
    try:
        return [end_of(ssl.PEM_cert_to_DER_cert(block)) for block in BLOCK.findall(text)]
    except ValueError as error:  # Of base64, or a date.
        raise BadCertificate(str(error)) from error


def end_of(der: bytes) -> datetime:
    """The last moment of one certificate."""
    whole = _Reader(der).enter(SEQUENCE)
    fields = whole.enter(SEQUENCE)
    if fields.next_tag() == VERSION:
        fields.take()
    for _ in ("serial number", "algorithm", "issuer"):
        fields.take()
    times = fields.enter(SEQUENCE)
    times.take()
    tag, raw = times.take()
    return _time(tag, raw)


def _time(tag: int, raw: bytes) -> datetime:
    text = raw.decode("ascii", "replace")
    if tag == UTC_TIME:  # Two digits of the year: 50 to 99 are of the last century.
        century = "19" if text[:2] >= "50" else "20"
        text = century + text
    elif tag != GENERALIZED_TIME:
        raise BadCertificate(f"a time with the tag {tag}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


class _Reader:
    """Values one behind the other."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def next_tag(self) -> int:
        return self._byte(self._at)

    def take(self) -> tuple[int, bytes]:
        """Tag and content of the next value."""
        tag, size = self._byte(self._at), self._byte(self._at + 1)
        start = self._at + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(self._raw[start : start + count], "big")
            start += count
        if start + size > len(self._raw):
            raise BadCertificate("it ends too early")
        self._at = start + size
        return tag, self._raw[start : start + size]

    def enter(self, wanted: int) -> "_Reader":
        tag, content = self.take()
        if tag != wanted:
            raise BadCertificate(f"the tag {tag} where {wanted} was expected")
        return _Reader(content)

    def _byte(self, at: int) -> int:
        if at >= len(self._raw):
            raise BadCertificate("it ends too early")
        return self._raw[at]

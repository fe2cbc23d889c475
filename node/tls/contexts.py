"""TLS contexts out of settings: what this node shows, whom it believes, which versions it speaks.

Takes `TlsSettings`; gives a context for those who come and one for whom this node dials. Files that
cannot be read or do not belong together are a `TlsFault` with their names; nothing is half made.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Version = Literal["tlsv1.2", "tlsv1.3"]
VERSIONS: Final[dict[str, ssl.TLSVersion]] = {
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
KEY_BYTES_MAX: Final = 1024 * 1024  # of a file


class TlsFault(Exception):
    """The files or settings of TLS cannot be used; the text names them."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Of one listener. `verify`: a certificate of the other side must be good if it shows one."""

    certfile: Path
    keyfile: Path
    cacertfile: Path | None = None
    password: str = field(default="", repr=False)  # of the key
    verify: bool = False
    fail_if_no_peer_cert: bool = False
    versions: tuple[Version, ...] = ("tlsv1.2", "tlsv1.3")
    ciphers: str = ""  # of TLS 1.2, in OpenSSL's words; '': its own choice
    check_hostname: bool = True  # of whom this node dials

    @property
    def files(self) -> tuple[Path, ...]:
        trusted = () if self.cacertfile is None else (self.cacertfile,)
        return (self.certfile, self.keyfile, *trusted)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """For those who come. TlsFault: it cannot be made."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    _equip(context, settings)
    if settings.verify:
        is_needed = settings.fail_if_no_peer_cert
        context.verify_mode = ssl.CERT_REQUIRED if is_needed else ssl.CERT_OPTIONAL
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """For whom this node dials. TlsFault: it cannot be made."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify and settings.check_hostname
    if not settings.verify:
        context.verify_mode = ssl.CERT_NONE
    _equip(context, settings)
    return context


def _equip(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Versions, ciphers, our certificate, whom to believe."""
    known = [VERSIONS[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(known), max(known)
    try:
        if settings.ciphers:
            context.set_ciphers(settings.ciphers)
    except ssl.SSLError as error:
        raise TlsFault(f"ciphers '{settings.ciphers}': {error}") from error
    for path in settings.files:
        _check_readable(path)
    try:
        # With a password, if an empty one: else the library asks the terminal for it.
        context.load_cert_chain(settings.certfile, settings.keyfile, settings.password)
    except (OSError, ValueError) as error:
        pair = f"certificate {settings.certfile} with key {settings.keyfile}"
        raise TlsFault(f"{pair}: {_words(error)}") from error
    try:
        if settings.cacertfile is not None:
            context.load_verify_locations(settings.cacertfile)
    except (OSError, ValueError) as error:
        raise TlsFault(f"trusted certificates {settings.cacertfile}: {_words(error)}") from error


def _check_readable(path: Path) -> None:
    """The library's own errors do not name the file."""
    try:
        with path.open("rb") as file:
            if len(file.read(KEY_BYTES_MAX + 1)) > KEY_BYTES_MAX:
                raise TlsFault(f"{path} is larger than {KEY_BYTES_MAX} bytes")
    except OSError as error:
        raise TlsFault(f"cannot read {path}: {error.strerror}") from error


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason or error or type(error).__name__)

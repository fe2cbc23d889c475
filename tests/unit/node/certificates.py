"""Certificates for tests: an authority, and files of what it has issued."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from node.tls.contexts import TlsSettings


class Authority:
    """Issues into a folder: `NAME.pem` is the certificate with its chain, `NAME.key` the key."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.cafile = folder / f"{name}.pem"
        self._authority = trustme.CA(organization_name="Example")
        self._authority.cert_pem.write_to_path(self.cafile)

    def issue(
        self, name: str, *identities: str, common_name: str | None = None, days: float = 30
    ) -> tuple[Path, Path]:
        """Certificate and key; `days` from now it ends."""
        now = datetime.now(UTC)
        issued = self._authority.issue_cert(
            *(identities or ("127.0.0.1", "localhost")),
            common_name=common_name,
            organization_name="Example",
            organization_unit_name="Shop",
            not_before=now - timedelta(days=10),
            not_after=now + timedelta(days=days),
        )
        certfile, keyfile = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certfile.unlink(missing_ok=True)  # A new file, as renewal of certificates makes it.
        keyfile.unlink(missing_ok=True)
        for place, pem in enumerate(issued.cert_chain_pems):
            pem.write_to_path(certfile, append=place > 0)
        issued.private_key_pem.write_to_path(keyfile)
        return certfile, keyfile

    def settings(self, name: str = "server", **more: object) -> TlsSettings:
        """Of a listener with a certificate of its own."""
        certfile, keyfile = self.issue(name)
        return TlsSettings(certfile, keyfile, self.cafile, **more)  # type: ignore[arg-type]

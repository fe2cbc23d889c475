"""Which object store: by a URL, `file:///directory` or `s3://bucket/prefix`.

store = open_store(Location("s3://bucket/prefix", region="eu-central-1"))
"""

from dataclasses import dataclass, field
from typing import Final

from warren.storage.objects.store import ObjectStore, StoreUnavailable

FILE: Final = "file://"
S3: Final = "s3://"


@dataclass(frozen=True, slots=True)
class Location:
    """Which store: `url` is `file:///directory` or `s3://bucket/prefix`; the rest is for S3.

    Without keys, credentials come from where the tools of AWS look for them.
    """

    url: str
    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)


def location_fault(url: str) -> str | None:
    """Why `url` names no store; None: it does."""
    if url.startswith(FILE) and url.removeprefix(FILE).startswith("/"):
        return None
    if url.startswith(S3) and url.removeprefix(S3).partition("/")[0]:
        return None
    return f"'{url}' is neither file:///DIRECTORY nor s3://BUCKET/PREFIX"


def open_store(location: Location) -> ObjectStore:
    """Make the store; nothing is connected yet. StoreUnavailable: its library is not installed."""
    if location.url.startswith(FILE):
        from warren.storage.objects.directory import DirectoryStore

        return DirectoryStore(location.url.removeprefix(FILE))
    try:
        from warren.storage.objects.s3 import S3Store
    except ImportError as error:
        reason = f"{error}; pip install 'warrenmq[s3]'"
        raise StoreUnavailable(f"{location.url}: {reason}") from error
    return S3Store(location)

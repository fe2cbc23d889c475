"""What logins and permission checks read: users and their permissions, as the metadata has them."""

from typing import Final, Protocol

INTERNAL_USER: Final = "warren:internal"  # of connections of the node itself; refused at logins


class UserRecord(Protocol):
    """One user. `password_hash` is '' for a user who cannot log in with a password."""

    @property
    def password_hash(self) -> str: ...
    @property
    def hashing(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


class AccessView(Protocol):
    """Reads only, on the loop, at the cost of a dict lookup."""

    @property
    def version(self) -> int:
        """Goes up with every change of what this view shows."""

    def user(self, name: str) -> UserRecord | None: ...

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        """The expressions for configure, write and read; None: no access to the vhost."""

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        """The expressions for keys that may be written and read; None: any may."""


class FullAccess:
    """What the node itself may: everything. Keeps `AccessView`."""

    @property
    def version(self) -> int:
        return 0

    def user(self, name: str) -> UserRecord | None:
        return None

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        return (".*", ".*", ".*")

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        return None


FULL_ACCESS: Final = FullAccess()


def access_of(access: AccessView, user: str) -> AccessView:
    """What that user may: as the definitions say, or everything for the node itself."""
    return FULL_ACCESS if user == INTERNAL_USER else access

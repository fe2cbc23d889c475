"""What logins and permission checks read: users and their permissions, as the metadata has them."""

from typing import Protocol


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

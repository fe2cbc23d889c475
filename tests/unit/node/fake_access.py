"""Users and permissions for tests: keeps `node.auth.access.AccessView`."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class FakeUser:
    password_hash: str
    hashing: str = "rabbit_password_hashing_sha256"
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class FakeAccess:
    """A table of users and one of permissions; tests change them and raise `version`."""

    version: int = 1
    users: dict[str, FakeUser] = field(default_factory=dict)
    permitted: dict[tuple[str, str], tuple[str, str, str]] = field(default_factory=dict)
    topics: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)
    reads: int = 0  # of permissions

    def user(self, name: str) -> FakeUser | None:
        return self.users.get(name)

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        self.reads += 1
        return self.permitted.get((user, vhost))

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        return self.topics.get((user, vhost, exchange))

"""Users and permissions, as the metadata machine holds them and as logins and checks read them."""

from queues.definitions.broker_objects import Permission, TopicPermission, User


class Access:
    """Who there is, and who may do what where. Changed by the metadata machine only.

    Invariant: every permission is of a user that exists, in a vhost that exists.
    """

    __slots__ = ("permissions_by_key", "topic_permissions_by_key", "users", "version")

    def __init__(self) -> None:
        self.version = 0  # goes up with every change in here
        self.users: dict[str, User] = {}
        self.permissions_by_key: dict[tuple[str, str], Permission] = {}  # (user, vhost)
        # (user, vhost, exchange)
        self.topic_permissions_by_key: dict[tuple[str, str, str], TopicPermission] = {}

    def user(self, name: str) -> User | None:
        return self.users.get(name)

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        """The expressions for configure, write and read; None: no access to the vhost."""
        found = self.permissions_by_key.get((user, vhost))
        return None if found is None else (found.configure, found.write, found.read)

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        """The expressions for writing and reading keys of the exchange; None: any key goes."""
        if not self.topic_permissions_by_key:
            return None
        found = self.topic_permissions_by_key.get((user, vhost, exchange))
        return None if found is None else (found.write, found.read)

    def permissions_of(self, user: str) -> list[Permission]:
        return [each for each in self.permissions_by_key.values() if each.user == user]

    def permissions_in(self, vhost: str) -> list[Permission]:
        return [each for each in self.permissions_by_key.values() if each.vhost == vhost]

    def take_user(self, user: User) -> None:
        """Out of a state that is being read, as the following."""
        self.users[user.name] = user

    def take(self, permission: Permission) -> None:
        self.permissions_by_key[permission.user, permission.vhost] = permission

    def take_topic(self, permission: TopicPermission) -> None:
        key = (permission.user, permission.vhost, permission.exchange)
        self.topic_permissions_by_key[key] = permission

    def be(self, new: "Access") -> None:
        """Have the contents of one that is of no use any more."""
        self.version = new.version
        self.users = new.users
        self.permissions_by_key = new.permissions_by_key
        self.topic_permissions_by_key = new.topic_permissions_by_key

"""The users that a configuration names: a node without any makes them when it starts."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from node.auth.passwords import Hashing, hash_password, new_salt
from queues.definitions.metadata.commands import Command, PutUser, SetPermissions

if TYPE_CHECKING:
    from node.config.settings import UserConfig


class FirstUsers:
    """Hashes their passwords, each at most once. That takes as long as a tenth of a start."""

    def __init__(self, users: "Sequence[UserConfig]", hashing: Hashing) -> None:
        """`hashing` is for those that come with a password, not with its hash."""
        self._users = users
        self._hashing = hashing
        self._hashes: Future[list[str]] | None = None

    def hash_ahead(self) -> None:
        """Begin in a thread, while the node does something else: they will be wanted."""
        thread = ThreadPoolExecutor(1, "first-users")
        self._hashes = thread.submit(self._hashed)
        thread.shutdown(wait=False)

    def commands(self) -> list[Command]:
        """What makes the users and gives them their permissions. Waits for the hashes."""
        if self._hashes is None:
            self.hash_ahead()
        assert self._hashes is not None
        commands: list[Command] = []
        for user, hashed in zip(self._users, self._hashes.result(), strict=True):
            hashing = user.hashing if user.password is None else self._hashing
            commands.append(PutUser(user.name, hashed, hashing, user.tags))
            commands += [
                SetPermissions(user.name, each.vhost, each.configure, each.write, each.read)
                for each in user.permissions
            ]
        return commands

    def _hashed(self) -> list[str]:
        return [
            user.password_hash or ""
            if user.password is None
            else hash_password(user.password, self._hashing, new_salt())
            for user in self._users
        ]

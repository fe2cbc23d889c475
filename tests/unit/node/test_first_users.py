"""Users of the configuration become commands, their passwords hashed at most once."""

from node.auth.passwords import password_matches
from node.config.settings import load
from node.first_users import FirstUsers
from queues.definitions.metadata.commands import PutUser, SetPermissions


def test_users_get_their_hashes_and_permissions() -> None:
    config = load(sets=("default_user=anna", "default_pass=secret"))
    first = FirstUsers(config.first_users(), "argon2id")
    first.hash_ahead()
    user, permissions = first.commands()
    assert isinstance(user, PutUser) and user.name == "anna"
    assert password_matches(user.password_hash, user.hashing, b"secret")
    assert permissions == SetPermissions("anna", "/", ".*", ".*", ".*")


def test_a_hash_is_made_once() -> None:
    first = FirstUsers(load().first_users(), "argon2id")
    assert first.commands() == first.commands()  # two hashes of a password have two salts

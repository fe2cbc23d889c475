"""What a directory lets a user do, by the groups that the user is in. Pure.

    access = access_of_groups(grants, {"cn=shop,ou=groups,dc=example,dc=org"})

`auth_ldap.grants` names groups with tags and permissions. `GroupAccess` answers as the definitions
do for users (`node.auth.access.AccessView`), for the one connection that has logged in: the
definitions need not know the user.
"""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from node.auth.access import UserRecord

if TYPE_CHECKING:
    from node.config.config_back_ends import LdapGrant

NOTHING: Final = "^$"
BETWEEN: Final = re.compile(r"\s*([,=+])\s*")  # parts of a DN


class Rights(Struct, frozen=True):
    """What a back end says of a user that it knows. `access` None: the definitions decide."""

    tags: tuple[str, ...] = ()
    access: "GroupAccess | None" = None


class GroupAccess:
    """Keeps `AccessView`; immutable."""

    def __init__(self, grants: "Sequence[LdapGrant]") -> None:
        self._grants = grants

    @property
    def version(self) -> int:
        return 0

    def user(self, name: str) -> UserRecord | None:
        return None

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        """See `AccessView`: what any of the groups may, the user may."""
        here = [each for grant in self._grants for each in grant.permissions if each.vhost == vhost]
        if not here:
            return None
        return (
            any_of([each.configure for each in here]),
            any_of([each.write for each in here]),
            any_of([each.read for each in here]),
        )

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        return None


def rights_of_groups(grants: "Sequence[LdapGrant]", groups: Collection[str]) -> Rights:
    """Of a user in these groups, which are named by their DNs."""
    known = {normal(name) for name in groups}
    found = [grant for grant in grants if normal(grant.group) in known]
    tags = dict.fromkeys(tag for grant in found for tag in grant.tags)
    return Rights(tuple(tags), GroupAccess(found))


def normal(name: str) -> str:
    """A DN in one form: directories compare without case, and spaces between parts do not count."""
    return BETWEEN.sub(r"\1", name.strip()).lower()


def any_of(expressions: Sequence[str]) -> str:
    """One expression that is found where any of these is; '' allows nothing."""
    given = [each for each in dict.fromkeys(expressions) if each]
    if len(given) < 2:
        return given[0] if given else NOTHING
    return "|".join(f"(?:{each})" for each in given)

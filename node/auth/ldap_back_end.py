"""The back end `ldap`: a directory checks passwords, and says in which groups a user is.

A login binds with the name that `user_dn_pattern` makes of the user's, or with the DN that a search
finds. The library blocks: it runs in threads, as many as there may be connections, and its sockets
have the time limit of the settings. Each login has a connection of its own.
"""

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from node.auth.back_ends import BackEndDown, BackEndsUnavailable
from node.auth.grants import Rights, rights_of_groups
from node.auth.login import on_one_line

if TYPE_CHECKING:
    from node.config.config_back_ends import AuthLdapSection

USERNAME: Final = "${username}"
SPECIAL: Final = frozenset('\\,+"<>;=\0')  # in a value of a DN (RFC 4514)
SUCCESS: Final = 0
NO_SUCH_OBJECT: Final = 32
MEMBERS: Final = ("member", "uniqueMember")  # attributes of groups
# Bind results that are about this user: inappropriate authentication, invalid credentials,
# insufficient access, unwilling, constraint violation, bad DN, no such object.
REFUSALS: Final = frozenset({19, NO_SUCH_OBJECT, 34, 48, 49, 50, 53})


class LdapBackEnd:
    """See the module."""

    name = "ldap"

    def __init__(self, section: "AuthLdapSection", has_rights: bool = False) -> None:
        """`has_rights`: groups of the directory say what users may.
        BackEndsUnavailable: ldap3 is not installed, or the certificates cannot be read."""
        try:
            import ldap3  # noqa: F401
        except ImportError as error:
            text = "'ldap' is in auth_backends and ldap3 is not installed: "
            raise BackEndsUnavailable(f"{text}pip install 'warrenmq[ldap]'") from error
        if section.cacertfile is not None:
            try:
                ssl.create_default_context(cafile=str(section.cacertfile))
            except (OSError, ssl.SSLError) as error:
                text = f"auth_ldap.cacertfile = {section.cacertfile}: {error}"
                raise BackEndsUnavailable(text) from error
        self._section = section
        self._has_rights = has_rights
        self._threads = ThreadPoolExecutor(section.connections_max, "ldap")

    async def authenticate(self, user: str, password: bytes) -> Rights | None:
        if not user or not password:
            return None  # A directory takes a bind without a password for an anonymous one.
        try:
            text = password.decode()
        except UnicodeDecodeError:
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._guarded, user, text)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # In a thread

    def _guarded(self, user: str, password: str) -> Rights | None:
        from ldap3.core.exceptions import LDAPException

        try:
            return self._authenticate(user, password)
        except (LDAPException, OSError) as error:
            text = on_one_line(str(error)) or type(error).__name__
            raise BackEndDown(text) from error

    def _authenticate(self, user: str, password: str) -> Rights | None:
        section = self._section
        looks_up = bool(section.dn_lookup_attribute)
        if looks_up and section.dn_lookup_bind != "as_user":
            with self._bound_for_search() as connection:
                name = self._found(connection, user)
        else:
            # A pattern that is the name alone takes any form that the directory knows, a DN too.
            is_bare = section.user_dn_pattern == USERNAME
            name = section.user_dn_pattern.replace(USERNAME, user if is_bare else escaped(user))
        if not name:
            return None
        connection = self._opened(name, password)
        try:
            if not connection.bind():
                _check_refusal(connection)
                return None
            if looks_up and section.dn_lookup_bind == "as_user":
                # The search says whether the user is where users have to be.
                name = self._found(connection, user)
                if not name:
                    return None
            return self._rights(connection, name) if self._has_rights else Rights()
        finally:
            connection.unbind()

    def _found(self, connection: Any, user: str) -> str:
        """The DN of the entry with that name; '': there is none, or more than one."""
        section = self._section
        wanted = f"({section.dn_lookup_attribute}={_literal(user)})"
        found = _names_of(connection, section.dn_lookup_base, wanted)
        return found[0] if len(found) == 1 else ""

    def _rights(self, connection: Any, name: str) -> Rights:
        """By the groups that have the user with this DN as a member; the user, or the account of
        this node, reads them."""
        section = self._section
        of_user = "".join(f"({each}={_literal(name)})" for each in MEMBERS)
        if not section.bind_dn:
            groups = _names_of(connection, section.group_lookup_base, f"(|{of_user})")
        else:
            with self._bound(section.bind_dn, section.bind_password) as account:
                groups = _names_of(account, section.group_lookup_base, f"(|{of_user})")
        return rights_of_groups(section.grants, groups)

    def _bound_for_search(self) -> AbstractContextManager[Any]:
        section = self._section
        if section.dn_lookup_bind == "account":
            return self._bound(section.bind_dn, section.bind_password)
        return self._bound(None, None)

    @contextmanager
    def _bound(self, name: str | None, password: str | None) -> Iterator[Any]:
        connection = self._opened(name, password)
        try:
            if not connection.bind():
                description = connection.result["description"]
                raise BackEndDown(f"the bind for searches ends with '{description}'")
            yield connection
        finally:
            connection.unbind()

    def _opened(self, name: str | None, password: str | None) -> Any:
        """A connection to the first server that answers, over TLS if that is set."""
        from ldap3 import ANONYMOUS, NONE, SIMPLE, Connection, Server, Tls
        from ldap3.core.exceptions import LDAPException

        section = self._section
        seconds = section.timeout / 1000
        is_verified = section.verify == "verify_peer"
        tls = Tls(
            validate=ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE,
            ca_certs_file=None if section.cacertfile is None else str(section.cacertfile),
        )
        fault = ""
        for host in section.servers:
            server = Server(
                host, section.port, section.use_ssl, get_info=NONE, tls=tls, connect_timeout=seconds
            )
            connection = Connection(
                server,
                name,
                password,
                authentication=SIMPLE if name else ANONYMOUS,
                receive_timeout=ceil(seconds),  # The library takes whole seconds.
                auto_referrals=False,
                check_names=False,
            )
            try:
                connection.open()
                if section.use_starttls and not connection.start_tls():
                    raise BackEndDown(f"{host} refuses StartTLS")
            except (LDAPException, OSError, BackEndDown) as error:
                fault = f"{host}: {on_one_line(str(error))}"
                connection.unbind()
                continue
            return connection
        raise BackEndDown(fault)


def _check_refusal(connection: Any) -> None:
    """The bind failed: BackEndDown unless that is about the user."""
    code = connection.result["result"]
    if code not in REFUSALS:
        raise BackEndDown(f"a bind ends with '{connection.result['description']}' ({code})")


def _names_of(connection: Any, base: str, wanted: str) -> list[str]:
    """The DNs of the entries below `base` that the filter finds."""
    connection.search(base, wanted, attributes=["1.1"])
    code = connection.result["result"]
    if code not in (SUCCESS, NO_SUCH_OBJECT):
        raise BackEndDown(f"a search ends with '{connection.result['description']}' ({code})")
    response = connection.response or []
    return [str(each["dn"]) for each in response if each["type"] == "searchResEntry"]


def _literal(text: str) -> str:
    """In a filter: what a client chooses is a value and no part of the filter."""
    from ldap3.utils.conv import escape_filter_chars

    return str(escape_filter_chars(text))


def escaped(text: str) -> str:
    """One value of a DN (RFC 4514, 2.4): what a client chooses cannot be more than that."""
    shown = "".join(f"\\{ord(each):02x}" if each in SPECIAL else each for each in text)
    if shown.startswith((" ", "#")):
        shown = f"\\{ord(shown[0]):02x}{shown[1:]}"
    if shown.endswith(" ") and len(shown) > 1:
        shown = f"{shown[:-1]}\\20"
    return shown

"""The metadata machine: all definitions of a cluster, changed by committed commands only.

`apply` reads nothing but the state and the command, so that the same commands make the same state,
outcomes and snapshot bytes on every member. What it does about policies, parameters and topic
permissions is in `metadata_rules`.

Refusals carry the code and the sentence that a client gets to see (A-03, A-04).
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, assert_never

from queues import metadata_commands as commands
from queues import metadata_rules, metadata_snapshot
from queues.arguments import is_canonical
from queues.definitions import (
    DEFAULT_VHOST,
    FIRST_UID,
    NO_ARGUMENTS,
    PREDECLARED,
    Binding,
    Definition,
    Destination,
    Exchange,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    Uid,
    User,
    VhostEntry,
)
from queues.metadata_access import Access
from queues.metadata_commands import Command
from queues.metadata_outcomes import (
    NOTHING_DELETED,
    Added,
    Batched,
    Change,
    Created,
    Deleted,
    Exists,
    Outcome,
    Refused,
    Removed,
    Replaced,
)
from queues.metadata_refusals import (
    binding_fault,
    binding_refusal,
    exchange_declare_refusal,
    exchange_delete_refusal,
    exchange_text,
    is_locked,
    locked,
    missing,
    no_vhost,
    queue_declare_refusal,
    queue_limit_refusal,
    queue_text,
    with_default_type,
)
from queues.metadata_rows import Head, Loaded, Rows, Unsaved, VhostRow, read_head
from queues.metadata_vhost import VHost
from warren.wire.errors import ReplyCode


class Metadata:
    """Invariant: `next_uid` is above every uid ever given; the dicts by uid and by owner hold
    exactly the queues of all vhosts, and those of them that are exclusive. The last state that was
    loaded or saved, and what is unsaved, make this one.
    """

    def __init__(self) -> None:
        self.applied_index = 0
        self.version = 0  # goes up with every command that changes anything
        self.next_uid: int = FIRST_UID
        self.access = Access()
        self.vhosts: dict[str, VHost] = {}
        self.parameters: dict[tuple[str, str], Parameter] = {}  # global: by component and name
        self._queues: dict[int, Queue] = {}
        self._owned: dict[str, dict[int, Queue]] = {}  # by connection id; no inner dict is empty
        self._unsaved: dict[int, Change] = {}  # by uid; see `take_unsaved`
        self._unsaved_vhosts: dict[str, None] = {}
        self._note_changes(self._add_vhost(FIRST_VHOST).changes)
        self.version = self.vhosts[DEFAULT_VHOST].version = 0

    def queue(self, uid: int) -> Queue | None:
        return self._queues.get(uid)

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    def snapshot(self) -> bytes:
        """The whole state in one piece; equal states give equal bytes."""
        return metadata_snapshot.encode(
            metadata_snapshot.Snapshot(
                self.applied_index,
                self.version,
                self.next_uid,
                self.access.version,
                tuple(self.access.users.values()),
                tuple(self.access.permissions_by_key.values()),
                tuple(metadata_snapshot.of_vhost(each) for each in self.vhosts.values()),
                tuple(self.access.topic_permissions_by_key.values()),
                tuple(self.parameters.values()),
            )
        )

    @classmethod
    def restore(cls, data: bytes) -> "Metadata":
        """The machine that gave this snapshot. BadSnapshot: the bytes are none.

        All of it is unsaved: this is how machines of earlier versions were kept.
        """
        snapshot = metadata_snapshot.decode(data)
        machine = cls._empty(
            snapshot.applied_index, snapshot.version, snapshot.next_uid, snapshot.access_version
        )
        machine._take_access(snapshot.users, snapshot.permissions, snapshot.topic_permissions)
        machine._take_rules(snapshot.parameters)
        for each in snapshot.vhosts:
            machine._take_vhost(each.entry, each.version)
            machine._take_in(each.exchanges)
            machine._take_in(each.queues)
            machine._take_in(each.bindings)
            machine._take_rules((*each.policies, *each.parameters))
        subjects: list[Definition] = [
            *snapshot.users,
            *snapshot.permissions,
            *snapshot.topic_permissions,
            *snapshot.parameters,
        ]
        for vhost in machine.vhosts.values():
            machine._unsaved_vhosts[vhost.name] = None
            subjects += vhost.definitions()
            subjects += (*vhost.policies, *vhost.parameters.values())
        machine._unsaved = {subject.uid: Added(subject) for subject in subjects}
        return machine

    @classmethod
    def load(cls, rows: Rows) -> "Metadata | None":
        """The machine whose rows these are; None if there are none. BadSnapshot: they are wrong.

        What `metadata_rows.unfinished` gives has been written.
        """
        head = read_head(rows)
        if head is None:
            return None
        assert head.redo_count == 0
        machine = cls._empty(head.applied_index, head.version, head.next_uid, head.access_version)
        loaded = Loaded(rows)
        machine._take_access(loaded.users, loaded.permissions, loaded.topic_permissions)
        for vhost in loaded.vhosts:
            machine._take_vhost(vhost.entry, vhost.version)
        machine._take_rules(loaded.policies)
        machine._take_rules(loaded.parameters)
        machine._take_in(loaded.exchanges)
        machine._take_in(loaded.queues)
        machine._take_in(loaded.bindings)
        return machine

    @classmethod
    def _empty(cls, index: int, version: int, next_uid: int, access_version: int) -> "Metadata":
        machine = cls()
        machine.applied_index = index
        machine.version = version
        machine.next_uid = next_uid
        machine.access.version = access_version
        machine.vhosts.clear()
        machine._unsaved.clear()
        machine._unsaved_vhosts.clear()
        return machine

    def _take_access(
        self,
        users: Iterable[User],
        permissions: Iterable[Permission],
        topic_permissions: Iterable[TopicPermission],
    ) -> None:
        self.access.users = {each.name: each for each in users}
        self.access.permissions_by_key = {(each.user, each.vhost): each for each in permissions}
        self.access.topic_permissions_by_key = {
            (each.user, each.vhost, each.exchange): each for each in topic_permissions
        }

    def _take_rules(self, subjects: Iterable[Policy | Parameter]) -> None:
        for subject in subjects:
            if isinstance(subject, Policy):
                self.vhosts[subject.vhost].policies.put(subject)
            else:
                self._parameters_of(subject.vhost)[subject.component, subject.name] = subject

    def _parameters_of(self, vhost: str) -> dict[tuple[str, str], Parameter]:
        return self.vhosts[vhost].parameters if vhost else self.parameters

    def _take_vhost(self, entry: VhostEntry, version: int) -> None:
        vhost = self.vhosts[entry.name] = VHost(entry)
        vhost.version = version

    def _take_in(self, subjects: Iterable[Exchange | Queue | Binding]) -> None:
        for subject in subjects:
            vhost = self.vhosts[subject.vhost]
            if isinstance(subject, Binding):
                vhost.add(vhost.shared(subject))
            else:
                vhost.add(subject)
            if isinstance(subject, Queue):
                self._note_queue(subject)

    @property
    def unsaved_count(self) -> int:
        """How many objects have changed since `take_unsaved`."""
        return len(self._unsaved)

    def take_unsaved(self) -> Unsaved:
        """What has changed since the last time, and what all of it is the state of."""
        head = Head(self.applied_index, self.version, self.next_uid, self.access.version)
        vhosts = [
            VhostRow(self.vhosts[name].entry, self.vhosts[name].version)
            for name in self._unsaved_vhosts
            if name in self.vhosts
        ]
        changes = self._unsaved.values()
        self._unsaved = {}
        self._unsaved_vhosts = {}
        return Unsaved(head, vhosts, changes)

    def apply(self, index: int, command: Command) -> Outcome:
        """Change the state by the committed command at `index` of the log."""
        assert index > self.applied_index
        self.applied_index = index
        return self._apply(command)

    def _apply(self, command: Command) -> Outcome:
        if isinstance(command, commands.Batch):
            outcomes = tuple(self._apply(each) for each in command.commands)
            return Batched(outcomes, tuple(each for one in outcomes for each in one.changes))
        outcome = self._carry_out(command)
        if outcome.changes:
            self._note_changes(outcome.changes)
        return outcome

    def _carry_out(self, command: Command) -> Outcome:
        match command:
            case commands.DeclareVhost():
                return self._declare_vhost(command)
            case commands.DeleteVhost():
                return self._delete_vhost(command)
            case commands.PutUser():
                return self._put_user(command)
            case commands.DeleteUser():
                return self._delete_user(command)
            case commands.SetPermissions():
                return self._set_permissions(command)
            case commands.ClearPermissions():
                return self._clear_permissions(command)
            case commands.SetTopicPermissions():
                has_vhost = command.vhost in self.vhosts
                return metadata_rules.set_topic_permissions(
                    self.access, has_vhost, command, self._take_uid
                )
            case commands.ClearTopicPermissions():
                return metadata_rules.clear_topic_permissions(self.access, command)
            case commands.PutParameter() | commands.DeleteParameter():
                return self._change_parameter(command)
            case commands.DeleteByOwner(connection, queue_max):
                owned = self._owned.get(connection, {}).values()
                return self._delete_queues(list(islice(owned, queue_max or None)))
            case commands.NodeRestarted():
                return self._restart_node(command)
            case commands.Batch():
                raise AssertionError("a batch is taken apart before")
            case _:
                vhost = self.vhosts.get(command.vhost)
                if vhost is None:
                    return no_vhost(command.vhost)
                return self._carry_out_in(vhost, command)

    def _carry_out_in(self, vhost: VHost, command: "InVhost") -> Outcome:
        match command:
            case commands.DeclareExchange():
                return self._declare_exchange(vhost, command)
            case commands.DeleteExchange():
                return _delete_exchange(vhost, command)
            case commands.DeclareQueue():
                return self._declare_queue(vhost, command)
            case commands.DeleteQueue():
                return self._delete_queue(vhost, command)
            case commands.Bind():
                return self._bind(vhost, command)
            case commands.Unbind():
                return _unbind(vhost, command)
            case commands.PutPolicy():
                return metadata_rules.put_policy(vhost, command, self._take_uid)
            case commands.DeletePolicy():
                return metadata_rules.delete_policy(vhost, command)
            case _:
                assert_never(command)

    # Bookkeeping

    def _take_uid(self) -> Uid:
        uid = self.next_uid
        self.next_uid += 1
        return Uid(uid)

    def _note_changes(self, changes: tuple[Change, ...]) -> None:
        """Raise the versions of everything that the changes touch, and mind queues that went."""
        self.version += 1
        touched: dict[str, None] = {}
        access_touched = False
        for change in changes:
            subject = change.subject
            self._unsaved[subject.uid] = change
            if isinstance(subject, User | Permission | TopicPermission):
                access_touched = True
            if isinstance(subject, VhostEntry):
                touched[subject.name] = None
            elif not isinstance(subject, User):
                touched[subject.vhost] = None  # "" for what is global: no vhost has that name.
            if isinstance(subject, Queue) and isinstance(change, Removed):
                self._forget_queue(subject)
        self.access.version += access_touched
        self._unsaved_vhosts.update(touched)
        for name in touched:
            if name in self.vhosts:
                self.vhosts[name].version += 1

    def _note_queue(self, queue: Queue) -> None:
        self._queues[queue.uid] = queue
        if queue.exclusive_owner:
            self._owned.setdefault(queue.exclusive_owner, {})[queue.uid] = queue

    def _forget_queue(self, queue: Queue) -> None:
        del self._queues[queue.uid]
        if queue.exclusive_owner:
            owned = self._owned[queue.exclusive_owner]
            del owned[queue.uid]
            if not owned:
                del self._owned[queue.exclusive_owner]

    # Vhosts, users, permissions

    def _add_vhost(self, command: commands.DeclareVhost) -> Created:
        vhost = VHost(_entry_of(self._take_uid(), command))
        name = command.name
        self.vhosts[name] = vhost
        changes: list[Change] = [Added(vhost.entry)]
        for exchange, kind, internal in PREDECLARED:
            uid = self._take_uid()
            made = Exchange(uid, name, exchange, kind, True, False, internal, NO_ARGUMENTS)
            changes.append(vhost.add(made))
        return Created(vhost.entry, tuple(changes))

    def _declare_vhost(self, command: commands.DeclareVhost) -> Outcome:
        vhost = self.vhosts.get(command.name)
        if vhost is None:
            return self._add_vhost(command)
        entry = _entry_of(vhost.entry.uid, command)
        if entry == vhost.entry:
            return Exists(entry)
        vhost.entry = entry
        return Created(entry, (Replaced(entry),))

    def _delete_vhost(self, command: commands.DeleteVhost) -> Outcome:
        vhost = self.vhosts.get(command.name)
        if vhost is None:
            return NOTHING_DELETED
        permissions = self.access.permissions_in(command.name)
        for permission in permissions:
            del self.access.permissions_by_key[permission.user, permission.vhost]
        topics = self.access.topic_permissions_by_key.values()
        of_vhost = [each for each in topics if each.vhost == command.name]
        changes: list[Change] = [Removed(each) for each in permissions]
        changes += metadata_rules.forget_topic_permissions(self.access, of_vhost)
        changes += metadata_rules.forget_rules_of(vhost)
        changes += [Removed(each) for each in reversed(list(vhost.definitions()))]
        changes.append(Removed(vhost.entry))
        del self.vhosts[command.name]
        return Deleted((vhost.entry,), tuple(changes))

    def _put_user(self, command: commands.PutUser) -> Outcome:
        old = self.access.users.get(command.name)
        uid = self._take_uid() if old is None else old.uid
        user = User(uid, command.name, command.password_hash, command.hashing, command.tags)
        if user == old:
            return Exists(user)
        self.access.users[command.name] = user
        return Created(user, (Added(user) if old is None else Replaced(user),))

    def _delete_user(self, command: commands.DeleteUser) -> Outcome:
        user = self.access.users.pop(command.name, None)
        if user is None:
            return NOTHING_DELETED
        rights = metadata_rules.forget_user(self.access, self.parameters, command.name)
        return Deleted((user,), (*rights, Removed(user)))

    def _set_permissions(self, command: commands.SetPermissions) -> Outcome:
        if command.user not in self.access.users:
            return Refused(ReplyCode.NOT_FOUND, f"no user '{command.user}'")
        if command.vhost not in self.vhosts:
            return Refused(ReplyCode.NOT_FOUND, f"no vhost '{command.vhost}'")
        key = (command.user, command.vhost)
        old = self.access.permissions_by_key.get(key)
        uid = self._take_uid() if old is None else old.uid
        new = Permission(uid, *key, command.configure, command.write, command.read)
        if new == old:
            return Exists(new)
        self.access.permissions_by_key[key] = new
        return Created(new, (Added(new) if old is None else Replaced(new),))

    def _clear_permissions(self, command: commands.ClearPermissions) -> Outcome:
        old = self.access.permissions_by_key.pop((command.user, command.vhost), None)
        return NOTHING_DELETED if old is None else Deleted((old,), (Removed(old),))

    def _change_parameter(
        self, command: commands.PutParameter | commands.DeleteParameter
    ) -> Outcome:
        if command.vhost and command.vhost not in self.vhosts:
            return no_vhost(command.vhost)
        parameters = self._parameters_of(command.vhost)
        if isinstance(command, commands.DeleteParameter):
            return metadata_rules.delete_parameter(parameters, command)
        return metadata_rules.put_parameter(parameters, command, self._take_uid)

    # Exchanges, queues, bindings

    def _declare_exchange(self, vhost: VHost, command: commands.DeclareExchange) -> Outcome:
        assert is_canonical(command.arguments)
        refusal = exchange_declare_refusal(vhost, command)
        if refusal is not None:
            return refusal
        old = vhost.exchanges.get(command.name)
        if old is not None:
            return Exists(old)
        exchange = Exchange(
            self._take_uid(),
            vhost.name,
            command.name,
            command.type,
            command.durable,
            command.auto_delete,
            command.internal,
            command.arguments,
        )
        return Created(exchange, (vhost.add(exchange),))

    def _declare_queue(self, vhost: VHost, command: commands.DeclareQueue) -> Outcome:
        assert command.name and is_canonical(command.arguments)
        if vhost.entry.default_queue_type:
            command = with_default_type(command, vhost.entry.default_queue_type)
        refusal = queue_declare_refusal(vhost, command)
        if refusal is not None:
            return refusal
        old = vhost.queues.get(command.name)
        if old is not None:
            return Exists(old)
        refusal = queue_limit_refusal(vhost, command)
        if refusal is not None:
            return refusal
        queue = Queue(
            self._take_uid(),
            vhost.name,
            command.name,
            command.durable,
            command.exclusive_owner,
            command.auto_delete,
            command.arguments,
            command.node,
        )
        self._note_queue(queue)
        return Created(queue, (vhost.add(queue),))

    def _delete_queue(self, vhost: VHost, command: commands.DeleteQueue) -> Outcome:
        queue = vhost.queues.get(command.name)
        if queue is None or command.uid not in (0, queue.uid):
            return NOTHING_DELETED
        if is_locked(queue, command.connection):
            return locked(queue)
        return self._delete_queues([queue])

    def _delete_queues(self, queues: list[Queue]) -> Deleted:
        changes: list[Change] = []
        for queue in queues:
            changes += self.vhosts[queue.vhost].remove(queue)
        return Deleted(tuple(queues), tuple(changes))

    def _bind(self, vhost: VHost, command: commands.Bind) -> Outcome:
        assert is_canonical(command.arguments)
        refusal = binding_refusal(vhost, command)
        if refusal is not None:
            return refusal
        source = vhost.exchanges.get(command.source)
        if source is None:
            return missing(exchange_text(command.source, vhost))
        if command.destination_kind is Destination.QUEUE:
            queue = vhost.queues.get(command.destination)
            target = 0 if queue is None else queue.uid
            text = queue_text(command.destination, vhost)
        else:
            exchange = vhost.exchanges.get(command.destination)
            target = 0 if exchange is None else -exchange.uid
            text = exchange_text(command.destination, vhost)
        if target == 0:
            return missing(text)
        return self._bind_found(vhost, source, target, command)

    def _bind_found(
        self, vhost: VHost, source: Exchange, target: int, command: commands.Bind
    ) -> Outcome:
        old = vhost.binding(_binding_key(command))
        if old is not None:
            return Exists(old)
        refusal = binding_fault(source, command)
        if refusal is not None:
            return refusal
        binding = Binding(self._take_uid(), vhost.name, *_binding_key(command), target)
        shared = vhost.shared(binding)
        return Created(shared, (vhost.add(shared),))

    def _restart_node(self, command: commands.NodeRestarted) -> Outcome:
        queues = [
            queue
            for vhost in self.vhosts.values()
            for queue in vhost.queues.values()
            if queue.node == command.node and not queue.outlives_restart
        ]
        deleted = self._delete_queues(queues)
        subjects: list[Definition] = list(deleted.subjects)
        changes = list(deleted.changes)
        for vhost in self.vhosts.values() if command.alone else ():
            for exchange in list(vhost.exchanges.values()):
                if not exchange.durable and vhost.exchanges.get(exchange.name) is exchange:
                    subjects.append(exchange)
                    changes += vhost.remove(exchange)
        return Deleted(tuple(subjects), tuple(changes))


InVhost = (
    commands.DeclareExchange
    | commands.DeleteExchange
    | commands.DeclareQueue
    | commands.DeleteQueue
    | commands.Bind
    | commands.Unbind
    | commands.PutPolicy
    | commands.DeletePolicy
)

FIRST_VHOST: Final = commands.DeclareVhost(DEFAULT_VHOST, "Default virtual host")


def _entry_of(uid: Uid, command: commands.DeclareVhost) -> VhostEntry:
    return VhostEntry(
        uid,
        command.name,
        command.description,
        command.tags,
        command.default_queue_type,
        command.tracing,
        command.protected,
    )


def _delete_exchange(vhost: VHost, command: commands.DeleteExchange) -> Outcome:
    refusal = exchange_delete_refusal(vhost, command)
    if refusal is not None:
        return refusal
    exchange = vhost.exchanges.get(command.name)
    if exchange is None:
        return NOTHING_DELETED
    return Deleted((exchange,), tuple(vhost.remove(exchange)))


def _unbind(vhost: VHost, command: commands.Unbind) -> Outcome:
    refusal = binding_refusal(vhost, command)
    if refusal is not None:
        return refusal
    binding = vhost.binding(_binding_key(command))
    if binding is None:
        return NOTHING_DELETED
    return Deleted((binding,), tuple(vhost.remove(binding)))


def _binding_key(
    command: commands.Bind | commands.Unbind,
) -> tuple[str, Destination, str, bytes, bytes]:
    return (
        command.source,
        command.destination_kind,
        command.destination,
        command.binding_key,
        command.arguments,
    )

"""The metadata machine: all definitions of a cluster, changed by committed commands only.

`apply` reads nothing but the state and the command, so that the same commands make the same state,
outcomes and snapshot bytes on every member. What it does about policies and parameters is in
`rules`, about users and permissions in `users`.

Refusals carry the code and the sentence that a client gets to see.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, assert_never

from msgspec.structs import replace

from queues.definitions.arguments import decode_arguments, is_canonical
from queues.definitions.broker_objects import (
    DEFAULT_VHOST,
    FIRST_UID,
    NO_ARGUMENTS,
    PREDECLARED,
    Binding,
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
from queues.definitions.members import Member, Process, process_of_connection
from queues.definitions.metadata import bindings as metadata_bindings
from queues.definitions.metadata import commands
from queues.definitions.metadata import process_rows as metadata_process_rows
from queues.definitions.metadata import rules as metadata_rules
from queues.definitions.metadata import snapshot as metadata_snapshot
from queues.definitions.metadata import users as metadata_users
from queues.definitions.metadata.access import Access
from queues.definitions.metadata.cluster import (
    Processes,
    Roster,
    RosterRow,
    first_mirrors,
    refused,
    with_members,
)
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import (
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
from queues.definitions.metadata.process_rows import ProcessRow
from queues.definitions.metadata.refusals import (
    exchange_declare_refusal,
    is_locked,
    locked,
    no_vhost,
    queue_declare_refusal,
    queue_limit_refusal,
    with_default_type,
)
from queues.definitions.metadata.rows import Head, Loaded, Rows, Saved, Unsaved, VhostRow, read_head
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_options import EXPIRES
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
        self.roster = Roster()
        self.processes = Processes()
        self._queues: dict[int, Queue] = {}
        self._of_process: dict[int, dict[int, Queue]] = {}  # no inner dict is empty
        self._owned: dict[str, dict[int, Queue]] = {}  # by connection id; no inner dict is empty
        self._unsaved: dict[int, Change] = {}  # by uid; see `take_unsaved`
        self._unsaved_vhosts: dict[str, None] = {}
        self._unsaved_processes: dict[int, None] = {}
        self._is_roster_unsaved = False
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
                self.roster_row(),
                tuple(
                    metadata_process_rows.row_of(self.processes.batches[each])
                    for each in sorted(self.processes.batches)
                ),
            )
        )

    @classmethod
    def restore(cls, data: bytes) -> "Metadata":
        """The machine that gave this snapshot. BadSnapshot: the bytes are none.

        All of it is unsaved: this is how machines of earlier versions were kept.
        """
        snapshot = metadata_snapshot.decode(data)
        machine = cls.empty(
            snapshot.applied_index, snapshot.version, snapshot.next_uid, snapshot.access_version
        )
        machine.take_access(snapshot.users, snapshot.permissions, snapshot.topic_permissions)
        machine.take_rules(snapshot.parameters)
        for each in snapshot.vhosts:
            machine.take_vhost(each.entry, each.version)
            machine.take_in(each.exchanges)
            machine.take_in(each.queues)
            machine.take_in(each.bindings)
            machine.take_rules((*each.policies, *each.parameters))
        if snapshot.roster is not None:
            machine.take_cluster(snapshot.roster, snapshot.processes)
        machine._is_roster_unsaved = True
        machine._unsaved_processes = dict.fromkeys(machine.processes.batches)
        subjects: list[Saved] = [
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
        machine = cls.empty(head.applied_index, head.version, head.next_uid, head.access_version)
        loaded = Loaded(rows)
        machine.take_access(loaded.users, loaded.permissions, loaded.topic_permissions)
        for vhost in loaded.vhosts:
            machine.take_vhost(vhost.entry, vhost.version)
        machine.take_rules(loaded.policies)
        machine.take_rules(loaded.parameters)
        machine.take_in(loaded.exchanges)
        machine.take_in(loaded.queues)
        machine.take_in(loaded.bindings)
        if loaded.roster is not None:
            machine.take_cluster(loaded.roster, loaded.processes)
        return machine

    @classmethod
    def empty(cls, index: int, version: int, next_uid: int, access_version: int) -> "Metadata":
        machine = cls()
        machine.applied_index = index
        machine.version = version
        machine.next_uid = next_uid
        machine.access.version = access_version
        machine.vhosts.clear()
        machine._unsaved.clear()
        machine._unsaved_vhosts.clear()
        return machine

    def roster_row(self) -> RosterRow:
        return self.roster.row(list(self.processes.ended))

    def take_cluster(self, roster: RosterRow, rows: Iterable[ProcessRow]) -> None:
        self.roster.take(roster)
        self.processes.ended = dict.fromkeys(roster.ended)
        for row in rows:
            self.take_process(row)

    def take_process(self, row: ProcessRow) -> None:
        self.processes.up[row.process.node] = row.process
        self.processes.batches[row.process.incarnation] = metadata_process_rows.batches_of(row)

    def be(self, new: "Metadata") -> None:
        """Have the state of a machine that is of no use any more, itself left as unsaved as it
        was; for `metadata_stream.become`."""
        self.applied_index = new.applied_index
        self.version = new.version
        self.next_uid = new.next_uid
        self.access.be(new.access)
        self.vhosts = new.vhosts
        self.parameters = new.parameters
        self.roster = new.roster
        self._unsaved_processes |= dict.fromkeys(self.processes.batches | new.processes.batches)
        self.processes = new.processes
        self._queues = new._queues
        self._owned = new._owned
        self._of_process = new._of_process
        self._unsaved_vhosts |= dict.fromkeys(new.vhosts)
        self._is_roster_unsaved = True

    def note_unsaved(self, changes: Iterable[Change]) -> None:
        """The state has become another one by them."""
        for change in changes:
            if not isinstance(change.subject, (Member, Process)):
                self._unsaved[change.subject.uid] = change

    def take_access(
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

    def take_rules(self, subjects: Iterable[Policy | Parameter]) -> None:
        for subject in subjects:
            if isinstance(subject, Policy):
                self.vhosts[subject.vhost].policies.put(subject)
            else:
                self._parameters_of(subject.vhost)[subject.component, subject.name] = subject

    def _parameters_of(self, vhost: str) -> dict[tuple[str, str], Parameter]:
        return self.vhosts[vhost].parameters if vhost else self.parameters

    def take_vhost(self, entry: VhostEntry, version: int) -> None:
        vhost = self.vhosts[entry.name] = VHost(entry)
        vhost.version = version

    def take_in(self, subjects: Iterable[Exchange | Queue | Binding]) -> None:
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

    def take_unsaved(self, point: bytes = b"") -> Unsaved:
        """What has changed since the last time, and what all of it is the state of; `point` is
        opaque, and is kept in the head."""
        head = Head(self.applied_index, self.version, self.next_uid, self.access.version, 0, point)
        vhosts = [
            VhostRow(self.vhosts[name].entry, self.vhosts[name].version)
            for name in self._unsaved_vhosts
            if name in self.vhosts
        ]
        changes = self._unsaved.values()
        batches = self.processes.batches
        processes = {
            each: metadata_process_rows.row_of(batches[each]) if each in batches else None
            for each in self._unsaved_processes
        }
        roster = self.roster_row() if self._is_roster_unsaved else None
        self._unsaved = {}
        self._unsaved_vhosts = {}
        self._unsaved_processes = {}
        self._is_roster_unsaved = False
        return Unsaved(head, vhosts, changes, roster, processes)

    def apply(self, index: int, command: Command) -> Outcome:
        """Change the state by the committed command at `index` of the log."""
        assert index > self.applied_index
        self.applied_index = index
        return self._apply(command)

    def pass_over(self, index: int) -> None:
        """The entry at `index` of the log is none for the machine."""
        assert index > self.applied_index
        self.applied_index = index

    def _apply(self, command: Command) -> Outcome:
        if isinstance(command, commands.Batch):
            outcomes = tuple(self._apply(each) for each in command.commands)
            return _batched(outcomes)
        if isinstance(command, commands.Numbered):
            return self._apply_numbered(command)
        outcome = self._carry_out(command)
        if outcome.changes:
            self._note_changes(outcome.changes)
        return outcome

    def _apply_numbered(self, command: commands.Numbered) -> Outcome:
        """A batch of a process: now, if it is the next one, and never again."""
        if not command.commands:
            return NOT_IN_TURN
        done: list[Outcome] = []
        batches = self.processes.batches.get(command.process)
        if batches is None:
            first = command.commands[0]
            begins = isinstance(first, commands.NodeUp) and first.process == command.process
            if not begins or command.number != 1:
                return refused(f"process {command.process:016x} has ended")
            done.append(self._apply(first))
            if command.process not in self.processes.batches:
                return done[0]
        elif command.number != batches.last + 1:
            return NOT_IN_TURN
        done += [self._apply(each) for each in command.commands[len(done) :]]
        batches = self.processes.batches.get(command.process)
        if batches is not None:  # Else it has ended, by its own word or as it began.
            batches.applied(command, tuple(done))
            self._unsaved_processes[command.process] = None
        return _batched(tuple(done))

    def _carry_out(self, command: Command) -> Outcome:
        match command:
            case commands.DeclareVhost():
                return self._declare_vhost(command)
            case commands.DeleteVhost():
                return self._delete_vhost(command)
            case commands.PutUser():
                return metadata_users.put_user(self.access, command, self._take_uid)
            case commands.DeleteUser():
                return metadata_users.delete_user(self.access, self.parameters, command)
            case commands.SetPermissions():
                return metadata_users.set_permissions(
                    self.access, command.vhost in self.vhosts, command, self._take_uid
                )
            case commands.ClearPermissions():
                return metadata_users.clear_permissions(self.access, command)
            case commands.SetTopicPermissions():
                return metadata_users.set_topic_permissions(
                    self.access, command.vhost in self.vhosts, command, self._take_uid
                )
            case commands.ClearTopicPermissions():
                return metadata_users.clear_topic_permissions(self.access, command)
            case commands.PutParameter() | commands.DeleteParameter():
                return self._change_parameter(command)
            case commands.DeleteByOwner(connection, queue_max):
                owned = self._owned.get(connection, {}).values()
                return self._delete_queues(list(islice(owned, queue_max or None)))
            case commands.Batch() | commands.Numbered():
                raise AssertionError("a batch is taken apart before")
            case commands.SetQueueMembers() | commands.RecoverQueue() | commands.SetMirrorView():
                return self._set_queue_members(command)
            case commands.NodeDown():
                return self._end_process(command)
            case commands.DeleteByNode():
                return self._delete_by_node(command)
            case (
                commands.Found()
                | commands.AddMember()
                | commands.PutMember()
                | commands.RemoveMember()
                | commands.NodeUp()
            ):
                return self._change_cluster(command)
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
                return metadata_bindings.delete_exchange(vhost, command)
            case commands.DeclareQueue():
                return self._declare_queue(vhost, command)
            case commands.DeleteQueue():
                return self._delete_queue(vhost, command)
            case commands.Bind():
                return metadata_bindings.bind(vhost, command, self._take_uid)
            case commands.Unbind():
                return metadata_bindings.unbind(vhost, command)
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
            if isinstance(subject, (Member, Process)):
                self._note_cluster(subject)
                continue
            self._unsaved[subject.uid] = change
            if isinstance(subject, (User, Permission, TopicPermission)):
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
        if queue.process:
            self._of_process.setdefault(queue.process, {})[queue.uid] = queue

    def _forget_queue(self, queue: Queue) -> None:
        del self._queues[queue.uid]
        if queue.exclusive_owner:
            owned = self._owned[queue.exclusive_owner]
            del owned[queue.uid]
            if not owned:
                del self._owned[queue.exclusive_owner]
        if queue.process:
            of_process = self._of_process[queue.process]
            del of_process[queue.uid]
            if not of_process:
                del self._of_process[queue.process]

    def _note_cluster(self, subject: Member | Process) -> None:
        self.roster.changed_index = self.applied_index
        self._is_roster_unsaved = True
        if isinstance(subject, Process):
            self._unsaved_processes[subject.incarnation] = None

    # Vhosts, parameters

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
        changes: list[Change] = list(
            metadata_users.forget_permissions_in(self.access, command.name)
        )
        changes += metadata_rules.forget_rules_of(vhost)
        changes += [Removed(each) for each in reversed(list(vhost.definitions()))]
        changes.append(Removed(vhost.entry))
        del self.vhosts[command.name]
        return Deleted((vhost.entry,), tuple(changes))

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

    def existing(self, command: commands.DeclareQueue | commands.DeclareExchange) -> Exists | None:
        """What the command would find if it were applied now and changed nothing; None: it has to
        be applied. So it has if the object may be about to go, by expiry or with its user: the
        command comes behind that in the log."""
        vhost = self.vhosts.get(command.vhost)
        if vhost is None:
            return None
        if isinstance(command, commands.DeclareExchange):
            exchange = vhost.exchanges.get(command.name)
            if exchange is None or not exchange.durable or exchange.auto_delete:
                return None
            return Exists(exchange) if exchange_declare_refusal(vhost, command) is None else None
        queue = vhost.queues.get(command.name)
        if queue is None or not queue.durable or queue.auto_delete or queue.exclusive_owner:
            return None
        if EXPIRES in decode_arguments(queue.arguments):
            return None
        if vhost.entry.default_queue_type:
            command = with_default_type(command, vhost.entry.default_queue_type)
        return Exists(queue) if queue_declare_refusal(vhost, command) is None else None

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
        doomed = vhost.queues.get(command.name)
        if doomed is None or not self._is_doomed(doomed):
            return self._declare_queue_anew(vhost, command)
        gone = self._delete_queues([doomed])
        outcome = self._declare_queue_anew(vhost, command)
        return replace(outcome, changes=gone.changes + outcome.changes)

    def _is_doomed(self, queue: Queue) -> bool:
        """Its process has ended: it goes with one of the next entries."""
        return queue.process != 0 and queue.process not in self.processes.batches

    def _declare_queue_anew(self, vhost: VHost, command: commands.DeclareQueue) -> Outcome:
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
            self.roster.known(command.members),
            self._process_of(command),
            mirrors=first_mirrors(command, self.roster),
        )
        self._note_queue(queue)
        return Created(queue, (vhost.add(queue),))

    def _process_of(self, command: commands.DeclareQueue) -> int:
        """With which the queue goes: that of its connection, or of its home if it is transient."""
        if command.exclusive_owner:
            process = process_of_connection(command.exclusive_owner)
            return process if process in self.processes.batches else 0
        return 0 if command.durable else self.processes.incarnation_at(command.node)

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

    def _begin_process(self, command: commands.NodeUp) -> Outcome:
        """A process begins. If no other node is up, the cluster has restarted as a whole: its
        transient exchanges are gone."""
        up = self.processes.up
        is_restart = up.keys() == {command.node} and self.processes.incarnation_at(
            command.node
        ) not in (0, command.process)
        outcome = self.processes.begin(command)
        if not is_restart or isinstance(outcome, Refused):
            return outcome
        return replace(outcome, changes=(*outcome.changes, *self._delete_transient_exchanges()))

    def _delete_transient_exchanges(self) -> list[Change]:
        changes: list[Change] = []
        for vhost in self.vhosts.values():
            for exchange in list(vhost.exchanges.values()):
                if not exchange.durable and vhost.exchanges.get(exchange.name) is exchange:
                    changes += vhost.remove(exchange)
        return changes

    # The cluster

    def _change_cluster(
        self,
        command: commands.Found
        | commands.AddMember
        | commands.PutMember
        | commands.RemoveMember
        | commands.NodeUp,
    ) -> Outcome:
        match command:
            case commands.Found():
                return self.roster.found(command)
            case commands.AddMember():
                outcome = self.roster.add(command)
            case commands.PutMember():
                return self.roster.put(command)
            case commands.RemoveMember(member):
                outcome = self.roster.remove(member)
            case commands.NodeUp():
                return self._begin_process(command)
        ended: list[Change] = []
        for change in outcome.changes:
            if isinstance(change, Removed) and isinstance(change.subject, Member):
                ended += self.processes.end(change.subject.name)
        return replace(outcome, changes=(*ended, *outcome.changes)) if ended else outcome

    def _set_queue_members(
        self, command: commands.SetQueueMembers | commands.RecoverQueue | commands.SetMirrorView
    ) -> Outcome:
        old = self._queues.get(command.uid)
        if old is None:
            return Refused(ReplyCode.NOT_FOUND, f"no queue {command.uid}")
        queue = with_members(old, command, self.roster)
        if isinstance(queue, Refused):
            return queue
        if old == queue:
            return Exists(old)
        self.vhosts[queue.vhost].add(queue)
        self._note_queue(queue)
        return Created(queue, (Replaced(queue),))

    def _end_process(self, command: commands.NodeDown) -> Outcome:
        ended = self.processes.end(command.node, command.process)
        if command.process in self.processes.batches:
            return refused(f"process {command.process:016x} is not one of '{command.node}'")
        of_process = self._of_process.get(command.process, {}).values()
        deleted = self._delete_queues(list(islice(of_process, command.queue_max)))
        return Deleted(deleted.subjects, ended + deleted.changes)

    def ended_with_queues(self) -> list[int]:
        """Processes that have ended, and have queues that are still to go."""
        return [each for each in self._of_process if each not in self.processes.batches]

    def _delete_by_node(self, command: commands.DeleteByNode) -> Outcome:
        if self.roster.cluster_id == 0 or self.roster.named(command.node) is not None:
            return refused(f"node '{command.node}' was not removed from a cluster")
        lost = (queue for queue in self._queues.values() if self._is_lost(queue, command.node))
        return self._delete_queues(list(islice(lost, command.queue_max)))

    def _is_lost(self, queue: Queue, node: str) -> bool:
        """Whether no node has the queue any more, now that this one was removed."""
        if queue.mirrors is not None and queue.holders:
            return not self.roster.known(queue.holders)
        return queue.node == node and not queue.holders


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


NOT_IN_TURN: Final = Batched((), ())  # a batch that was applied before, or comes too early


def _batched(outcomes: tuple[Outcome, ...]) -> Batched:
    return Batched(outcomes, tuple(each for one in outcomes for each in one.changes))


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

"""From a configuration to a running node, and back: the order in which its parts start and stop.

Recovery runs before the listeners open: the metadata log makes the definitions, they make the
queue hosts, and the log gives each host its messages. The node says `ready` when clients may come.
A failing log stops the process at once.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import uvloop

from node.auth.back_ends import BackEndsUnavailable
from node.auth.login_rules import production_fault
from node.auth.passwords import HASHINGS
from node.auth.tokens import TokensUnavailable
from node.broker import Broker
from node.build import build_name
from node.clock import NodeClock
from node.cluster.cluster_node import Cluster
from node.cluster.membership.introducing import propose
from node.cluster.membership.membership_file import BadMembership, EnteringFailed
from node.cluster.peering.cluster_secret import BadNodeId, BadSecret, read_secret
from node.cluster.queues.stream_storage import StreamStorage
from node.cluster.wiring import ClusterParts
from node.config.default_policies import default_policies
from node.connections.amqp_listeners import SHORT_NAMES, AmqpListeners, entries_of
from node.events import logs
from node.events.slow_turns import SlowTurns
from node.federating.link_service import LinkService
from node.first_users import FirstUsers
from node.management.management_front import ManagementFront
from node.operations.resetting import wipe_if_marked
from node.operations.sighup import SighupHandler
from node.recovery.damage import LostDefinitions
from node.recovery.log_owners import QueueOwners, Recovered
from node.recovery.stored_digests import restore_digests
from node.resources.disk_monitor import DiskMonitor
from node.resources.memory import BodyPaging, MemoryKeeper, bound_allocator, memory_total_bytes
from node.resources.process_facts import ResidentMeter, raise_files_max
from node.service_manager import ALIVE, READY, STOPPING, is_watched, notify
from node.supervision import supervised, tick_or_abort
from node.timers import Timers
from node.tls.contexts import TlsFault
from node.turn import Turn
from queues.bodies.paging import Pager
from queues.bodies.store import BodyBudget
from queues.definitions.metadata.commands import Batch, Command, DeclareVhost
from queues.definitions.metadata.rows import BATCH_BYTES
from queues.definitions.metadata.snapshot import BadSnapshot
from queues.hosts.journal import Journal
from queues.sessions.credit import CreditActor, CreditSpec
from warren.storage.compaction import UnreadableFile
from warren.storage.direct import DIRECT_BYTES, DirectDisk
from warren.storage.disk import DirectoryInUse, DirectoryLock, OsDisk
from warren.storage.keyed import KeyedDamaged, RocksKeyed
from warren.storage.log_proof import NAME as LOG_PROOF
from warren.storage.log_proof import LogProof
from warren.storage.pages import Pages
from warren.storage.snapshot import SnapshotStore
from warren.storage.streams.cold_reads import ColdReads
from warren.storage.wal import Wal
from warren.storage.writing.submitted import kernel_writes

if TYPE_CHECKING:
    from node.config.settings import Config
    from node.tls.keeper import TlsKeeper

log = logging.getLogger("warren.node")

SWITCH_INTERVAL_S: Final = 0.0005  # so that the log's thread gets the interpreter in time
GC_THRESHOLDS: Final = (5_000, 3, 3_000)  # young: a millisecond or two; middle: four times that
SETTLE_DELAY_S: Final = 0.005  # settlements alone are gathered so long
OBSERVE_S: Final = 1.0  # between looks at clock, memory, disk and heartbeats
TICKS_PER_SLICE: Final = 256  # connections looked at in one go
LOG_DIRECTORY: Final = "log"
KEYED_DIRECTORY: Final = "keyed"
STREAMS_DIRECTORY: Final = "streams"
KEYED_PLACE: Final = "keyed state"  # of faults
EXIT_FAILED: Final = 1
EXIT_SOFTWARE: Final = 70  # EX_SOFTWARE
EXIT_IN_USE: Final = 75  # EX_TEMPFAIL
STARTING_FAULTS: Final = (
    OSError,
    KeyedDamaged,
    BadSnapshot,
    LostDefinitions,
    BadMembership,
    BadNodeId,
    EnteringFailed,
    TlsFault,
    TokensUnavailable,
    BackEndsUnavailable,
)


def cluster_secret(config: "Config") -> bytes | None:
    """Read the secret of the cluster; None: no listener for other nodes. BadSecret: unusable."""
    path = config.cluster.secret_file
    return None if config.listeners.cluster is None or path is None else read_secret(path)


def tls_keepers(config: "Config") -> "Mapping[str, TlsKeeper]":
    """The TLS contexts by listener. TlsFault: one of them cannot be made."""
    listeners = config.listeners
    over_tls = listeners.amqps, listeners.stream_tls, listeners.management_tls
    if not any(over_tls) and not config.cluster.tls:
        return {}
    from node.tls.tls_listeners import keepers_of

    return keepers_of(config)


def run(config: "Config") -> int:
    """Run a node until it is stopped; return the exit status."""
    try:
        logs.set_up(config.log, config.node.name)
    except OSError as error:
        print(f"log file: {error}", file=sys.stderr)
        return EXIT_FAILED
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    bound_allocator()
    raise_files_max()
    try:
        secret = cluster_secret(config)
        lock = DirectoryLock(str(config.node.data_dir))
    except DirectoryInUse as error:
        log.error("%s", error)
        return EXIT_IN_USE
    except BadSecret as error:
        log.error("%s", error)
        return EXIT_FAILED
    except OSError as error:
        is_file = isinstance(error, (FileExistsError, NotADirectoryError))
        reason = "it is a file, or in one" if is_file else error
        log.error("data directory %s: %s", config.node.data_dir, reason)
        return EXIT_FAILED
    for warning in config.warnings:
        log.warning("%s", warning)
    try:
        if wipe_if_marked(OsDisk(), str(config.node.data_dir)):
            log.warning("this node was reset: data directory %s was emptied", config.node.data_dir)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_alone(config, secret))
    except STARTING_FAULTS as error:
        log.error("%s", error)
        return EXIT_FAILED
    finally:
        lock.release()


class OwnProcess:
    """What a node does to its process, where that has no other purpose."""

    def started(self, node: "Node", line: str) -> None:
        """Clients may come; `line` says where."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        print(line, flush=True)
        notify(READY)

    def end(self, status: int) -> NoReturn:
        """At once: to go on would not be safe."""
        logging.shutdown()
        os._exit(status)


async def run_alone(config: "Config", secret: bytes | None) -> int:
    """Run a node in a process of its own; `secret` is None without a listener for other nodes."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    sighup = SighupHandler(loop)
    if config.log.file is not None:
        sighup.on_signal(logs.reopen)
    return await run_node(config, secret, stopping, sighup, OwnProcess())


async def run_node(
    config: "Config",
    secret: bytes | None,
    stopping: asyncio.Event,
    sighup: SighupHandler,
    process: OwnProcess,
) -> int:
    """Run a node on the running loop until `stopping`; the exit status."""
    disk = OsDisk()
    keepers = tls_keepers(config)
    cluster = Cluster(config, secret, disk, keepers.get("cluster.tls"))
    try:
        if not await finished(cluster.enter(), stopping):
            return 0
        return await Node(config, stopping, keepers, sighup, cluster, process).run()
    finally:
        await cluster.close()


async def finished(
    work: Coroutine[object, object, object], stopping: asyncio.Event, seconds: float | None = None
) -> bool:
    """Whether the work came to its end in time, before the node stops; else it is cancelled."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((working, waiting), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait((working,))
        return False
    working.result()
    return True


class Node:
    """One node: owns its log, its broker, its listeners."""

    def __init__(
        self,
        config: "Config",
        stopping: asyncio.Event,
        keepers: "Mapping[str, TlsKeeper]",
        sighup: SighupHandler,
        cluster: Cluster,
        process: OwnProcess,
    ) -> None:
        """`stopping` is set when the node is to stop; `keepers` are the TLS contexts by listener;
        `cluster` has entered: this node is a member of it, perhaps the only one."""
        self._config = config
        self._keepers = keepers
        self._sighup = sighup
        self._stopping = stopping
        self._cluster = cluster
        self._process = process
        self._parts: ClusterParts
        self._status = 0
        self._recovered: Recovered
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop.call_soon, self._turn_failed)
        self._slow_turns = SlowTurns()
        self.clock = NodeClock()
        disk = OsDisk()
        hashing = HASHINGS[config.auth.password_hashing]
        self._first_users = FirstUsers(config.first_users(), hashing)
        if not os.path.exists(os.path.join(config.node.data_dir, LOG_DIRECTORY)):
            self._first_users.hash_ahead()
        self.wal = self._make_wal(disk, loop)
        budget = BodyBudget(config.memory.body_budget_bytes)
        credit = CreditActor("log", CreditSpec(*config.msg_store_credit_disc_bound))
        self.journal = Journal(self.wal, budget, credit)
        self.journal.settle_later = lambda callback: loop.call_later(SETTLE_DELAY_S, callback)
        self.wal.before_upkeep = self._end_turn
        self.turn.journal = self.journal
        self.pages = self._make_pages(disk, budget, loop)
        self.turn.now_ms = self.clock.now_ms
        keyed = os.path.join(config.node.data_dir, KEYED_DIRECTORY)
        self.keyed = RocksKeyed(
            keyed, loop.call_soon_threadsafe, self._keyed_alarmed, self._keyed_healed
        )
        self._disk = disk
        self._budget = budget
        self._snapshots = SnapshotStore(self.keyed)
        self._streams = StreamStorage(
            disk,
            os.path.join(config.node.data_dir, STREAMS_DIRECTORY),
            loop.call_soon_threadsafe,
            self.turn.begin,
            self._streams_failed,
            config.streams.location(),
            lambda: f"{self.broker.metadata.roster.cluster_id:032x}",
            ColdReads(disk, DirectDisk(disk)) if config.storage.direct_io else None,
        )
        cluster.on_fatal = self._fail
        cluster.equip(self.wal, self.wal, self.turn)

    def _make_wal(self, disk: OsDisk, loop: asyncio.AbstractEventLoop) -> Wal:
        storage = self._config.storage
        directory = os.path.join(self._config.node.data_dir, LOG_DIRECTORY)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        wal = Wal(
            DirectDisk(disk, writes=kernel_writes(loop)) if storage.direct_io else disk,
            directory,
            post=loop.call_soon_threadsafe,
            on_failure=self._log_failed,
            file_bytes=storage.wal_file_bytes,
            group_bytes=storage.wal_group_bytes,
            rewrite_bytes_per_s=storage.rewrite_bytes_per_s,
            proof=LogProof(disk, str(self._config.node.data_dir), self._proof_failed),
        )
        wal.on_alarm = self._log_alarmed
        wal.on_healed = self._log_healed
        return wal

    def _make_pages(
        self, disk: OsDisk, budget: BodyBudget, loop: asyncio.AbstractEventLoop
    ) -> Pages:
        """Where bodies go that are in no log and over the budget."""
        directory = os.path.join(self._config.node.data_dir, "pages")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        pages = Pages(
            DirectDisk(disk, pads=True) if self._config.storage.direct_io else disk,
            directory,
            runner=self.wal.runner,
            post=loop.call_soon_threadsafe,
            on_alarm=self._pages_alarmed,
            on_healed=self._pages_healed,
            align_bytes=DIRECT_BYTES,
        )
        self.pager = Pager(pages, budget)
        self.turn.pager = self.pager
        pages.open()
        return pages

    async def run(self) -> int:
        """Start, serve until told to stop, stop."""
        self.broker = self._recover()
        monitor = self._set_alarms()
        listeners = AmqpListeners(self.broker, entries_of(self._config, self._keepers))
        links = LinkService(self.broker, self._copy_definitions)
        front: ManagementFront | None = None
        try:
            if await self._is_defined() and await self._is_loaded(links) and self._is_fit():
                await restore_digests(self.broker)
                self._tell_recovered()
                front = await self._open(listeners, links)
                await self._serve(monitor, links)
        except STARTING_FAULTS:
            listeners.close()
            await self._stop(front)
            raise
        listeners.close()
        await self._stop(front)
        return self._status

    async def _copy_definitions(self, vhost: str, wanted: dict[str, Any]) -> None:
        from node.standby.definition_copy import copy_definitions

        await copy_definitions(self.broker, vhost, wanted)

    async def _open(self, listeners: AmqpListeners, links: LinkService) -> ManagementFront:
        """Accept clients, and print `ready`."""
        broker = self.broker
        await listeners.open()
        front = ManagementFront(
            broker, self._keepers, listeners, links, self._stopping.set, self._fail
        )
        management = front.bind()
        front.bind_apart()
        broker.begin_service()
        self._parts.serve()
        asyncio.get_running_loop().call_soon(self._watch_turns)
        words = "".join(
            f" {SHORT_NAMES[each.protocol]}={each.host}:{each.port}" for each in listeners.entries
        )
        self._process.started(
            self, f"ready node={broker.node_name}{words}{management} build={build_name()}"
        )
        front.start(build_name())
        return front

    async def _serve(self, monitor: DiskMonitor, links: LinkService) -> None:
        """Until told to stop."""
        loop = asyncio.get_running_loop()
        watching = {
            "clock, memory and heartbeats": self._observe,
            "paging of bodies": self._page_out,
            "free disk space": monitor.run,
            "shovels and federation links": links.run,
            "warm standbys": links.standbys.run,
        }
        watchers = [loop.create_task(supervised(*each)) for each in watching.items()]
        if self._keepers:
            from node.tls.keeper import TlsWatch

            interval_s = self._config.tls.reload_interval_ms / 1000
            watch = TlsWatch(list(self._keepers.values()), interval_s)
            self._sighup.on_signal(watch.hurry)
            watchers.append(loop.create_task(supervised("certificates", watch.run)))
        await self._stopping.wait()
        for watcher in watchers:
            watcher.cancel()
        self.broker.end_service()

    # Starting

    def _is_fit(self) -> bool:
        """Whether it may serve clients; else the log says why not, and the node stops."""
        access = self.broker.metadata.access
        fault = production_fault(self._config, access, len(access.users))
        if fault:
            log.critical("%s", fault)
            self._status = EXIT_FAILED
        return not fault

    async def _is_loaded(self, links: LinkService) -> bool:
        """Import `load_definitions`; False: the node is to stop, and the log says why."""
        path = self._config.load_definitions
        if path is None:
            return True
        from node.management.definitions_load import DefinitionsLoader
        from node.management.replies import ApiError
        from node.operations.live_operations import LiveOperations

        broker, rules = self.broker, self._config.default_operator_policies
        operations, hash_of = LiveOperations(broker), broker.logins.hash_of
        default_type = self._config.default_queue_type
        loader = DefinitionsLoader(
            operations, broker.node_name, hash_of, rules, links, default_type
        )
        try:
            return await finished(loader.load(path), self._stopping)
        except (ApiError, OSError) as error:
            reason = error.reason if isinstance(error, ApiError) else error
            log.critical("load_definitions: %s cannot be imported: %s", path, reason)
            self._status = EXIT_FAILED
            return False

    async def _is_defined(self) -> bool:
        """Wait for the definitions, and have the queues begin with them; False: the node is to
        stop."""
        if not await self._knows_definitions():
            return False
        await self.broker.policies.settled()
        return await finished(self.broker.steps.release(), self._stopping)

    async def _knows_definitions(self) -> bool:
        """Wait for them; False: the node is to stop."""
        current = self._cluster.current
        is_known = self.broker.metadata.roster.cluster_id != 0
        seconds = self._config.cluster.minority_wait_ms / 1000 if is_known else None
        if not await finished(current.wait(), self._stopping, seconds):
            if self._stopping.is_set():
                return False
            log.warning(
                "no majority of the cluster can be reached: clients are served by the definitions "
                "that were known before, and nothing of them can be changed"
            )
            return True
        self._parts.pass_lost()
        # Behind what the end of the earlier process brings about: its exclusive queues are gone.
        missing = tuple(self._first_commands())
        work = propose(self._parts.definitions, Batch(missing))
        return await finished(work, self._stopping)

    def _recover(self) -> Broker:
        """Read the log; make the definitions, the queues and their messages of it."""
        collects = gc.isenabled()
        gc.disable()  # Recovery makes what will stay; looking through it again costs half the time.
        parts = self._parts = ClusterParts(
            self._cluster,
            self.keyed,
            self._snapshots,
            self.wal,
            asyncio.get_running_loop().call_later,
            self._streams,
            (self._config.testing.definitions_save_entries, BATCH_BYTES),
        )
        broker = self.broker = self._make_broker()
        broker.steps.hold()
        broker.changes.load()
        self._read_log()
        if collects:
            gc.enable()
        self.turn.begin()  # What the queues have to do first.
        self.wal.on_durable.append(self.turn.on_durable)
        parts.join(self._first_commands)
        broker.policies.begin()
        self.wal.on_behind = self._log_behind
        self.wal.attach(
            QueueOwners(
                broker.queues.hosts.awake, broker.queues.hosts.mark, broker.queues.has_group
            )
        )
        return broker

    def _make_broker(self) -> Broker:
        return Broker(
            self._config,
            self.clock,
            self.turn,
            self._parts,
            self.journal,
            self._budget,
            self.wal,
            self.pages,
            Timers(asyncio.get_running_loop().call_later, self.clock.now_ms, self.turn.begin),
            self.wal,
            self._keepers,
        )

    def _read_log(self) -> None:
        """Give the hosts what the log holds; LostDefinitions: the node must not go on with it."""
        broker = self.broker
        parts = self._parts
        recovered = Recovered(
            broker.queues.hosts.find,
            broker.queues.hosts,
            broker.queues.damages,
            lambda: broker.metadata.next_uid,
            parts,
            self.wal,
        )
        report = self.wal.open(recovered)
        for corrupt in report.corrupt:
            log.error("%s", corrupt)
        if report.torn is not None:
            log.warning("the end of %s is torn and was cut at offset %d", *report.torn)
        self._check_definitions(parts.lost(report, recovered))
        recovered.finish(report)
        self._recovered = recovered

    def _tell_recovered(self) -> None:
        """Log what the start has found, once the definitions are complete."""
        report = self.broker.queues.damages.report
        assert report is not None
        log.info(
            "recovered %d queues, %d messages, %d log records in %d files; the last stop was %s",
            self.broker.metadata.queue_count,
            self._recovered.message_count,
            report.records,
            report.files,
            "clean" if report.clean else "not clean",
        )

    def _check_definitions(self, lost: str) -> None:
        """A node that does not know its queues must not go on as if nothing were missing."""
        if not lost:
            return
        if not self._config.storage.accept_lost_definitions:
            raise LostDefinitions(
                f"{lost}. Restore the data directory, or start once with "
                "storage.accept_lost_definitions=true to go on with what was defined before that"
            )
        self._parts.accept_lost()
        log.error("%s; the node goes on with what was defined before that", lost)

    def _first_commands(self) -> list[Command]:
        """What the configuration defines and is not there, of users only the first."""
        metadata = self.broker.metadata
        known = metadata.vhosts
        commands: list[Command] = []
        is_first = not metadata.access.users
        for name in self._config.first_vhosts():
            if name not in known:
                commands.append(DeclareVhost(name))
            if name not in known or is_first:  # The machine starts with one predeclared.
                commands += default_policies(self._config.default_operator_policies, name)
        if is_first:
            commands += self._first_users.commands()
        return commands

    def _set_alarms(self) -> DiskMonitor:
        """Limits and first readings, before clients connect."""
        watermark = self._config.vm_memory_high_watermark
        total = memory_total_bytes()
        absolute = watermark.absolute
        limit = int(total * watermark.relative) if absolute is None else absolute
        alarms = self.broker.alarms
        alarms.memory_limit_bytes = limit
        alarms.disk_limit_bytes = max(
            self._config.disk_free_limit.absolute, 2 * self._config.storage.wal_file_bytes
        )
        directory = str(self._config.node.data_dir)
        alarms.disk_usage_max = self._config.addresses.max_disk_usage
        monitor = DiskMonitor(
            self._disk,
            directory,
            alarms.disk_limit_bytes,
            alarms.observe_disk,
            alarms.disk_usage_max,
        )
        alarms.observe_disk(monitor.read())
        alarms.observe_memory(ResidentMeter().read_bytes())
        return monitor

    # While it runs

    def _watch_turns(self) -> None:
        """From now on: the first turn was begun while the node started, and is as long as that."""
        self.turn.stages.on_slow = self._slow_turns.note
        self._slow_turns.watch_collections()

    def _end_turn(self) -> None:
        """What the turn has journaled so far goes into the log before the log tidies up."""
        self.journal.end_turn(self.clock.now_ms())
        self.journal.settle_now()

    def _log_alarmed(self, place: str, error: Exception) -> None:
        """Something went wrong in the background of the log; nothing is lost by it."""
        if isinstance(error, (OSError, UnreadableFile)):
            holds = isinstance(error, OSError)
            self.broker.alarms.disk_failed(place, error, self.wal.retry, holds=holds)
        else:
            log.error("%s: %s", place, error)

    def _log_healed(self, place: str) -> None:
        self.broker.alarms.disk_healed(place)

    def _keyed_alarmed(self, error: OSError) -> None:
        """It is tried again until it is through, and until then the log keeps what it needs."""
        self.broker.alarms.disk_failed(KEYED_PLACE, error)

    def _keyed_healed(self) -> None:
        self.broker.alarms.disk_healed(KEYED_PLACE)

    def _pages_alarmed(self, place: str, error: OSError) -> None:
        self.broker.alarms.disk_failed(place, error, self.pages.retry)

    def _pages_healed(self, place: str) -> None:
        self.pager.try_again()
        self.broker.alarms.disk_healed(place)

    def _log_behind(self, is_behind: bool) -> None:
        """Dead messages take too much disk: who publishes waits until some are cleared away. That
        comes and goes many times a second; what the log has of it is for `/metrics`."""
        self.broker.hold.turn(is_behind)

    def _proof_failed(self, error: OSError) -> None:
        log.warning("%s is not written any more until the next start: %s", LOG_PROOF, error)

    def _log_failed(self, error: BaseException) -> None:
        """It is unknown what was written: stop, so that nothing wrong is ever confirmed."""
        log.critical("the write-ahead log failed, the node stops: %s", error)
        self._process.end(EXIT_FAILED)

    def _streams_failed(self, error: BaseException) -> None:
        """Segments cannot be written: the node restarts from the log, which has all of it."""
        log.critical("writing a segment of a stream failed, the node stops: %s", error)
        self._process.end(EXIT_FAILED)

    def _fail(self, reason: str) -> None:
        """The node cannot go on; the log has said why."""
        self._status = EXIT_FAILED
        self._stopping.set()

    def _turn_failed(self, error: Exception) -> None:
        """A fault of ours in the midst of a turn: to restart is safe, to go on is not."""
        log.critical("a turn failed, the node stops", exc_info=error)
        self._process.end(EXIT_SOFTWARE)

    async def _observe(self) -> None:
        """Once a second: clock, memory, what failed, and the time for each connection."""
        resident = ResidentMeter()
        broker = self.broker
        keeper = MemoryKeeper()
        watched = is_watched()
        while True:
            await asyncio.sleep(OBSERVE_S)
            if watched:
                notify(ALIVE)
            self.clock.observe()
            self._parts.tick()
            self.wal.prove()
            used = resident.read_bytes()
            broker.alarms.observe_memory(used)
            broker.alarms.retry_due(asyncio.get_running_loop().time())
            budget = self._budget
            if keeper.should_trim(used, budget.used_bytes, self.turn.count, budget.is_pressed):
                await asyncio.to_thread(keeper.trim)
            broker.connections.close_expired(broker.now_ms())
            now_ms = broker.monotonic_ms()
            for place, endpoint in enumerate(list(broker.connections.all.values())):
                tick_or_abort(endpoint, now_ms)
                if place % TICKS_PER_SLICE == TICKS_PER_SLICE - 1:
                    await asyncio.sleep(0)

    async def _page_out(self) -> None:
        """Have bodies leave memory while it is short."""
        resident = ResidentMeter()
        hosts = self.broker.queues.hosts
        paging = BodyPaging(
            self._budget,
            self.pager,
            lambda: [host.store for host in hosts.awake.values() if not host.store.is_empty()],
        )
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(paging.look_s)
            paging.observe(resident.read_bytes(), self.broker.alarms.memory_limit_bytes)
            looked_s = loop.time()
            while paging.has_work() and loop.time() - looked_s < paging.look_s:
                self.turn.begin()  # Its end hands to the disk what is to be paged.
                await asyncio.sleep(paging.work())

    # Stopping

    async def _stop(self, front: ManagementFront | None) -> None:
        """Close connections, write what is left, say that the stop was clean."""
        notify(STOPPING)
        broker = self.broker
        broker.connections.close_all("broker forced connection closure with reason 'shutdown'")
        await self._drain(1.0)
        for endpoint in list(broker.connections.all.values()):
            endpoint.abort()
        broker.connections.half_closed.abort_all()
        await self._drain(1.0)
        await self._bury(2.0)
        if front is not None:
            await front.stop()
        broker.logins.close()
        await broker.logins.close_back_ends()
        broker.observers.publisher.close()
        await self._parts.stop(1.0)  # Until then other nodes consume from classic queues here.
        for uid, host in broker.queues.hosts.classic.items():
            if uid not in broker.queues.damages.hosts:
                host.end_cleanly()
        self.journal.end_turn(self.clock.now_ms())
        self.journal.settle_now()
        self.wal.close(clean=True)
        self._streams.stop()
        self.keyed.close()
        self._slow_turns.end()
        log.info("stopped")

    async def _bury(self, seconds: float) -> None:
        """Wait until what is dying is dead-lettered; the rest stays where it is, or is lost to a
        quorum queue."""
        cores = self.broker.queues.hosts.awake
        await wait_until(lambda: not any(c.is_dead_lettering for c in cores.values()), seconds)

    async def _drain(self, seconds: float) -> None:
        """Wait until the connections are gone, but no longer than this."""
        await wait_until(lambda: not self.broker.connections.all, seconds)


async def wait_until(reached: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, but no longer than this."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not reached() and loop.time() < deadline:
        await asyncio.sleep(0.01)

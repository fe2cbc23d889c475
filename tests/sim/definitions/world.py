"""The definitions of a whole cluster in one process: nodes, links, disks, clients, by one seed.

Weather first: links break and stand again, nodes crash, are silent, are started again, while
clients of all nodes change definitions. Then all heals, and what must be true is looked at, as it
was at each answer: no batch is lost or applied twice, no client is answered before every node that
its node trusts has applied it, and all nodes come to be the same.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from node.cluster.definitions.definitions_outbox import LAG_MS
from queues.definitions.broker_objects import Destination
from queues.definitions.members import Member
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Created, Exists, Outcome, Refused
from raft.settings import Settings
from tests.sim.definitions.node import Node
from warren.wire.errors import ReplyCode

TICK_MS: Final = 20
SETTLE_MS: Final = 60_000


class Bounds(NamedTuple):
    grace_ms: int = 60_000
    save_entries: int = 4096
    slice_bytes: int = 60_000


class Asked:
    """One command of a client, and what came of it."""

    def __init__(self, node: int, run: int, at_ms: int, command: Command) -> None:
        self.node = node
        self.run = run
        self.at_ms = at_ms
        self.command = command
        self.outcome: Outcome | None = None


class World:
    """See the module."""

    def __init__(self, seed: int, count: int = 0, bounds: Bounds | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        pick = self.random.choice
        self.now_ms = 0
        picked = Bounds(pick((2_000, 60_000)), pick((3, 20, 4096)), pick((120, 1000, 60_000)))
        self.grace_ms, self.save_entries, self.slice_bytes = bounds or picked
        self.settings = Settings(
            election_ticks=50,
            heartbeat_ticks=5,
            trailing_entries_max=pick((0, 5, 1 << 18)),
            apply_bytes_max=pick((300, 4 << 20)),
            append_bytes_max=pick((500, 1 << 20)),
            tells_commits_at_once=pick((True, True, False)),
        )
        founders = tuple(range(1, 1 + (count or pick((1, 2, 3, 3, 3, 5)))))
        self.channels: dict[tuple[int, int, bool, int], deque[bytes]] = {}
        self.asked: list[Asked] = []
        self.ended: set[int] = set()  # processes whose end was reported to a node
        self.told: dict[int, str] = {}  # by index: what the machine was behind it
        self.tokens = 0
        self.is_changing = False  # a node joins
        self.is_removing = False
        self.stalled: set[int] = set()  # members that do nothing, though their beats are answered
        self.is_calm = True
        self.nodes: dict[int, Node] = {}
        for each in founders:
            self.nodes[each] = Node(self, each, founders)
        for node in self.nodes.values():
            self.start(node)

    def draw(self) -> int:
        return self.random.getrandbits(64) | 1

    def clock(self) -> int:
        return self.now_ms

    # Nodes and links

    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up]

    def start(self, node: Node) -> None:
        if node.is_up:
            return
        node.start()
        for other in self.up():
            if other is not node:
                self.connect(node, other)

    def join(self, name: str, incarnation: int) -> Node:
        """A node that is empty is taken in."""
        asked = self.ask(self.up()[0], joining(name, incarnation))
        self.run_until(lambda: asked.outcome is not None, SETTLE_MS, "an id")
        assert isinstance(asked.outcome, Created) and isinstance(asked.outcome.subject, Member)
        member = asked.outcome.subject.id
        node = self.nodes[member] = Node(self, member, (), name)
        for other in self.up():
            other.host.add_peer(member)
        self.start(node)
        return node

    def forget(self, node: Node) -> None:
        """The node is gone for good."""
        self.crash(node)
        del self.nodes[node.member]
        asked = self.ask(self.up()[0], commands.RemoveMember(node.member))
        self.run_until(lambda: asked.outcome is not None, SETTLE_MS, "its removal")
        for other in self.up():
            other.host.remove_peer(node.member)

    def crash(self, node: Node) -> None:
        if node.is_up:
            for other in self.up():
                self.cut(node, other)
            node.crash()

    def connect(self, one: Node, other: Node) -> None:
        if one is not other and one.is_up and other.is_up and other.member not in one.links:
            one.links.add(other.member)
            other.links.add(one.member)
            one.connected(other.member)
            other.connected(one.member)

    def cut(self, one: Node, other: Node) -> None:
        """With all that is under way."""
        for key in list(self.channels):
            if {key[0], key[1]} == {one.member, other.member}:
                del self.channels[key]
        one.lost(other.member)
        other.lost(one.member)

    def send(self, source: int, target: int, is_raft: bool, lane: int, content: bytes) -> None:
        key = (source, target, is_raft, lane)
        self.channels.setdefault(key, deque()).append(content)

    # Time

    def run(self, duration_ms: int) -> None:
        end = self.now_ms + duration_ms
        while self.now_ms < end:
            self.step()

    def run_until(self, reached: Callable[[], bool], limit_ms: int, wanted: str) -> None:
        end = self.now_ms + limit_ms
        while not reached():
            assert self.now_ms < end, f"{wanted}: not within {limit_ms} ms\n{self.describe()}"
            self.step()

    def step(self) -> None:
        """One thing happens."""
        works: list[Callable[[], object]] = []
        for node in self.up():
            if node.member not in self.stalled:
                works += self._works_of(node)
        for key in self.channels:
            if key[1] not in self.stalled:
                works.append(partial(self._arrive, key))
        if not works or self.random.random() < 0.04:
            self._tick()
        else:
            self.random.choice(works)()

    def _works_of(self, node: Node) -> list[Callable[[], object]]:
        works: list[Callable[[], object]] = []
        if node.wants_turn:
            works.append(node.turn)
        if node.log.is_behind:
            works.append(lambda: node.host.on_durable(node.log.sync()))
        if node.log.reads:
            works.append(lambda: node.log.reads.pop(0)())
        if node.runner.saves or node.runner.posted:
            works.append(lambda: node.runner.step(self.random))
        return works

    def _arrive(self, key: tuple[int, int, bool, int]) -> None:
        source, target, is_raft, _ = key
        channel = self.channels[key]
        content = channel.popleft()
        if not channel:
            del self.channels[key]
        self.nodes[target].receive(source, is_raft, content)

    def _tick(self) -> None:
        self.now_ms += TICK_MS
        for node in self.up():
            node.tick()
        if not self.is_calm:
            self._harm()

    def _harm(self) -> None:
        random = self.random
        nodes = list(self.nodes.values())
        one, other = random.choice(nodes), random.choice(nodes)
        chance = random.random()
        if chance < 0.02:
            self.cut(one, other)
        elif chance < 0.03:
            for each in self.nodes.values():
                self.cut(one, each)
        elif chance < 0.035:
            self.crash(one)
        elif chance < 0.04:
            one.mute[other.member] = self.now_ms + random.randint(100, 4000)
        elif chance < 0.08:
            self.start(one)
        elif chance < 0.15:
            self.connect(one, other)
        elif chance < 0.3:
            one.serve()
        elif chance < 0.34:
            self.stalled.add(one.member)
        elif chance < 0.5:
            self.stalled.clear()
        elif chance < 0.505 and not self.is_changing:
            self._change_members(one)

    def _change_members(self, node: Node) -> None:
        """A node joins, or one is lost for good and, perhaps, comes back empty."""
        up = [each for each in self.up() if each is not node]
        if not up or not up[0].machine.roster.cluster_id:
            return
        is_wiped = self.random.random() < 0.5
        voters = max((each.definitions.group.raft.config.voters for each in up), key=len)
        if 2 * sum(each.member in voters for each in up) <= len(voters) + 1 or len(self.nodes) > 5:
            is_wiped = False  # The rest would be no majority.
        elif is_wiped or self.random.random() < 0.3:
            self.crash(node)
            del self.nodes[node.member]
        self.is_changing = True
        incarnation = self.random.getrandbits(40)
        name = node.name if is_wiped else f"n{incarnation}"
        up[0].definitions.propose(joining(name, incarnation), self._changed)
        up[0].wants_turn = True

    def _changed(self, outcome: Outcome) -> None:
        self.is_changing = False
        if self.is_calm:
            return  # Too late: the node that wanted to join has gone.
        if isinstance(outcome, Created) and isinstance(outcome.subject, Member):
            member = outcome.subject
            node = self.nodes[member.id] = Node(self, member.id, (), member.name)
            for other in self.up():
                other.host.add_peer(member.id)
            self.start(node)

    # Clients

    def act(self) -> None:
        """A client of some node asks for something."""
        node = self.random.choice(self.up()) if self.up() else None
        if node is None:
            return
        connection = f"{node.user.incarnation:016x}.{self.random.randint(1, 3)}"
        name = f"q{self.random.randint(1, 6)}"
        chance = self.random.random()
        if chance < 0.5:
            self.tokens += 1
            # Every fifth is one of three that are there already, with another value.
            name = f"k{self.tokens % 15 if self.tokens % 5 == 0 else self.tokens}"
            self.ask(node, commands.PutParameter("", "", name, b"%d" % self.tokens))
        elif chance < 0.65:
            declare = commands.DeclareQueue("/", f"x{name}", False, connection, node=node.name)
            self.ask(node, declare)
            self.ask(node, binding(f"x{name}", connection))
        elif chance < 0.8:
            self.ask(node, commands.DeclareQueue("/", name, True, node=f"n{node.member}"))
            self.ask(node, binding(name, ""))
        elif chance < 0.85:
            self.ask(node, commands.DeclareQueue("/", f"t{name}", node=node.name))
        elif chance < 0.95:
            self.ask(node, commands.DeleteQueue("/", name))
        else:
            self.ask(node, commands.DeleteByOwner(connection))

    def ask(self, node: Node, command: Command) -> Asked:
        asked = Asked(node.member, node.runs, self.now_ms, command)
        self.asked.append(asked)
        node.definitions.propose(command, lambda outcome: self._answered(asked, outcome))
        node.wants_turn = True
        return asked

    def _answered(self, asked: Asked, outcome: Outcome) -> None:
        node = self.nodes[asked.node]
        assert asked.outcome is None, "answered twice"
        assert node.runs == asked.run, "an answer of a process that is gone"
        asked.outcome = outcome
        command = asked.command
        is_late = self.now_ms - asked.at_ms >= LAG_MS  # Then who lags is not waited for.
        is_token = isinstance(command, commands.PutParameter)
        if is_token and isinstance(outcome, Created) and not is_late:
            assert isinstance(command, commands.PutParameter)
            for other in self.up():
                if other.is_serving and node.is_trusted(other.member):
                    self._knows(node, other, command)

    def _knows(self, node: Node, other: Node, command: commands.PutParameter) -> None:
        if ("", command.name) in other.machine.parameters:
            return
        told = node.definitions.said_by(other.member)
        is_new = told is not None and not told.is_serving  # It has only just opened its listener.
        text = f"{node.name} answers {command.name}, and {other.name} does not know it"
        assert is_new, f"{text}\n{self.describe()}"

    # What must be true

    def looks_at(self, node: Node) -> None:
        """Behind a turn: machines at the same index are the same."""
        if not node.definitions.is_switching:
            node.user.check()
        index = node.machine.applied_index
        if index == 0 or self.random.random() < 0.7:
            return
        state = node.machine.snapshot().hex()
        known = self.told.setdefault(index, state)
        assert known == state, f"{node.name} is another one at {index}\n{self.describe()}"

    def settle(self) -> None:
        """All is well again: every client is answered, and they come to be the same."""
        self.is_calm = True
        self.is_changing = self.is_removing = False  # Who asked for it may be gone.
        self.stalled.clear()
        for node in self.nodes.values():
            node.mute.clear()
            self.start(node)
        for node in self.nodes.values():
            for other in self.nodes.values():
                self.connect(node, other)
            node.serve()
        self.run_until(self._has_no_ghosts, SETTLE_MS, "members that there are")
        self.run_until(self._is_settled, SETTLE_MS, "rest")
        for node in self.nodes.values():
            node.serve()
        self.run_until(self._is_settled, SETTLE_MS, "rest")
        for node in self.nodes.values():
            node.user.check()
        self._check_truth()

    def _has_no_ghosts(self) -> bool:
        """Members whose nodes are gone are removed, by an operator."""
        for node in self.nodes.values():
            self.start(node)
            for other in self.nodes.values():
                self.connect(node, other)
        leading = [node for node in self.up() if node.definitions.is_leader]
        if not leading or self.is_changing:
            return False
        node = max(leading, key=lambda each: each.definitions.group.raft.term)
        ghosts = [each for each in node.machine.roster.members if each not in self.nodes]
        if ghosts and not self.is_removing:
            self.is_removing = True
            self.removes(node, ghosts[0])
        config = node.definitions.group.raft.config
        return not ghosts and set(config.members()) <= set(self.nodes) and not config.learners

    def removes(self, node: Node, member: int) -> None:
        def removed(outcome: Outcome) -> None:
            self.is_removing = False

        node.definitions.propose(commands.RemoveMember(member), removed)
        node.wants_turn = True

    def _is_settled(self) -> bool:
        nodes = list(self.nodes.values())
        if len({node.machine.applied_index for node in nodes}) != 1 or self.channels:
            return False
        if any(node.definitions.status().waiting for node in nodes):
            return False
        if any(node.definitions.is_switching for node in nodes):
            return False
        if any(node.machine.ended_with_queues() for node in nodes):
            return False
        return all(node.definitions.leader for node in nodes)

    def _check_truth(self) -> None:
        nodes = list(self.nodes.values())
        assert len({node.machine.snapshot() for node in nodes}) == 1, self.describe()
        machine = nodes[0].machine
        for asked in self.asked:
            if asked.node not in self.nodes:
                continue  # It was removed.
            is_same = self.nodes[asked.node].runs == asked.run
            assert asked.outcome is not None or not is_same, f"no answer to {asked.command}"
            if not isinstance(asked.command, commands.PutParameter):
                continue
            is_there = ("", asked.command.name) in machine.parameters
            if isinstance(asked.outcome, Created):
                assert is_there, f"{asked.command} was answered, and is lost"
            assert not isinstance(asked.outcome, Exists), f"{asked.command} was applied twice"
            if isinstance(asked.outcome, Refused):
                code = ReplyCode.INTERNAL_ERROR
                assert asked.outcome.code is code, f"{asked.command}: {asked.outcome.text}"
        for queue in machine.vhosts["/"].queues.values():
            if not queue.outlives_restart:
                assert queue.process in machine.processes.batches, f"{queue} has outlived"

    def describe(self) -> str:
        lines = [f"seed {self.seed} at {self.now_ms}"]
        for node in self.nodes.values():
            if not node.is_up or not hasattr(node.definitions, "group"):
                lines.append(f"  {node.name} down, or fails to start")
                continue
            raft = node.definitions.group.raft
            lines.append(
                f"  {node.name} role {raft.role} term {raft.term} leader {raft.leader} commit "
                f"{raft.commit_index} applied {node.machine.applied_index} last {raft.last_index} "
                f"snapshot {raft.snapshot_index} links {sorted(node.links)} waits "
                f"{node.definitions.status().waiting} serves {node.is_serving} {raft.config} "
                f"{sorted(node.machine.roster.members)}"
            )
        return "\n".join(lines)


def binding(queue: str, connection: str) -> commands.Bind:
    return commands.Bind(
        "/", "amq.direct", Destination.QUEUE, queue, queue.encode(), connection=connection
    )


def joining(name: str, incarnation: int) -> commands.AddMember:
    return commands.AddMember(name, incarnation, f"h{incarnation}", incarnation)


def live(world: World, weathers: int = 2, duration_ms: int = 4_000) -> None:
    """One seed's life; whatever fails says of which."""
    try:
        world.settle()
        for _ in range(weathers):
            world.is_calm = False
            end = world.now_ms + duration_ms
            while world.now_ms < end:
                world.act()
                world.run(world.random.choice((20, 20, 40, 200)))
            world.settle()
    except AssertionError as failure:
        failure.add_note(world.describe())
        raise

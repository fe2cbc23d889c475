"""Nodes with a quorum queue whose leader changes, sessions on all of them, and links that break.

The log is not simulated, its word is: each entry of the leader is committed, or lost when another
leads; a new leader takes commands once it has applied what is committed. Everything else is real:
machines, proxies, visitors, the streams between nodes. `heal` ends the bad weather; then everything
must come to rest, and `Truth` says what must have happened to whom.
"""

from random import Random

from queues.away.neighbour import Neighbour
from queues.away.roaming import Roaming, RoamingProxy
from queues.away.seam import Ending, HomeEnd, Road
from queues.commands import Command, EndProcess, SessionId, Suspend, Unsuspend, encode
from queues.credit import CreditSpec
from queues.effects import Delivers, Enqueued, Refused, Unwanted
from queues.fifo_snapshot import encode_fifo
from queues.options import REJECT_PUBLISH, Options
from tests.sim.queues.roaming_client import WINDOW, Client, Truth
from tests.sim.queues.roaming_end import End, Entry, machine_of
from tests.unit.queues.messages import body_of

UID = 5
Wire = list[bytes]


class Node:
    """A process: a member of the queue, the proxy, sessions, and the roads to the others."""

    def __init__(self, member: int, process: int, end: End, world: "World") -> None:
        self.member = member
        self.process = process
        self.end = end
        self._world = world
        self._marked: list[Ending] = []
        self.roaming = Roaming(member, self._find_end, self._find_road, self)
        self.proxy = RoamingProxy(UID, "/", "q", False, CreditSpec(400, 200), self.roaming)
        self.roaming.add(self.proxy)
        self.neighbours: dict[int, Neighbour] = {}
        self.clients: list[Client] = []
        self.heard = (0, 0)  # of leaders: member, term

    def _find_end(self, uid: int) -> HomeEnd | None:
        return self.end

    def _find_road(self, member: int) -> Road | None:
        return self.neighbour(member).proxies

    def neighbour(self, member: int) -> Neighbour:
        found = self.neighbours.get(member)
        if found is None:
            found = Neighbour(
                self._world.draw_process(),
                lambda uid: None,
                lambda frame: self._world.send(self.member, member, b"".join(frame)),
                self,
                find_end=self._find_end,
                member=member,
                roams=self.roaming,
            )
            self.neighbours[member] = found
        return found

    def mark_away(self, ending: Ending) -> None:
        self._marked.append(ending)

    def end_turn(self) -> None:
        for neighbour in list(self.neighbours.values()):
            neighbour.settle()
        while self._marked:
            marked, self._marked = self._marked, []
            for each in marked:
                each.end_turn()
        for neighbour in list(self.neighbours.values()):
            neighbour.end_turn()

    def hear(self, member: int, term: int) -> None:
        """News of leaders, or of a link to one."""
        if term >= self.heard[1]:
            self.heard = (member, term)
        leader, term = self.heard
        reachable = leader == self.member or self._world.is_connected(self.member, leader)
        self.proxy.leader(leader if reachable else 0, term)


class World:
    """`step` lets something happen, by lots; `heal` and `settle` bring it to rest."""

    def __init__(self, seed: int, size: int = 3) -> None:
        self.lots = Random(seed)
        self._options = self._draw_options()
        self.truth = Truth()
        self.log: list[Entry] = []
        self._oracle = machine_of(self._options)
        self.term = 0
        self.leader = 0
        self.now_ms = 1_000
        self._processes = 0
        self._counter = 0
        self._wires: dict[tuple[int, int], Wire] = {}  # under way; no key: no link
        self._news: list[tuple[int, int, int]] = []  # to whom, leader, term
        self._duties: list[Command] = []  # what the cluster wants done, until it is committed
        self._weather = True
        self.nodes: dict[int, Node] = {}
        for member in range(1, size + 1):
            end = End(UID, self._options, self.lots)
            self.nodes[member] = Node(member, self.draw_process(), end, self)
        for pair in self._pairs():
            self._connect(*pair)
        self.elect(1)

    def _draw_options(self) -> Options:
        if self.lots.random() < 0.3:
            return Options(length_max=5, overflow=REJECT_PUBLISH)
        return Options(counts_deliveries=self.lots.random() < 0.5)

    def _pairs(self) -> list[tuple[int, int]]:
        return [(one, other) for one in self.nodes for other in self.nodes if one < other]

    def draw_process(self) -> int:
        self._processes += 1
        return self._processes

    @property
    def clients(self) -> list[Client]:
        return [client for node in self.nodes.values() for client in node.clients]

    # Links

    def is_connected(self, one: int, other: int) -> bool:
        return (one, other) in self._wires

    def send(self, one: int, other: int, frame: bytes) -> None:
        wire = self._wires.get((one, other))
        if wire is not None:
            wire.append(frame)

    def _connect(self, one: int, other: int) -> None:
        for near, far in ((one, other), (other, one)):
            self._wires[near, far] = []
        for near, far in ((one, other), (other, one)):
            node = self.nodes[near]
            node.neighbour(far).connected()
            node.hear(0, 0)

    def _cut(self, one: int, other: int) -> None:
        for near, far in ((one, other), (other, one)):
            del self._wires[near, far]
            self.nodes[near].neighbour(far).disconnected()
            self.nodes[near].hear(0, 0)

    def _pass_on(self, one: int, other: int, count: int) -> None:
        wire = self._wires.get((one, other))
        if wire is None:
            return
        frames = wire[:count]
        del wire[:count]
        for frame in frames:
            self.nodes[other].neighbour(one).received(frame)

    # The log

    def elect(self, member: int) -> None:
        """Another leads; of what the one before had under way some is committed, in order."""
        if self.leader:
            proposed = self.nodes[self.leader].end.proposed
            self.commit(self.lots.randrange(len(proposed) + 1))
        self.term += 1
        self.leader = member
        if self.nodes[member].end.term:
            self.nodes[member].end.step_down()

    def commit(self, count: int) -> None:
        """The leader's next entries are safe."""
        end = self.nodes[self.leader].end
        if end.term != self.term:
            return
        for entry in end.proposed[:count]:
            self.log.append(entry)
            self._witness(entry)
        del end.proposed[:count]

    def _witness(self, entry: Entry) -> None:
        commands = entry.decoded()
        self._duties = [duty for duty in self._duties if not is_among(duty, commands)]
        chunks = list(entry.chunks)
        for effect in self._oracle.apply(commands, entry.now_ms):
            if isinstance(effect, Enqueued):
                chunk = chunks.pop(0)
                for place in range(effect.count):
                    body = body_of(chunk, place)
                    name = (effect.session, effect.first_seq + place)
                    assert body == b"%d/%d" % name
                    assert name not in self.truth.publishes, f"publish {name} was taken twice"
                    self.truth.publishes[name] = effect.message_first + place
                    self.truth.bodies[effect.message_first + place] = body
            elif isinstance(effect, Unwanted):
                chunks.pop(0)
            elif isinstance(effect, Refused):
                for seq in range(effect.first_seq, effect.first_seq + effect.count):
                    self.truth.refused.add((effect.session, seq))
            elif isinstance(effect, Delivers):
                for place in range(effect.count):
                    made = (effect.first + place, effect.redelivered)
                    self.truth.deliveries[effect.key, effect.delivery_seq + place] = made

    def _advance(self, node: Node, count: int) -> None:
        """A member applies committed entries; a leader that has applied all begins."""
        end = node.end
        for entry in self.log[end.applied : end.applied + count]:
            end.apply(entry)
        leads = node.member == self.leader and end.term != self.term
        if leads and end.applied == len(self.log):
            end.begin(self.term)
            self._news += [(each, node.member, self.term) for each in self.nodes]

    # What happens

    def step(self) -> None:
        self.now_ms += self.lots.choice((0, 0, 1, 7))
        node = self.nodes[self.lots.choice(list(self.nodes))]
        draw = self.lots.random()
        if draw < 0.35:
            if node.clients:
                self.lots.choice(node.clients).act()
        elif draw < 0.55:
            one, other = self.lots.sample(list(self.nodes), 2)
            self._pass_on(one, other, self.lots.randrange(1, 5))
        elif draw < 0.65:
            self._lead_on()
        elif draw < 0.75:
            self._advance(node, self.lots.randrange(1, 4))
        elif draw < 0.8:
            self._tell_news()
        elif draw < 0.85:
            node.end.load()
        elif draw < 0.88:
            node.roaming.tick()
        elif self._weather:
            self._mishap(node)
        self._end_turns()

    def _lead_on(self) -> None:
        end = self.nodes[self.leader].end
        if end.term == self.term:
            for duty in self._duties:
                if not any(is_among(duty, entry.decoded()) for entry in end.proposed):
                    end.give(duty)
        for node in self.nodes.values():
            node.end.propose(self.now_ms)
        self.commit(self.lots.randrange(4))

    def _tell_news(self) -> None:
        if self._news:
            whom, leader, term = self._news.pop(self.lots.randrange(len(self._news)))
            end = self.nodes[whom].end
            if end.term and end.term < term:
                end.step_down()
            self.nodes[whom].hear(leader, term)

    def _end_turns(self) -> None:
        for node in self.nodes.values():
            node.end_turn()

    def _mishap(self, node: Node) -> None:
        draw = self.lots.random()
        if draw < 0.2:
            self.elect(self.lots.choice(list(self.nodes)))
        elif draw < 0.5:
            one, other = self.lots.choice(self._pairs())
            if self.is_connected(one, other):
                self._cut(one, other)
            else:
                self._connect(one, other)
        elif draw < 0.6:
            far = self.lots.choice([each for each in self.nodes if each != node.member])
            if not self.is_connected(node.member, far):
                node.neighbour(far).give_up(self.draw_process())
                node.neighbour(far).come_back()
        elif draw < 0.75 and len(node.clients) < 3:
            self.add_client(node)
        elif draw < 0.82 and node.clients:
            client = self.lots.choice(node.clients)
            client.end()
            node.clients.remove(client)
        elif draw < 0.9:
            self._suspend(node)
        elif draw < 0.94:
            self.restart(node)

    def _suspend(self, node: Node) -> None:
        """Of a process that cannot be reached, by the leader's word, or can be again."""
        if self.lots.random() < 0.5:
            self._duties.append(Suspend(node.process, self.lots.choice((5, 1_000_000))))
        else:
            self._duties.append(Unsuspend(node.process))

    def add_client(self, node: Node) -> Client:
        self._counter += 1
        session = SessionId(node.process << 64 | self._counter)
        client = Client(session, node.proxy, self.lots, self.truth)
        node.clients.append(client)
        return client

    def restart(self, node: Node) -> None:
        """The process is gone, with its sessions; another one begins."""
        for client in node.clients:
            client.die()
        self._duties.append(EndProcess(node.process))
        others = [each for each in self.nodes if each != node.member]
        linked = [each for each in others if self.is_connected(node.member, each)]
        for far in linked:
            del self._wires[node.member, far]
            del self._wires[far, node.member]
            self.nodes[far].neighbour(node.member).disconnected()
            self.nodes[far].hear(0, 0)
        if node.member == self.leader:
            self.elect(self.lots.choice(others))
        node.end.restart()
        fresh = Node(node.member, self.draw_process(), node.end, self)
        self.nodes[node.member] = fresh
        for far in linked:
            self._connect(node.member, far)
        self._news.append((node.member, self.leader, self.term))

    # The end

    def heal(self) -> None:
        """Good weather: all links stand, somebody leads, everybody is there and consumes."""
        self._weather = False
        self._lead_on()
        self.commit(1_000_000)
        kept = [each for each in self._duties if not isinstance(each, Suspend | Unsuspend)]
        self._duties = kept
        for pair in self._pairs():
            if not self.is_connected(*pair):
                self._connect(*pair)
        for node in self.nodes.values():
            self._duties.append(Unsuspend(node.process))
            for client in node.clients:
                client.quiet = True
            last = self.add_client(node)
            last.attach(10 * WINDOW)
            last.quiet = True

    def settle(self) -> None:
        """Until nothing is under way and nobody waits."""
        for _ in range(400):
            self._round()
            if self._is_at_rest():
                return
        raise AssertionError(f"it never comes to rest: {self.describe()}")

    def _round(self) -> None:
        self.now_ms += 10
        for node in self.nodes.values():
            for client in node.clients:
                client.act()
            node.end.load()
            node.roaming.tick()
        self._end_turns()
        for one, other in list(self._wires):
            self._pass_on(one, other, 1_000_000)
        self._end_turns()
        self._lead_on()
        self.commit(1_000_000)
        for node in self.nodes.values():
            self._advance(node, 1_000_000)
        while self._news:
            self._tell_news()
        self._end_turns()

    def _is_at_rest(self) -> bool:
        if any(self._wires.values()) or self._duties or self._news:
            return False
        if any(node.end.applied < len(self.log) for node in self.nodes.values()):
            return False
        end = self.nodes[self.leader].end
        if end.ready_count or end.checked_out_count or end.proposed:
            return False
        return all(client.is_settled for client in self.clients)

    def describe(self) -> str:
        end = self.nodes[self.leader].end
        lines = [f"{end.ready_count} ready, {end.checked_out_count} checked out"]
        for node in self.nodes.values():
            lines += [f"node {node.member}: {client.state()}" for client in node.clients]
        return "; ".join(lines)

    def check(self) -> None:
        """What must be true at rest, beyond what was looked at on the way."""
        states = {encode_fifo(node.end.machine) for node in self.nodes.values()}
        assert states == {encode_fifo(self._oracle)}, "members differ"
        for client in self.clients:
            for seq in range(1, client.published + 1):
                name = (client.session, seq)
                assert name in self.truth.publishes, f"publish {name} is confirmed and lost"
        for node in self.nodes.values():
            assert node.end.body_count == 0, "bodies of messages that are gone"
            assert node.proxy.kept_bytes == 0, "commands are kept that are applied"
            sessions = {client.session for client in node.clients}
            assert node.proxy.sessions <= sessions, "strands of sessions that ended"


def is_among(duty: Command, commands: list[Command]) -> bool:
    """Whether one of the commands says the same."""
    return any(encode(each) == encode(duty) for each in commands)

"""Nodes with quorum queues whose leaders change, sessions on all of them, and links that break.

The log is not simulated, its word is (`roaming_queue`). Everything else is real: machines, proxies,
session stubs, the streams between nodes. `heal` ends the bad weather; then everything must come to
rest, and the `Truth` of each queue says what must have happened to whom.
"""

from random import Random

from queues.machine.commands import EndProcess, SessionId, Suspend, Unsuspend, consumer_key
from queues.queue_host import QueueHost
from queues.remote.peer_queues import PeerQueues
from queues.remote.proxy import Proxy
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending, HomeEnd, PeerRoute
from queues.sessions.credit import CreditSpec
from tests.sim.queues.roaming_client import WINDOW, Client
from tests.sim.queues.roaming_end import End
from tests.sim.queues.roaming_queue import LedQueue

FIRST_UID = 5
Wire = list[bytes]


class Node:
    """A process: a member of each queue, its proxies, sessions, and the connections to the
    others.
    """

    def __init__(self, member: int, process: int, world: "World") -> None:
        self.member = member
        self.process = process
        self._world = world
        self._marked: list[Ending] = []
        self.quorum_proxies = QuorumProxies(member, self._find_end, self._find_road, self)
        self.proxies: dict[int, QuorumProxy] = {}
        self.heard: dict[int, tuple[int, int]] = {}  # by queue: its leader, and in which term
        self.relays: set[int] = set()  # queues that are used by way of their old homes
        for uid, queue in world.queues.items():
            credit = CreditSpec(400, 200)
            single_active = queue.options.single_active
            proxy = QuorumProxy(uid, "/", f"q{uid}", single_active, credit, self.quorum_proxies)
            self.proxies[uid] = proxy
            self.heard[uid] = (0, 0)
            self.quorum_proxies.add(proxy)
        self.all_peer_queues: dict[int, PeerQueues] = {}
        self.clients: list[Client] = []
        self.is_given_up = False  # the cluster takes it for gone, and it does not know

    @property
    def ends(self) -> dict[int, End]:
        """Its members."""
        return {uid: queue.ends[self.member] for uid, queue in self._world.queues.items()}

    def _find_end(self, uid: int) -> HomeEnd | None:
        return self._world.queues[uid].ends[self.member]

    def _find_road(self, member: int) -> PeerRoute | None:
        return self.peer_queues(member).proxies

    def peer_queues(self, member: int) -> PeerQueues:
        found = self.all_peer_queues.get(member)
        if found is None:
            found = PeerQueues(
                self._world.draw_process(),
                self.proxies.get,
                lambda frame: self._world.send(self.member, member, b"".join(frame)),
                self,
                find_end=self._find_end,
                member=member,
                roams=self.quorum_proxies,
                movers=self,
            )
            self.all_peer_queues[member] = found
        return found

    def tick(self) -> None:
        """Once in a while."""
        self.quorum_proxies.tick(0)
        for peer_queues in self.all_peer_queues.values():
            peer_queues.stubs.tell_counts()

    # Movers

    def mirrored(self, uid: int) -> QuorumProxy | None:
        return self.proxies[uid] if self._world.lots.random() < 0.7 else None

    def is_plain_again(self, uid: int, epoch: int) -> bool:
        return False

    def host(self, uid: int) -> QueueHost:
        """As sessions that come now use the queue."""
        home = self._world.home_of(uid)
        if uid not in self.relays or self.member == home:
            return self.proxies[uid]
        proxies = self.peer_queues(home).proxies
        known = proxies.hosts.get(uid)
        if known is None:
            proxy = self.proxies[uid]
            spec = CreditSpec(400, 200)
            known = Proxy(uid, "/", proxy.name, False, proxy.single_active, spec, proxies)
            proxies.add(known)
        return known

    def learn_of_mirrors(self, uid: int) -> None:
        """Sessions go on by themselves from now on. Some have kept the way that they knew."""
        self.relays.discard(uid)
        for client in self.clients:
            if client.uid == uid and self._world.lots.random() < 0.5:
                client.use(self.proxies[uid])
        home = self._world.home_of(uid)
        if self.member != home:
            self.peer_queues(home).proxies.relay(uid, self.proxies[uid], 1)

    def mark_away(self, ending: Ending) -> None:
        self._marked.append(ending)

    def end_turn(self) -> None:
        for peer_queues in list(self.all_peer_queues.values()):
            peer_queues.settle()
        while self._marked:
            marked, self._marked = self._marked, []
            for each in marked:
                each.end_turn()
        for peer_queues in list(self.all_peer_queues.values()):
            peer_queues.end_turn()

    def hear(self, uid: int, member: int, term: int) -> None:
        """News of a leader."""
        if term >= self.heard[uid][1]:
            self.heard[uid] = (member, term)
        self._look_at(uid)

    def look_at_links(self) -> None:
        """One has come, or is gone."""
        for uid in self.proxies:
            self._look_at(uid)

    def _look_at(self, uid: int) -> None:
        leader, term = self.heard[uid]
        reachable = leader == self.member or self._world.is_connected(self.member, leader)
        self.proxies[uid].leader(leader if reachable else 0, term)


class World:
    """`step` lets something happen, by lots; `heal` and `settle` bring it to rest."""

    def __init__(self, seed: int, size: int = 3, relays: bool = False) -> None:
        """`relays`: the queues have just got mirrors, and sessions use them by way of their old
        homes; no process is lost until all have moved."""
        self.lots = Random(seed)
        self.relays = relays
        self.now_ms = 1_000
        self._processes = 0
        self._counter = 0
        self._wires: dict[tuple[int, int], Wire] = {}  # under way; no key: no link
        self._weather = True
        self._roughness = self.lots.choice((0.3, 1.0))  # so often a mishap is one
        members = list(range(1, size + 1))
        uids = range(FIRST_UID, FIRST_UID + self.lots.choice((1, 1, 2, 3)))
        self.queues = {uid: LedQueue(uid, members, self.lots) for uid in uids}
        self.nodes: dict[int, Node] = {}
        for member in members:
            node = self.nodes[member] = Node(member, self.draw_process(), self)
            node.relays.update(uids if relays else ())
        for pair in self._pairs():
            self._connect(*pair)
        for uid, queue in self.queues.items():
            queue.elect(self.home_of(uid))

    def home_of(self, uid: int) -> int:
        """The node of the queue before it had mirrors."""
        return 1 + uid % len(self.nodes)

    def learn_of_mirrors(self) -> None:
        """One node does, of one queue that it uses by way of its old home."""
        late = [(node, uid) for node in self.nodes.values() for uid in sorted(node.relays)]
        if late:
            node, uid = self.lots.choice(late)
            node.learn_of_mirrors(uid)
            self._end_turns()

    @property
    def are_moved(self) -> bool:
        """Whether no session uses a queue by way of its old home, or has yet to end there."""
        for node in self.nodes.values():
            if node.relays:
                return False
            for proxy in node.proxies.values():
                foreign = [each for each in proxy.sessions if each >> 64 != node.process]
                if proxy.relayed is not None or foreign:
                    return False
        return True

    def move_all(self) -> None:
        """All nodes learn of the mirrors, and all sessions move."""
        for pair in self._pairs():
            if not self.is_connected(*pair):
                self._connect(*pair)
        for _ in range(400):
            self.learn_of_mirrors()
            self._round()
            if self.are_moved:
                return
        raise AssertionError(f"not all sessions move: {self.describe()}")

    def _pairs(self) -> list[tuple[int, int]]:
        return [(one, other) for one in self.nodes for other in self.nodes if one < other]

    def draw_process(self) -> int:
        self._processes += 1
        return self._processes

    @property
    def clients(self) -> list[Client]:
        return [client for node in self.nodes.values() for client in node.clients]

    def _draw_queue(self) -> LedQueue:
        return self.lots.choice(list(self.queues.values()))

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
            node.peer_queues(far).connected()
            node.look_at_links()

    def _cut(self, one: int, other: int) -> None:
        for near, far in ((one, other), (other, one)):
            del self._wires[near, far]
            self.nodes[near].peer_queues(far).disconnected()
            self.nodes[near].look_at_links()

    def _pass_on(self, one: int, other: int, count: int) -> None:
        wire = self._wires.get((one, other))
        if wire is None:
            return
        frames = wire[:count]
        del wire[:count]
        for frame in frames:
            self.nodes[other].peer_queues(one).received(frame)

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
            queue = self._draw_queue()
            queue.lead_on(self.now_ms)
            queue.commit(self.lots.randrange(4))
        elif draw < 0.75:
            self._draw_queue().advance(node.member, self.lots.randrange(1, 4))
        elif draw < 0.8:
            self._tell_news(self._draw_queue())
        elif draw < 0.85:
            self._draw_queue().ends[node.member].load()
        elif draw < 0.88:
            node.tick()
        elif self._weather and self.lots.random() < self._roughness:
            self._mishap(node)
        self._end_turns()

    def _tell_news(self, queue: LedQueue) -> None:
        if queue.news:
            whom, leader, term = queue.news.pop(self.lots.randrange(len(queue.news)))
            end = queue.ends[whom]
            if end.term and end.term < term:
                end.step_down()
            self.nodes[whom].hear(queue.uid, leader, term)

    def _end_turns(self) -> None:
        for node in self.nodes.values():
            node.end_turn()

    def _mishap(self, node: Node) -> None:
        draw = self.lots.random()
        if draw < 0.2:
            self._draw_queue().elect(self.lots.choice(list(self.nodes)))
        elif draw < 0.5:
            one, other = self.lots.choice(self._pairs())
            if self.is_connected(one, other):
                self._cut(one, other)
            else:
                self._connect(one, other)
        elif draw < 0.6 and not self.relays:
            far = self.lots.choice([each for each in self.nodes if each != node.member])
            if not self.is_connected(node.member, far):
                node.peer_queues(far).give_up(self.draw_process())
                node.peer_queues(far).come_back()
        elif draw < 0.75 and len(node.clients) < 3 * len(self.queues):
            self.add_client(node)
        elif draw < 0.82 and node.clients:
            self._end_session(node, self.lots.choice(node.clients).session)
        elif draw < 0.9:
            self._suspend(node)
        elif 0.9 <= draw < 0.94 and not self.relays:
            self.restart(node)

    def _end_session(self, node: Node, session: SessionId) -> None:
        """With all of its queues."""
        ended = [client for client in node.clients if client.session == session]
        for client in ended:
            client.end()
            node.clients.remove(client)

    def _suspend(self, node: Node) -> None:
        """Of a process that cannot be reached, by the leaders' word, or can be again."""
        gone = self.lots.random() < 0.5
        timeout_ms = self.lots.choice((5, 1_000_000))
        for queue in self.queues.values():
            duty = Suspend(node.process, timeout_ms) if gone else Unsuspend(node.process)
            queue.duties.append(duty)

    def add_client(self, node: Node) -> list[Client]:
        """A session, which uses some of the queues."""
        self._counter += 1
        session = SessionId(node.process << 64 | self._counter)
        count = self.lots.randrange(1, len(self.queues) + 1)
        fresh: list[Client] = []
        for uid in self.lots.sample(list(self.queues), count):
            queue = self.queues[uid]
            fresh.append(Client(session, node.host(uid), self.lots, queue.truth, queue.options))
        for client in fresh:
            client.is_given_up = node.is_given_up
        node.clients += fresh
        return fresh

    def give_up(self, nodes: list[Node]) -> None:
        """The cluster takes these processes for gone, and all members have applied it; they live,
        do not know, and go on. Members that do not lead have restarted with what they had saved,
        and one of them leads now."""
        for node in nodes:
            node.is_given_up = True
            for client in node.clients:
                client.is_given_up = True
        for queue in self.queues.values():
            queue.duties += [EndProcess(node.process) for node in nodes]
            queue.settle(self.now_ms)
            for member in self.nodes:
                if member != queue.leader:
                    queue.ends[member].restart()
            queue.elect(self.lots.choice([each for each in self.nodes if each != queue.leader]))

    def restart(self, node: Node, is_known: bool = False) -> None:
        """The process is gone, with its sessions; another one begins. `is_known`: the queues have
        heard of its end before."""
        for client in node.clients:
            client.die()
        others = [each for each in self.nodes if each != node.member]
        linked = [each for each in others if self.is_connected(node.member, each)]
        for far in linked:
            del self._wires[node.member, far]
            del self._wires[far, node.member]
            self.nodes[far].peer_queues(node.member).disconnected()
            self.nodes[far].look_at_links()
        for queue in self.queues.values():
            if not is_known:
                queue.duties.append(EndProcess(node.process))
            if node.member == queue.leader:
                queue.elect(self.lots.choice(others))
            queue.ends[node.member].restart()
        self.nodes[node.member] = Node(node.member, self.draw_process(), self)
        for far in linked:
            self._connect(node.member, far)
        for queue in self.queues.values():
            queue.news.append((node.member, queue.leader, queue.term))

    # The end

    def heal(self) -> None:
        """Good weather: all links stand, there is a leader, all clients are there and consume."""
        self._weather = False
        for queue in self.queues.values():
            queue.lead_on(self.now_ms)
            queue.commit(1_000_000)
            kept = [each for each in queue.duties if not isinstance(each, Suspend | Unsuspend)]
            queue.duties = kept + [Unsuspend(node.process) for node in self.nodes.values()]
        for pair in self._pairs():
            if not self.is_connected(*pair):
                self._connect(*pair)
        for node in self.nodes.values():
            for client in node.clients:
                client.quiet = True
            for uid in node.proxies:
                self._add_last(node, self.queues[uid], node.host(uid))

    def _add_last(self, node: Node, queue: LedQueue, proxy: QueueHost) -> None:
        """A session of its own takes what is left of a queue."""
        self._counter += 1
        session = SessionId(node.process << 64 | self._counter)
        last = Client(session, proxy, self.lots, queue.truth, queue.options)
        node.clients.append(last)
        last.quiet = True
        last.attach(10 * WINDOW)

    def settle(self) -> None:
        """Until nothing is under way and no client waits."""
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
            for end in node.ends.values():
                end.load()
            node.tick()
        self._end_turns()
        for one, other in list(self._wires):
            self._pass_on(one, other, 1_000_000)
        self._end_turns()
        for queue in self.queues.values():
            queue.lead_on(self.now_ms)
            queue.commit(1_000_000)
            for member in self.nodes:
                queue.advance(member, 1_000_000)
            while queue.news:
                self._tell_news(queue)
        self._end_turns()

    def _is_at_rest(self) -> bool:
        if any(self._wires.values()):
            return False
        if not all(queue.is_at_rest() for queue in self.queues.values()):
            return False
        if any(proxy.kept_bytes for node in self.nodes.values() for proxy in node.proxies.values()):
            return False  # Of a session that has ended, and is not done.
        return all(client.is_settled for client in self.clients)

    def describe(self) -> str:
        lines = [queue.describe() for queue in self.queues.values()]
        for node in self.nodes.values():
            lines += [f"node {node.member}: {client.state()}" for client in node.clients]
        return "; ".join(lines)

    def check(self) -> None:
        """What must be true at rest, beyond what was looked at on the way."""
        for queue in self.queues.values():
            queue.check()
        for node in self.nodes.values():
            for uid, proxy in node.proxies.items():
                mine = [client for client in node.clients if client.uid == uid]
                check_clients(mine, self.queues[uid])
                assert proxy.kept_bytes == 0, "commands are kept that are applied"
                sessions = {client.session for client in mine}
                assert proxy.sessions <= sessions, "proxies of sessions that ended"


def check_clients(clients: list[Client], queue: LedQueue) -> None:
    """Each has all that was confirmed, and knows which of its consumers is the active one."""
    for client in clients:
        for seq in range(1, client.published + 1):
            name = (client.session, seq)
            assert name in queue.truth.publishes, f"publish {name} is confirmed and lost"
        for number in client.consumers:
            is_active = queue.is_active(consumer_key(client.session, number))
            told = number in client.active
            assert told == (is_active and queue.options.single_active), "who is active, it believes"

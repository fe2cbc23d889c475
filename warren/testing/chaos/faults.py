"""What can be done to a cluster, by name: to its processes, its disks and its links.

A maker takes the cluster (`Target`) and a source of lots, and gives a `Fault`: what it is called,
what it hits, how it begins and how it ends. Both calls block, and both are called once. Faults of
links between nodes hit one link, all links of a node, or those of a random half, each as likely;
that of a pair goes in both directions, except where the name says otherwise. Those of clients
(`client-...`) hit what all clients and one node send each other, a random half, or all nodes.

Faults of processes leave a majority alive, but for those of `ALL_AT_ONCE`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

Pair = tuple[int, int]


class Target(Protocol):
    """A cluster that can be broken. Nodes are numbered from 1; all calls block."""

    @property
    def count(self) -> int:
        """How many nodes there are."""

    def name(self, number: int) -> str: ...
    def kill9(self, numbers: Iterable[int]) -> None: ...
    def stop(self, numbers: Iterable[int]) -> None:
        """Ask them to end; returns when all of them have."""

    def start(self, numbers: Iterable[int]) -> None:
        """Returns when all of them are ready."""

    def pause(self, numbers: Iterable[int]) -> None: ...
    def resume(self, numbers: Iterable[int]) -> None: ...
    def wipe(self, number: int) -> None:
        """Remove the data of a node that does not run."""

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        """Of Toxiproxy, on what `source` sends to `target`."""

    def cut(self, one: int, two: int) -> None: ...
    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        """The same on all that clients and that node send each other."""

    def client_cut(self, number: int) -> None: ...
    def heal_links(self) -> None:
        """All links, those of clients too."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong for a while."""

    name: str
    where: str
    begin: Callable[[], None]
    heal: Callable[[], None]


Maker = Callable[[Target, Random], Fault]


def make(name: str, target: Target, drawn: Random) -> Fault:
    """The fault of that name, somewhere at random."""
    return MAKERS[name](target, drawn)


# Processes and disks


def kill(target: Target, drawn: Random) -> Fault:
    return _killed("kill", target, [_one(target, drawn)])


def kill_all(target: Target, drawn: Random) -> Fault:
    del drawn
    return _killed("kill-all", target, _everybody(target))


def restart(target: Target, drawn: Random) -> Fault:
    return _restarted("restart", target, [_one(target, drawn)])


def restart_all(target: Target, drawn: Random) -> Fault:
    del drawn
    return _restarted("restart-all", target, _everybody(target))


def pause(target: Target, drawn: Random) -> Fault:
    return _paused("pause", target, [_one(target, drawn)])


def pause_all(target: Target, drawn: Random) -> Fault:
    del drawn
    return _paused("pause-all", target, _everybody(target))


def _killed(name: str, target: Target, numbers: list[int]) -> Fault:
    where = _where(target, numbers)
    return Fault(name, where, lambda: target.kill9(numbers), lambda: target.start(numbers))


def _restarted(name: str, target: Target, numbers: list[int]) -> Fault:
    where = _where(target, numbers)
    return Fault(name, where, lambda: target.stop(numbers), lambda: target.start(numbers))


def _paused(name: str, target: Target, numbers: list[int]) -> Fault:
    where = _where(target, numbers)
    return Fault(name, where, lambda: target.pause(numbers), lambda: target.resume(numbers))


def wipe(target: Target, drawn: Random) -> Fault:
    number = _one(target, drawn)

    def begin() -> None:
        target.kill9([number])
        target.wipe(number)

    return Fault("wipe", target.name(number), begin, lambda: target.start([number]))


# Links


def isolate(target: Target, drawn: Random) -> Fault:
    number = _one(target, drawn)
    return _cut("isolate", target.name(number), target, _pairs_of(target, number))


def halves(target: Target, drawn: Random) -> Fault:
    minority, majority = _halves(target, drawn)
    pairs = [(one, two) for one in minority for two in majority]
    return _cut("halves", _names(target, minority), target, pairs)


def swallow(target: Target, drawn: Random) -> Fault:
    """As `isolate`, but silently: nothing arrives, and connections stay open."""
    number = _one(target, drawn)
    pairs = [(number, other) for _, other in _pairs_of(target, number)]
    return _toxics("swallow", target.name(number), target, _both(pairs), "timeout", timeout=0)


def one_way(target: Target, drawn: Random) -> Fault:
    """What one node sends to another is lost; the other way all arrives."""
    one, two = _two(target, drawn)
    where = f"{target.name(one)}>{target.name(two)}"
    return _toxics("one-way", where, target, [(one, two)], "timeout", timeout=0)


def deaf(target: Target, drawn: Random) -> Fault:
    """A node receives nothing; what it sends arrives."""
    number = _one(target, drawn)
    pairs = [(other, number) for _, other in _pairs_of(target, number)]
    return _toxics("deaf", target.name(number), target, pairs, "timeout", timeout=0)


def down(target: Target, drawn: Random) -> Fault:
    where, pairs = _somewhere(target, drawn)
    return _cut("down", where, target, pairs)


def _toxic_maker(name: str, kind: str, attributes: Mapping[str, int]) -> Maker:
    def maker(target: Target, drawn: Random) -> Fault:
        where, pairs = _somewhere(target, drawn)
        return _toxics(name, where, target, _both(pairs), kind, **attributes)

    return maker


# Links of clients


def client_down(target: Target, drawn: Random) -> Fault:
    numbers = _some_nodes(target, drawn)

    def begin() -> None:
        for number in numbers:
            target.client_cut(number)

    return Fault("client-down", _where(target, numbers), begin, target.heal_links)


def _client_maker(name: str, kind: str, attributes: Mapping[str, int]) -> Maker:
    def maker(target: Target, drawn: Random) -> Fault:
        numbers = _some_nodes(target, drawn)

        def begin() -> None:
            for number in numbers:
                target.client_toxic(number, kind, **attributes)

        return Fault(name, _where(target, numbers), begin, target.heal_links)

    return maker


# By name of a fault: what Toxiproxy calls it, and how bad it is.
TOXIC_KINDS: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "latency": ("latency", {"latency": 100}),
    "jitter": ("latency", {"latency": 50, "jitter": 50}),
    "bandwidth": ("bandwidth", {"rate": 1000}),
    "slow-close": ("slow_close", {"delay": 2000}),
    "timeout": ("timeout", {"timeout": 500}),
    "reset-peer": ("reset_peer", {"timeout": 300}),
    "slicer": ("slicer", {"average_size": 64, "size_variation": 32, "delay": 10}),
    "limit-data": ("limit_data", {"bytes": 200_000}),
}
CLIENT: Final = "client-"

MAKERS: Final[Mapping[str, Maker]] = {
    "kill": kill,
    "kill-all": kill_all,
    "restart": restart,
    "restart-all": restart_all,
    "pause": pause,
    "pause-all": pause_all,
    "wipe": wipe,
    "isolate": isolate,
    "halves": halves,
    "swallow": swallow,
    "one-way": one_way,
    "deaf": deaf,
    "down": down,
    **{name: _toxic_maker(name, *toxic) for name, toxic in TOXIC_KINDS.items()},
    "client-down": client_down,
    **{CLIENT + name: _client_maker(CLIENT + name, *toxic) for name, toxic in TOXIC_KINDS.items()},
}
ALL_AT_ONCE: Final = frozenset({"kill-all", "restart-all", "pause-all"})


def _cut(name: str, where: str, target: Target, pairs: Iterable[Pair]) -> Fault:
    chosen = list(pairs)

    def begin() -> None:
        for one, two in chosen:
            target.cut(one, two)

    return Fault(name, where, begin, target.heal_links)


def _toxics(
    name: str, where: str, target: Target, pairs: Iterable[Pair], kind: str, **attributes: int
) -> Fault:
    chosen = list(pairs)

    def begin() -> None:
        for source, sink in chosen:
            target.toxic(source, sink, kind, **attributes)

    return Fault(name, where, begin, target.heal_links)


def _somewhere(target: Target, drawn: Random) -> tuple[str, list[Pair]]:
    """One link, all links of a node, or those between a random half and the rest."""
    scope = drawn.choice(("link", "node", "half"))
    if scope == "link":
        one, two = _two(target, drawn)
        return f"{target.name(one)}-{target.name(two)}", [(one, two)]
    if scope == "node":
        number = _one(target, drawn)
        return target.name(number), _pairs_of(target, number)
    minority, majority = _halves(target, drawn)
    return _names(target, minority), [(one, two) for one in minority for two in majority]


def _halves(target: Target, drawn: Random) -> tuple[list[int], list[int]]:
    """A minority, as large as it can be, and the others."""
    numbers = list(range(1, target.count + 1))
    minority = sorted(drawn.sample(numbers, (target.count - 1) // 2))
    return minority, [number for number in numbers if number not in minority]


def _some_nodes(target: Target, drawn: Random) -> list[int]:
    """One node, a minority, or all."""
    scope = drawn.choice(("node", "half", "all"))
    if scope == "node":
        return [_one(target, drawn)]
    return _halves(target, drawn)[0] if scope == "half" else _everybody(target)


def _everybody(target: Target) -> list[int]:
    return list(range(1, target.count + 1))


def _one(target: Target, drawn: Random) -> int:
    return drawn.randint(1, target.count)


def _two(target: Target, drawn: Random) -> Pair:
    one, two = drawn.sample(range(1, target.count + 1), 2)
    return one, two


def _pairs_of(target: Target, number: int) -> list[Pair]:
    """That node with each other one; the node comes first."""
    return [(number, other) for other in range(1, target.count + 1) if other != number]


def _both(pairs: Iterable[Pair]) -> list[Pair]:
    return [way for one, two in pairs for way in ((one, two), (two, one))]


def _names(target: Target, numbers: Iterable[int]) -> str:
    return "+".join(target.name(number) for number in numbers)


def _where(target: Target, numbers: Sequence[int]) -> str:
    return "all" if len(numbers) == target.count else _names(target, numbers)

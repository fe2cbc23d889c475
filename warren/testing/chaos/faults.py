"""What can be done to a cluster, by name: to its processes, its disks and the links between nodes.

A maker takes the cluster (`Target`) and a source of lots, and gives a `Fault`: what it is called,
what it hits, how it begins and how it ends. Both calls block, and both are called once. Faults of
links hit one link, all links of a node, or those of a random half, each as likely; that of a pair
goes in both directions, except where the name says otherwise.

Faults of processes leave a majority alive, but for `kill-all`.
"""

from collections.abc import Callable, Iterable, Mapping
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
    def stop(self, number: int) -> None: ...
    def start(self, numbers: Iterable[int]) -> None:
        """Returns when all of them are ready."""

    def pause(self, number: int) -> None: ...
    def resume(self, number: int) -> None: ...
    def wipe(self, number: int) -> None:
        """Remove the data of a node that does not run."""

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        """Of Toxiproxy, on what `source` sends to `target`."""

    def cut(self, one: int, two: int) -> None: ...
    def heal_links(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong for a while."""

    name: str
    where: str
    begin: Callable[[], None]
    heal: Callable[[], None]


Maker = Callable[[Target, Random], Fault]


def make(name: str, target: Target, drawn: Random) -> Fault:
    """The fault of that name, somewhere by lot."""
    return MAKERS[name](target, drawn)


# Processes and disks


def kill(target: Target, drawn: Random) -> Fault:
    number = _one(target, drawn)
    return Fault(
        "kill",
        target.name(number),
        lambda: target.kill9([number]),
        lambda: target.start([number]),
    )


def kill_all(target: Target, drawn: Random) -> Fault:
    del drawn
    everybody = range(1, target.count + 1)
    return Fault(
        "kill-all", "all", lambda: target.kill9(everybody), lambda: target.start(everybody)
    )


def restart(target: Target, drawn: Random) -> Fault:
    number = _one(target, drawn)
    return Fault(
        "restart",
        target.name(number),
        lambda: target.stop(number),
        lambda: target.start([number]),
    )


def pause(target: Target, drawn: Random) -> Fault:
    number = _one(target, drawn)
    return Fault(
        "pause",
        target.name(number),
        lambda: target.pause(number),
        lambda: target.resume(number),
    )


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
    """As `isolate`, and nobody is told: nothing arrives, and connections stand."""
    number = _one(target, drawn)
    pairs = [(number, other) for _, other in _pairs_of(target, number)]
    return _toxics("swallow", target.name(number), target, _both(pairs), "timeout", timeout=0)


def one_way(target: Target, drawn: Random) -> Fault:
    """What one node sends to another is lost; the other way all arrives."""
    one, two = _two(target, drawn)
    where = f"{target.name(one)}>{target.name(two)}"
    return _toxics("one-way", where, target, [(one, two)], "timeout", timeout=0)


def deaf(target: Target, drawn: Random) -> Fault:
    """A node hears nobody; what it sends arrives."""
    number = _one(target, drawn)
    pairs = [(other, number) for _, other in _pairs_of(target, number)]
    return _toxics("deaf", target.name(number), target, pairs, "timeout", timeout=0)


def _toxic_maker(name: str, kind: str, **attributes: int) -> Maker:
    def maker(target: Target, drawn: Random) -> Fault:
        where, pairs = _somewhere(target, drawn)
        return _toxics(name, where, target, _both(pairs), kind, **attributes)

    return maker


def down(target: Target, drawn: Random) -> Fault:
    where, pairs = _somewhere(target, drawn)
    return _cut("down", where, target, pairs)


MAKERS: Final[Mapping[str, Maker]] = {
    "kill": kill,
    "kill-all": kill_all,
    "restart": restart,
    "pause": pause,
    "wipe": wipe,
    "isolate": isolate,
    "halves": halves,
    "swallow": swallow,
    "one-way": one_way,
    "deaf": deaf,
    "down": down,
    "latency": _toxic_maker("latency", "latency", latency=100),
    "jitter": _toxic_maker("jitter", "latency", latency=50, jitter=50),
    "bandwidth": _toxic_maker("bandwidth", "bandwidth", rate=1000),
    "slow-close": _toxic_maker("slow-close", "slow_close", delay=2000),
    "timeout": _toxic_maker("timeout", "timeout", timeout=500),
    "reset-peer": _toxic_maker("reset-peer", "reset_peer", timeout=300),
    "slicer": _toxic_maker("slicer", "slicer", average_size=64, size_variation=32, delay=10),
    "limit-data": _toxic_maker("limit-data", "limit_data", bytes=200_000),
}


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

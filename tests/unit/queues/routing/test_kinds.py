"""Direct and fanout exchanges, and the table of kinds."""

from queues.routing.direct import Direct
from queues.routing.fanout import Fanout
from queues.routing.kinds import KINDS, Kind
from queues.routing.outside import CountedRandom, OneNode, Outside
from tests.unit.queues.routing.bindings import binding, matched


def test_direct_wants_the_very_key() -> None:
    direct = Direct()
    direct.add(binding(1, 7, b"a"))
    direct.add(binding(2, 8, b"a"))
    direct.add(binding(3, 9, b"b"))
    assert matched(direct, b"a") == [7, 8]
    assert matched(direct, b"a.b") == [] and matched(direct, b"#") == []


def test_fanout_takes_no_notice_of_the_key() -> None:
    fanout = Fanout()
    fanout.add(binding(1, 7, b"a"))
    fanout.add(binding(2, 8))
    assert matched(fanout, b"zzz") == [7, 8]


def test_a_target_stays_until_its_last_binding_is_gone() -> None:
    for kind in (Direct(), Fanout()):
        kind.add(binding(1, 7, b"a"))
        kind.add(binding(2, 7, b"a", {"x": 1}))
        kind.remove(binding(1, 7, b"a"))
        assert matched(kind, b"a") == [7] and not kind.is_empty()
        kind.remove(binding(2, 7, b"a", {"x": 1}))
        assert matched(kind, b"a") == [] and kind.is_empty()


def made(name: str, **arguments: object) -> Kind:
    return KINDS[name].make(arguments, Outside(CountedRandom(), OneNode()))


def test_kinds_say_whether_the_key_alone_decides() -> None:
    assert [name for name in KINDS if made(name).per_message] == [
        *("x-federation-upstream", "headers", "x-random", "x-local-random"),
    ]
    assert not made("x-consistent-hash", **{"x-algorithm": "jump"}).per_message
    for argument in ("hash-header", "x-hash-on", "hash-property"):
        assert made("x-consistent-hash", **{argument: "timestamp"}).per_message


def test_only_direct_and_topic_look_at_further_keys() -> None:
    assert [name for name in KINDS if made(name).by_key] == ["direct", "topic"]

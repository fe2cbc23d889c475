"""Direct and fanout exchanges, and the table of kinds."""

from queues.routing.direct import Direct
from queues.routing.fanout import Fanout
from queues.routing.kinds import KINDS
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


def test_only_the_headers_kind_looks_beyond_the_key() -> None:
    looking = [name for name, row in KINDS.items() if row.make().needs_headers]
    assert looking == ["headers"]

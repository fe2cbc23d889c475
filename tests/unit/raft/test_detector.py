"""The failure detector: whom it trusts, when it stops, and what it never holds against a peer."""

from raft.detector import BEAT_MS, SILENCE_MS, Detector

NODE = 7
OTHER = 8
TICK_MS = 20


class Watch:
    """A detector that gets the time in ticks."""

    def __init__(self, *nodes: int) -> None:
        self.detector = Detector()
        self.now_ms = 1_000_000
        self.detector.tick(self.now_ms)
        for node in nodes:
            self.detector.add(node)
            assert self.detector.connected(node)

    def pass_ms(self, ms: int, answering: tuple[int, ...] = ()) -> list[int]:
        """Let time pass in ticks; `answering` answer a beat at each."""
        suspected: list[int] = []
        for _ in range(ms // TICK_MS):
            self.now_ms += TICK_MS
            for node in answering:
                self.detector.heard(node)
            suspected += self.detector.tick(self.now_ms)
        return suspected


def test_a_node_that_was_never_added_is_not_trusted_whatever_comes_from_it() -> None:
    watch = Watch()
    assert not watch.detector.connected(NODE)
    assert not watch.detector.heard(NODE)
    assert not watch.detector.lost(NODE)
    assert not watch.detector.remove(NODE)
    assert not watch.detector.is_trusted(NODE)
    assert watch.pass_ms(2 * SILENCE_MS) == []


def test_a_peer_is_not_trusted_before_it_is_connected() -> None:
    watch = Watch()
    watch.detector.add(NODE)
    assert not watch.detector.is_trusted(NODE)
    assert not watch.detector.heard(NODE)
    assert not watch.detector.is_trusted(NODE)
    assert watch.pass_ms(2 * SILENCE_MS) == []
    assert watch.detector.connected(NODE)
    assert watch.detector.is_trusted(NODE)


def test_a_silent_peer_is_suspected_once_and_not_before_its_time() -> None:
    watch = Watch(NODE, OTHER)
    assert watch.pass_ms(SILENCE_MS, (OTHER,)) == []
    assert watch.pass_ms(TICK_MS, (OTHER,)) == [NODE]
    assert not watch.detector.is_trusted(NODE)
    assert watch.detector.is_trusted(OTHER)
    assert watch.pass_ms(2 * SILENCE_MS, (OTHER,)) == []


def test_a_peer_that_answers_each_beat_stays_trusted() -> None:
    watch = Watch(NODE)
    for _ in range(50):
        assert watch.pass_ms(BEAT_MS) == []
        assert not watch.detector.heard(NODE)
    assert watch.detector.is_trusted(NODE)


def test_an_answer_ends_the_suspicion() -> None:
    watch = Watch(NODE)
    assert watch.pass_ms(2 * SILENCE_MS) == [NODE]
    assert watch.detector.heard(NODE)
    assert watch.detector.is_trusted(NODE)
    assert watch.pass_ms(SILENCE_MS) == []


def test_a_lost_connection_ends_trust_at_once_and_is_told_once() -> None:
    watch = Watch(NODE)
    assert watch.detector.lost(NODE)
    assert not watch.detector.is_trusted(NODE)
    assert not watch.detector.lost(NODE)
    assert watch.pass_ms(2 * SILENCE_MS) == []


def test_an_answer_over_a_connection_that_is_gone_is_not_believed() -> None:
    watch = Watch(NODE)
    watch.detector.lost(NODE)
    assert not watch.detector.heard(NODE)
    assert not watch.detector.is_trusted(NODE)
    assert watch.detector.connected(NODE)


def test_a_stall_of_this_node_suspects_nobody() -> None:
    watch = Watch(NODE)
    watch.pass_ms(SILENCE_MS - 2 * BEAT_MS)
    watch.now_ms += 60_000
    assert watch.detector.tick(watch.now_ms) == []
    assert watch.detector.is_trusted(NODE)
    watch.detector.heard(NODE)
    assert watch.pass_ms(SILENCE_MS) == []


def test_a_node_that_stalls_again_and_again_still_finds_out_who_is_silent() -> None:
    watch = Watch(NODE)
    suspected: list[int] = []
    for _ in range(SILENCE_MS // BEAT_MS + 1):
        watch.now_ms += 3_000
        suspected += watch.detector.tick(watch.now_ms)
    assert suspected == [NODE]


def test_a_clock_that_goes_back_suspects_nobody() -> None:
    watch = Watch(NODE)
    watch.now_ms -= 500_000
    assert watch.detector.tick(watch.now_ms) == []
    assert watch.pass_ms(SILENCE_MS) == []
    assert watch.pass_ms(TICK_MS) == [NODE]


def test_a_node_that_was_removed_says_nothing_any_more() -> None:
    watch = Watch(NODE, OTHER)
    assert watch.detector.remove(NODE)
    assert watch.detector.nodes() == [OTHER]
    assert watch.pass_ms(2 * SILENCE_MS) == [OTHER]
    watch.detector.add(NODE)
    assert not watch.detector.is_trusted(NODE)


def test_a_node_that_is_added_twice_keeps_what_is_known_of_it() -> None:
    watch = Watch(NODE)
    watch.detector.add(NODE)
    assert watch.detector.is_trusted(NODE)

"""What a quorum queue holds: bodies are in its store before its machine has their messages."""

from tests.unit.queues.test_member_snapshots import STEPS_MAX, Alone


def test_bodies_of_an_entry_count_once_it_is_applied() -> None:
    alone = Alone()
    alone.publish(10)
    core = alone.member.core
    held_bytes = core.held_bytes
    assert held_bytes == core.store.live_bytes > 0
    session = alone.session()
    session.publish([b"body"] * 5)
    (node,) = alone.world.alive()
    were_ahead = False
    for _ in range(STEPS_MAX):
        if not node.runner.step(node.random):
            break
        is_applied = core.ready_count > 10
        were_ahead = were_ahead or (not is_applied and core.store.live_bytes > held_bytes)
        assert core.held_bytes == (held_bytes * 15 // 10 if is_applied else held_bytes)
    assert were_ahead
    assert core.ready_count == 15

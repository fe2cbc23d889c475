"""Sessions of a quorum queue by lots: leaders change, links break, processes come and go.

Nothing is lost, doubled, stranded with a live consumer or flagged without cause; each publish is
confirmed once, each question answered once. `WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os

import pytest

from tests.sim.queues.roaming_world import World

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:40").partition(":")
FEW = 5 if "WARREN_SIM_SEEDS" not in os.environ else int(LAST)


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_whoever_leads_sessions_get_what_is_theirs_once(seed: int) -> None:
    world = World(seed)
    for node in world.nodes.values():
        world.add_client(node)
    for _ in range(600):
        world.step()
    world.heal()
    world.settle()
    world.check()


@pytest.mark.parametrize("seed", range(int(FIRST), FEW))
def test_a_process_that_was_given_up_and_goes_on_is_not_heard(seed: int) -> None:
    world = World(seed)
    for node in world.nodes.values():
        world.add_client(node)
    for _ in range(200):
        world.step()
    doomed = world.lots.sample(list(world.nodes.values()), 2)
    world.give_up(doomed)
    for _ in range(300):
        world.step()
    for node in doomed:
        if world.nodes[node.member] is node:
            world.restart(node, is_known=True)
    world.heal()
    world.settle()
    world.check()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_sessions_leave_the_old_home_of_a_queue_that_has_mirrors_now(seed: int) -> None:
    world = World(seed, relays=True)
    for node in world.nodes.values():
        world.add_client(node)
    for number in range(500):
        world.step()
        if number >= 200 and world.lots.random() < 0.1:
            world.learn_of_mirrors()
    world.move_all()
    world.relays = False
    for node in list(world.nodes.values()):  # No session depends on an old home.
        if world.lots.random() < 0.5:
            world.restart(node)
    for _ in range(200):
        world.step()
    world.heal()
    world.settle()
    world.check()

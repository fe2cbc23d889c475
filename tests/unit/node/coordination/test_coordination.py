"""Jobs that one node does at a time: who holds them, through losses, partitions and restarts."""

import os
from random import Random

import pytest

from node.cluster.coordination.coordination_codec import encode_frame
from node.cluster.coordination.coordination_interface import Holding, Load, NoCoordination
from node.cluster.coordination.coordinator import LEASE_S
from tests.unit.node.coordination.world import World, holding, worlds
from warren.wire.peer.codes import PeerFault

SEEDS = range(int(os.environ.get("WARREN_SIM_SEEDS", "0:6").partition(":")[2]))
JOB = "rebalance"


def test_one_of_three_gets_the_job_and_all_know_who() -> None:
    with worlds(3, 1) as world:
        workers = world.claim_everywhere(JOB)
        assert not world.nodes[1].is_running and world.nodes[1].holder(JOB) is None
        world.until(lambda: len(holding(workers)) == 1)
        world.run(3)
        (member,) = holding(workers)
        fencing = workers[member].fencing
        assert fencing is not None and fencing > 7 << 32
        assert all(node.is_running for node in world.nodes.values())
        assert {node.holder(JOB) for node in world.nodes.values()} == {Holding(member, fencing)}


def test_a_job_that_is_released_goes_to_the_next_under_a_higher_number() -> None:
    with worlds(3, 2) as world:
        workers = world.claim_everywhere(JOB)
        seen: list[int] = []
        for _ in range(3):
            world.until(lambda: len(holding(workers)) == 1)
            (member,) = holding(workers)
            fencing = workers[member].fencing
            assert fencing is not None
            seen.append(fencing)
            world.nodes[member].release(JOB)
            world.nodes[member].release(JOB)
            del workers[member]
        assert seen == sorted(set(seen))
        world.run(3)
        assert world.nodes[1].holder(JOB) is None


def test_what_a_node_wanted_before_there_was_a_leader_is_not_forgotten() -> None:
    with worlds(3, 3) as world:
        world.part(3)
        workers = world.claim_everywhere(JOB)
        world.nodes[2].release(JOB)
        world.until(lambda: holding(workers) == [1])
        world.heal()
        world.run(5)
        world.nodes[1].release(JOB)
        workers[1].fencing = None
        world.until(lambda: holding(workers) == [3])


def test_a_lost_holder_is_replaced_and_has_heard_that_it_is_none_before() -> None:
    with worlds(3, 4) as world:
        workers = world.claim_everywhere(JOB)
        world.until(lambda: len(holding(workers)) == 1)
        (lost,) = holding(workers)
        world.part(lost)
        world.run(LEASE_S + 1)
        assert holding(workers) == [] and not world.nodes[lost].is_running
        world.until(lambda: len(holding(workers)) == 1)
        assert holding(workers) != [lost]
        world.heal()
        world.run(10)
        assert len(holding(workers)) == 1 and holding(workers) != [lost]


def test_a_minority_gives_out_nothing() -> None:
    with worlds(3, 5) as world:
        workers = world.claim_everywhere(JOB)
        world.part(1)
        world.part(2)
        world.run(20)
        assert holding(workers) == []
        world.heal()
        world.until(lambda: len(holding(workers)) == 1)


def test_a_process_that_begins_anew_makes_a_new_generation_in_which_numbers_are_higher() -> None:
    with worlds(3, 6) as world:
        workers = world.claim_everywhere(JOB)
        world.until(lambda: len(holding(workers)) == 1)
        (first,) = holding(workers)
        before = workers[first].fencing
        world.stop(first)
        workers.pop(first)
        world.until(lambda: len(holding(workers)) == 1)
        world.restart(first)
        world.run(0.1)
        assert holding(workers) == []
        world.until(lambda: len(holding(workers)) == 1)
        (second,) = holding(workers)
        after = workers[second].fencing
        assert before is not None and after is not None and after >> 32 == 8 > before >> 32


def test_a_node_of_which_the_definitions_do_not_know_takes_no_part() -> None:
    with worlds(3, 7) as world:
        world.membership = (8, (1, 2))
        workers = world.claim_everywhere(JOB)
        world.until(lambda: len(holding(workers)) == 1)
        world.run(5)
        assert not world.nodes[3].is_running and world.nodes[3].loads() == {}
        assert workers[3].fencing is None


def test_frames_of_another_generation_are_dropped() -> None:
    with worlds(3, 8) as world:
        world.run(5)
        vote = {"type": "request_vote", "term": 99, "last_log_term": 98, "last_log_index": 98}
        for generation in (6, 8):
            world.nodes[1].peer_received(2, memoryview(encode_frame(generation, vote)))
        world.run(1)
        replica = world.nodes[1].replica
        assert replica is not None and replica.term < 99
        assert all(node.is_running for node in world.nodes.values())


@pytest.mark.parametrize("frame", [b"", b"\0" * 7, encode_frame(7, {"type": "status"})])
def test_frames_that_make_no_sense_end_the_link(frame: bytes) -> None:
    with worlds(3, 9) as world:
        world.run(1)
        with pytest.raises(PeerFault, match="makes no sense"):
            world.nodes[1].peer_received(2, memoryview(frame))


def test_every_node_knows_the_load_of_all() -> None:
    with worlds(3, 10) as world:
        world.until(lambda: len(world.nodes[2].loads()) == 3)
        assert world.nodes[2].loads()[3] == Load(leaders=3)
        world.stop(3)
        world.until(lambda: set(world.nodes[2].loads()) == {1, 2})


def test_a_node_alone_in_its_cluster_has_every_job() -> None:
    with worlds(1, 11) as world:
        workers = world.claim_everywhere(JOB)
        world.until(lambda: holding(workers) == [1])
        assert world.frames == 0


def test_the_log_is_compacted_and_a_node_that_was_away_catches_up_by_a_snapshot() -> None:
    with worlds(3, 12) as world:
        workers = world.claim_everywhere(JOB)
        world.until(lambda: len(holding(workers)) == 1)
        (holder,) = holding(workers)
        (away,) = {1, 2, 3} - {holder, holder % 3 + 1}
        world.part(away)
        world.run(300)
        assert holding(workers) == [holder]
        world.heal()
        world.run(10)
        assert world.nodes[away].holder(JOB) == world.nodes[holder].holder(JOB)
        assert len(world.nodes[away].loads()) == 3


def test_where_it_is_off_nobody_holds_anything() -> None:
    off = NoCoordination()
    off.claim(JOB, lambda fencing: None)
    off.release(JOB)
    assert not off.is_running and off.holder(JOB) is None and off.loads() == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_number_is_ever_of_two_holders_whatever_happens(seed: int) -> None:
    random = Random(seed)
    with worlds(random.choice((3, 3, 5)), seed, drop=random.choice((0.0, 0.05, 0.3))) as world:
        jobs = {job: world.claim_everywhere(job) for job in ("one", "two")}
        for _ in range(25):
            disturb(world, random)
            for _ in range(20):
                world.run(random.uniform(0.1, 0.6))
                for workers in jobs.values():
                    check_holders(world, holding(workers))
        world.drop = 0.0
        world.heal()
        for member in sorted(world.down):
            world.restart(member)
        live = {
            job: {m: w for m, w in each.items() if m in asking(world, job)}
            for job, each in jobs.items()
        }
        world.until(lambda: all(len(holding(each)) == min(1, len(each)) for each in live.values()))
        assert all(len(each) == 1 for each in world.holders.values())
        numbers = sorted(fencing for _, fencing in world.holders)
        assert len(numbers) == len(set(numbers))


def asking(world: World, job: str) -> set[int]:
    """Nodes whose present process claims the job."""
    return {member for member, node in world.nodes.items() if job in node.wanted}


def check_holders(world: World, members: list[int]) -> None:
    """Believers that can speak to each other are never two."""
    able = [each for each in members if each not in world.down]
    for one in able:
        for other in able:
            assert one == other or not world.is_linked(one, other), (one, other)


def disturb(world: World, random: Random) -> None:
    members = world.membership[1]
    match random.choice(("part", "part", "heal", "stop", "restart")):
        case "part":
            world.part(*random.sample(members, random.randint(1, len(members) // 2)))
        case "heal":
            world.heal()
        case "stop" if len(world.down) < (len(members) - 1) // 2:
            world.stop(random.choice([each for each in members if each not in world.down]))
        case "restart" if world.down:
            world.restart(random.choice(sorted(world.down)))

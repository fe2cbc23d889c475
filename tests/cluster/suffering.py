"""Faults on a real cluster under load, and the verdict of what the clients saw."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from warren.testing import ClusterOfNodes
from warren.testing.chaos.campaign import Campaign
from warren.testing.chaos.clients import Habits
from warren.testing.chaos.local import LocalTarget
from warren.testing.chaos.scenarios import Scenario
from warren.testing.chaos.timeline import Timeline, timeline
from warren.testing.chaos.workload import QUORUM, Plan, QueuePlan, Workload
from warren.testing.history import Recorder, Verdict, judge, read

CONFIRMED: Final = 30
WAIT_S: Final = 60.0
HABITS: Final = Habits(rate=80, patience_s=6, timeout_s=4)


def plan(name: str, type_: str = QUORUM, clients: int = 3) -> Plan:
    """One queue with a publisher and a consumer for each node, protocols in turn."""
    return Plan(queues=(QueuePlan(name, type_, clients, clients),), habits=HABITS)


def suffer(
    cluster: ClusterOfNodes,
    clients: Plan,
    folder: Path,
    faults: tuple[str, ...],
    *,
    seconds: float | None = None,
    lasts_s: float = 1.2,
    rests_s: float = 0.7,
    seed: int = 1,
) -> tuple[Verdict, Timeline]:
    """Run each fault once, or all of them for so long; what the judge says, and the timeline."""
    target = LocalTarget(cluster)
    scenario = Scenario(
        "test", faults, lasts_s=(lasts_s, 1.3 * lasts_s), rests_s=(rests_s, 1.3 * rests_s)
    )
    urls = cluster.client_urls if scenario.breaks_clients else cluster.urls
    history = folder / "history.jsonl"
    with Recorder(history) as recorder:
        campaign = Campaign(target, urls, scenario, clients, recorder, target.depth, seed=seed)
        asyncio.run(campaign.run_each() if seconds is None else campaign.run(seconds))
    return judge(read(history)), timeline(read(history))


def used_while(
    cluster: ClusterOfNodes, clients: Plan, folder: Path, happens: Callable[[Recorder], None]
) -> Verdict:
    """What the judge says of clients that use queues while that happens, and until CONFIRMED
    messages more are confirmed."""
    history = folder / "history.jsonl"
    target = LocalTarget(cluster)

    async def run(recorder: Recorder) -> None:
        async with Workload(cluster.urls, clients, recorder) as workload:
            await asyncio.to_thread(happens, recorder)
            wanted = workload.counts.confirmed + CONFIRMED
            async with asyncio.timeout(WAIT_S):
                while workload.counts.confirmed < wanted:
                    await asyncio.sleep(0.05)
            await workload.finish(target.depth)

    with Recorder(history) as recorder:
        asyncio.run(run(recorder))
    return judge(read(history))


def check(verdict: Verdict, confirmed_min: int = CONFIRMED) -> None:
    """Nothing is wrong, everything was drained, and it was no idle run."""
    assert verdict.is_clean, verdict.format()
    assert verdict.undrained == []
    assert verdict.confirmed >= confirmed_min, verdict.format()

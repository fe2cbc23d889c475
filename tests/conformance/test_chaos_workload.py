"""The clients of chaos runs on one real node: what they write down is judged clean, or is not."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from warren.testing import Node, NodeFailed
from warren.testing.chaos.campaign import Campaign
from warren.testing.chaos.clients import Habits, body_of, message_of
from warren.testing.chaos.scenarios import Scenario
from warren.testing.chaos.timeline import timeline
from warren.testing.chaos.workload import CLASSIC, QUORUM, NotDeclared, Plan, QueuePlan, Workload
from warren.testing.history import Kind, Recorder, Verdict, judge, read
from warren.testing.node import PACKAGES_DIR

HABITS = Habits(rate=300, patience_s=5)


class OneNode:
    """A cluster of one, as a target: keeps `Target` as far as its process is concerned."""

    count = 1

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self, number: int) -> str:
        return self._node.name

    def kill9(self, numbers: Iterable[int]) -> None:
        self._node.kill9()

    def stop(self, numbers: Iterable[int]) -> None:
        self._node.stop()

    def start(self, numbers: Iterable[int]) -> None:
        self._node.start()

    def pause(self, numbers: Iterable[int]) -> None:
        self._node.pause()

    def resume(self, numbers: Iterable[int]) -> None:
        self._node.resume()

    def wipe(self, number: int) -> None:
        self._node.wipe()

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        raise AssertionError("one node has no links")

    def cut(self, one: int, two: int) -> None:
        raise AssertionError("one node has no links")

    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        raise AssertionError("nothing is before its port")

    def client_cut(self, number: int) -> None:
        raise AssertionError("nothing is before its port")

    def heal_links(self) -> None:
        raise AssertionError("one node has no links")

    async def depth(self, queue: str) -> int | None:
        try:
            found = await asyncio.to_thread(self._node.api, "GET", f"/api/queues/%2F/{queue}")
        except NodeFailed:
            return None
        return int(found["messages"])


def plan(type_: str, consumers: int = 2) -> Plan:
    return Plan(queues=(QueuePlan("chaos", type_, 2, consumers),), habits=HABITS)


def suffer(
    node: Node, path: Path, type_: str, faults: tuple[str, ...], consumers: int = 2
) -> Verdict:
    """Run each of those faults once against the node, and judge what the clients saw."""
    target = OneNode(node)
    scenario = Scenario("test", faults, lasts_s=(0.3, 0.5), rests_s=(0.4, 0.5))
    with Recorder(path) as recorder:
        campaign = Campaign(
            target, [node.url], scenario, plan(type_, consumers), recorder, target.depth, seed=1
        )
        asyncio.run(campaign.run_each(drain_s=20 if consumers else 1))
    return judge(read(path))


def test_a_run_without_faults_has_an_outcome_for_all_and_each_delivery_once(
    warren_node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    verdict = suffer(warren_node, path, CLASSIC, ())
    assert verdict.is_clean, verdict.format()
    assert verdict.published == verdict.confirmed == verdict.taken > 100
    assert verdict.redeliveries > 0  # Some are given back on purpose.
    assert verdict.undrained == []
    made = timeline(read(path), 0.5)
    assert sum(slot.confirmed for slot in made.slots) == verdict.confirmed


def test_a_node_that_is_killed_and_paused_loses_nothing(warren_node: Node, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    verdict = suffer(warren_node, path, QUORUM, ("kill", "pause"))
    assert verdict.is_clean, verdict.format()
    assert verdict.faults == 2
    assert verdict.confirmed > 100
    assert "kill" in timeline(read(path)).longest_silences()


def test_a_node_whose_disk_is_wiped_is_found_to_have_lost_messages(
    warren_node: Node, tmp_path: Path
) -> None:
    target = OneNode(warren_node)
    path = tmp_path / "history.jsonl"

    async def nothing(queue: str) -> int | None:
        return 0

    async def lose(recorder: Recorder) -> None:
        habits = Habits(rate=200, credit=1, patience_s=2, timeout_s=2)
        queue = QueuePlan("chaos", CLASSIC, publishers=1, consumers=0)
        async with Workload([warren_node.url], Plan(queues=(queue,), habits=habits), recorder) as w:
            while w.counts.confirmed < 20:
                await asyncio.sleep(0.01)
            recorder.fault("wipe", "test")
            await asyncio.to_thread(target.kill9, [1])
            await asyncio.to_thread(target.wipe, 1)
            await asyncio.to_thread(target.start, [1])
            recorder.healed("wipe", "test")
            await w.finish(nothing)

    with Recorder(path) as recorder:
        asyncio.run(lose(recorder))
    verdict = judge(read(path))
    assert verdict.counts[Kind.LOST] >= 20


LIES = """
import os
import warren.storage.disk as disk

honest = disk.OsDisk.pwritev


def pwritev(self, handle, parts, offset, dsync):
    if not (dsync and os.path.exists({flag!r})):
        honest(self, handle, parts, offset, dsync)


disk.OsDisk.pwritev = pwritev
"""


def test_a_node_whose_disk_only_says_that_it_has_written_fails_the_run(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "sitecustomize.py").write_text(LIES.format(flag=str(flag)))
    paths = os.pathsep.join([str(tmp_path), str(PACKAGES_DIR)])
    history = tmp_path / "history.jsonl"
    settings = {"storage.direct_io": "false"}  # All that is written passes the liar.
    with Node(environment={"PYTHONPATH": paths}, settings=settings) as node:
        flag.touch()
        with pytest.raises(NodeFailed, match="has not the content that was written"):
            suffer(node, history, CLASSIC, ("kill",), consumers=0)


def test_a_broker_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.testing.chaos.workload.DECLARE_S", 0.3)

    async def begin() -> None:
        with Recorder(tmp_path / "history.jsonl") as recorder:
            async with Workload(["amqp://127.0.0.1:1"], plan(CLASSIC), recorder):
                raise AssertionError("declared by no client")

    with pytest.raises(NotDeclared, match="chaos"):
        asyncio.run(begin())


def test_a_body_tells_its_message() -> None:
    body = body_of("p1.2:17", 40)
    assert len(body) == 40
    assert message_of(body) == "p1.2:17"
    assert message_of(body_of("p1.2:17", 3)) == "p1.2:17"

"""A node that is reset leaves its cluster, answers, and ends, whichever news of it comes first."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from node.cluster.membership.leaving import STOP_S, Leaving
from node.cluster.membership.member_changes import Refused
from node.operations.resetting import MARK
from queues.definitions.metadata import outcomes
from tests.unit.node.cluster.operating_world import OperatingWorld
from warren.storage.disk import OsDisk
from warren.wire.errors import ReplyCode

DEADLINE_S = 10.0


class Site:
    """Node 1 of three, which can be reset; it says when it would end."""

    def __init__(self, directory: Path) -> None:
        self.world = OperatingWorld()
        self.on_removed: Callable[[], None] | None = None
        self.directory = directory
        self.ends = 0
        operating = self.world.nodes[1]
        self.leaving = Leaving(
            operating.membership, operating.status, OsDisk(), str(directory), self._end, self
        )

    def _end(self) -> None:
        self.ends += 1

    async def reset(self) -> int:
        """How often the node was ended before it answered, which is 0."""
        async with asyncio.timeout(DEADLINE_S):
            await self.leaving.reset("n1")
            before = self.ends
            while not self.ends:
                await asyncio.sleep(STOP_S / 4)
        return before

    def is_marked(self) -> bool:
        return MARK in os.listdir(self.directory)


def test_a_node_that_is_reset_answers_before_it_ends(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.world.run(site.reset()) == 0
    assert (site.ends, site.is_marked()) == (1, True)
    assert 1 not in site.world.machine.roster.members


def test_the_answer_does_not_wait_for_what_the_others_do_not_tell_any_more(tmp_path: Path) -> None:
    """They have ended their links, and one that was asked says that it is a member no more."""
    site = Site(tmp_path)

    def remove() -> None:
        assert site.on_removed is not None
        site.on_removed()

    site.world.nodes[1].definitions.instead = remove
    assert site.world.run(site.reset()) == 0
    assert site.is_marked()


def test_a_reset_that_is_refused_leaves_the_node_as_it_was(tmp_path: Path) -> None:
    site = Site(tmp_path)
    refusal = outcomes.Refused(ReplyCode.PRECONDITION_FAILED, "no majority")
    site.world.nodes[1].definitions.refusal = refusal
    with pytest.raises(Refused, match="no majority"):
        site.world.run(site.leaving.reset("n1"))
    assert (site.ends, site.is_marked(), site.on_removed) == (0, False, None)

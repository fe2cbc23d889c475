"""What operators set on a running node by HTTP."""

import pytest

from node.management.operations import NOT_ADJUSTABLE
from node.resources.alarms import Alarms
from node.resources.disk_monitor import DiskReading
from tests.unit.node.metered_api import Call, with_meter

HERE = "/api/nodes/warren@here"
GIB = 1 << 30


class FakeNode:
    """Keeps `NodeControls`."""

    memory_total_bytes = 8 * GIB

    def __init__(self) -> None:
        self.limits: list[tuple[int | None, int | None]] = []
        self.listening: list[bool] = []
        self.fault = ""

    def set_limits(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        self.limits.append((memory_bytes, disk_bytes))

    async def set_listening(self, is_open: bool) -> None:
        if self.fault:
            raise OSError(self.fault)
        self.listening.append(is_open)

    def advance_clock(self, ms: int) -> None:
        raise OSError(NOT_ADJUSTABLE)


def test_limits_are_shares_of_the_memory_or_bytes() -> None:
    node = FakeNode()

    async def test(call: Call) -> None:
        for body in (
            {"vm_memory_high_watermark": {"relative": 0.5}},
            {"vm_memory_high_watermark": {"absolute": 1000}, "disk_free_limit": {"absolute": 7}},
            {"disk_free_limit": {"mem_relative": 2}},
        ):
            assert (await call(f"{HERE}/limits", method="PUT", body=body))[0] == 204

    with_meter(test, controls=node)
    assert node.limits == [(4 * GIB, None), (1000, 7), (None, 16 * GIB)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"disk_free_limit": 7},
        {"disk_free_limit": {}},
        {"disk_free_limit": {"relative": 1}},
        {"disk_free_limit": {"absolute": "7"}},
        {"disk_free_limit": {"absolute": True}},
        {"disk_free_limit": {"absolute": -1}},
        {"disk_free_limit": {"absolute": 1e300}},
        {"disk_free_limit": {"absolute": 1, "mem_relative": 1}},
        {"vm_memory_high_watermark": {"relative": None}},
        {"vm_memory_high_watermark": {"relative": 1.01}},
        [],
    ],
)
def test_a_limit_that_is_none_is_refused(body: object) -> None:
    node = FakeNode()

    async def test(call: Call) -> None:
        status, answer = await call(f"{HERE}/limits", method="PUT", body=body)
        assert (status, answer["error"]) == (400, "bad_request")

    with_meter(test, controls=node)
    assert node.limits == []


def test_the_listener_is_suspended_and_resumed() -> None:
    node = FakeNode()

    async def test(call: Call) -> None:
        place = f"{HERE}/listeners"
        assert (await call(place, method="POST", body={"action": "suspend"}))[0] == 204
        assert (await call(place, method="POST", body={"action": "resume"}))[0] == 204
        assert (await call(place, method="POST", body={"action": "stop"}))[0] == 400
        assert (await call(place, method="POST", body={}))[0] == 400
        node.fault = "the port is taken"
        status, answer = await call(place, method="POST", body={"action": "resume"})
        assert (status, answer["reason"]) == (503, "the port is taken")

    with_meter(test, controls=node)
    assert node.listening == [False, True]


def test_only_administrators_set_anything() -> None:
    node = FakeNode()

    async def test(call: Call) -> None:
        for user in ("watch", "shop"):
            body = {"disk_free_limit": {"absolute": 1}}
            assert (await call(f"{HERE}/limits", user, "PUT", body))[0] == 401
            assert (await call(f"{HERE}/listeners", user, "POST", {"action": "resume"}))[0] == 401

    with_meter(test, controls=node)
    assert node.limits == [] and node.listening == []


def test_other_limits_raise_and_end_an_alarm_at_once() -> None:
    changes: list[None] = []
    alarms = Alarms(1000, 50, lambda: changes.append(None))
    alarms.observe_memory(500)
    alarms.observe_disk(DiskReading(100))
    alarms.set_limits(400, None)
    assert (alarms.memory, alarms.disk) == (True, False)
    alarms.set_limits(None, 200)
    assert (alarms.memory, alarms.disk) == (True, True)
    alarms.set_limits(600, 60)
    assert (alarms.memory, alarms.disk) == (False, False)
    assert len(changes) == 3

"""Ports of nodes under test: workers that run side by side never draw the same one."""

import pytest

from warren.testing.node import PORT_FIRST, PORT_LAST, free_port


def test_workers_of_a_test_run_draw_ports_from_ranges_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    drawn: list[set[int]] = []
    for worker in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        drawn.append({free_port() for _ in range(100)})
    assert [len(ports) for ports in drawn] == [100] * 3
    for worker, ports in enumerate(drawn):
        width = (PORT_LAST - PORT_FIRST) // 3
        assert min(ports) >= PORT_FIRST + worker * width
        assert max(ports) < PORT_FIRST + (worker + 1) * width

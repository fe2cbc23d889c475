"""Celery as applications run it: a worker process, retries, countdown, results over rpc://."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from celery import group

from tests.conformance.broker import Broker, wait_until_ready

HERE: Final = Path(__file__).resolve().parent / "celery_app"
SECONDS: Final = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def jobs(broker: Broker) -> Iterator[Any]:
    """The application of `celery_app/`, as this process calls it."""
    os.environ["BROKER_URL"] = broker.url()
    os.environ["TASK_QUEUE"] = f"celery-{os.getpid()}"
    sys.path.insert(0, str(HERE))
    import warren_jobs  # type: ignore[import-not-found,unused-ignore]

    yield warren_jobs
    warren_jobs.app.close()
    sys.path.remove(str(HERE))
    connection = broker.connect()
    connection.channel().queue_delete(os.environ["TASK_QUEUE"])
    connection.close()


@pytest.fixture(scope="module")
def worker(jobs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A worker process with two pool processes; yields its log."""
    log = tmp_path_factory.mktemp("celery") / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "warren_jobs", "worker"]
    command += ["--concurrency", "2", "--loglevel", "INFO", "--pool", "prefork"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=output)
    yield log
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
        raise


def test_a_task_returns_its_result(jobs: Any, worker: Path) -> None:
    assert jobs.add.delay(2, 3).get(timeout=SECONDS) == 5


def test_a_hundred_tasks_return_their_results(jobs: Any, worker: Path) -> None:
    results = group(jobs.add.s(n, n) for n in range(100))().get(timeout=SECONDS)
    assert results == [2 * n for n in range(100)]


def test_a_task_is_retried_until_it_succeeds(jobs: Any, worker: Path) -> None:
    assert jobs.third_time_lucky.delay().get(timeout=SECONDS) == 2


def test_an_error_comes_back_to_the_caller(jobs: Any, worker: Path) -> None:
    with pytest.raises(ValueError, match="as arranged"):
        jobs.always_fails.delay().get(timeout=SECONDS)


def test_a_countdown_is_kept(jobs: Any, worker: Path) -> None:
    asked = time.time()
    ran = jobs.now.apply_async(countdown=1.5).get(timeout=SECONDS)
    assert ran - asked >= 1.4


def test_the_worker_answers_remote_control(jobs: Any, worker: Path) -> None:
    jobs.add.delay(1, 1).get(timeout=SECONDS)
    answers = jobs.app.control.ping(timeout=5.0)
    assert [list(answer.values()) for answer in answers] == [[{"ok": "pong"}]]


def test_a_task_waits_in_the_queue_when_no_worker_is_there(
    jobs: Any, channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    jobs.add.apply_async((1, 2), queue=name)
    wait_until_ready(channel, name, 1)
    method, properties, _ = channel.basic_get(name)
    assert properties.headers["task"] == "warren_jobs.add"
    assert properties.delivery_mode == 2
    channel.basic_ack(method.delivery_tag)

"""Celery with options of queues: priorities, dead letters, expiration, ETA, quorum queues.

With quorum queues Celery delays tasks by a ladder of 28 queues, each with a message TTL and a
dead-letter exchange of the next: see `kombu.transport.native_delayed_delivery`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.broker import Broker, ready_count, settle_down, take, wait_until_ready

HERE: Final = Path(__file__).resolve().parent / "celery_app"
SECONDS: Final = 60.0
DELAY_QUEUES: Final = 28

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

Ran = Callable[[], list[str]]


@pytest.fixture(scope="module")
def task_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which tasks write that they ran."""
    return tmp_path_factory.mktemp("celery-options") / "ran"


@pytest.fixture(scope="module")
def apps(broker: Broker, task_log: Path) -> Iterator[Any]:
    """The applications of `celery_app/warren_options.py`, as this process calls them."""
    name = f"celery-{os.getpid()}-options"
    os.environ.update(BROKER_URL=broker.url(), TASK_QUEUE=name, TASK_LOG=str(task_log))
    sys.path.insert(0, str(HERE))
    import warren_options  # type: ignore[import-not-found,unused-ignore]

    yield warren_options
    for app in (warren_options.classic, warren_options.quorum):
        app.close()
    sys.path.remove(str(HERE))
    connection = broker.connect()
    channel = connection.channel()
    for queue in (f"{name}-classic", f"{name}-dead", f"{name}-quorum"):
        channel.queue_delete(queue)
    for level in range(DELAY_QUEUES):
        channel.queue_delete(f"celery_delayed_{level}")
        channel.exchange_delete(f"celery_delayed_{level}")
    channel.exchange_delete("celery_delayed_delivery")
    channel.exchange_delete(f"{name}-quorum")
    connection.close()


@contextmanager
def worker(app: str, log: Path) -> Iterator[None]:
    """A worker of this application, one task at a time."""
    command = [sys.executable, "-m", "celery", "-A", f"warren_options:{app}", "worker"]
    command += ["--pool", "solo", "--loglevel", "INFO", "--without-gossip", "--without-mingle"]
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise


@pytest.fixture(scope="module")
def quorum(apps: Any, task_log: Path) -> Iterator[Any]:
    """The application on a quorum queue, with a worker that is ready."""
    with worker("quorum", task_log.with_name("quorum.log")):
        apps.quorum.tasks["ran"].delay("ready").get(timeout=SECONDS)
        yield apps.quorum


@pytest.fixture
def run_classic(apps: Any, channel: Any, task_log: Path) -> Iterator[Callable[[], Any]]:
    """Starts a worker on the classic queue, after the test has filled it; its application."""
    # Celery declares a queue once for each connection of its pool, and an earlier test deleted it.
    apps.classic.amqp.queues[f"{apps.NAME}-classic"](apps.classic.pool.acquire()).declare()
    channel.queue_purge(f"{apps.NAME}-classic")
    with ExitStack() as stack:

        def start() -> Any:
            log = task_log.with_name("classic.log")
            stack.enter_context(worker("classic", log))
            return apps.classic

        yield start


def words(task_log: Path) -> list[str]:
    """What the tasks that ran were given, in the order in which they ran."""
    return [line.split()[0] for line in task_log.read_text().splitlines()]


def test_tasks_run_by_priority(apps: Any, run_classic: Callable[[], Any], task_log: Path) -> None:
    task = apps.classic.tasks["ran"]
    results = [
        task.apply_async((f"p{priority}-{number}",), priority=priority)
        for number in range(3)
        for priority in (0, 9, 5)
    ]
    run_classic()
    for result in results:
        result.get(timeout=SECONDS)
    ran = [word for word in words(task_log) if word.startswith("p")]
    assert ran == [f"p{priority}-{number}" for priority in (9, 5, 0) for number in range(3)]


def test_a_task_that_is_rejected_is_dead_lettered(
    apps: Any, run_classic: Callable[[], Any], channel: Any
) -> None:
    dead = f"{apps.NAME}-dead"
    channel.queue_declare(dead, durable=True)
    asked = apps.classic.tasks["refuse"].delay("refused")
    run_classic()
    wait_until_ready(channel, dead, 1)
    message = take(channel, dead)
    channel.basic_ack(message.delivery_tag)
    assert message.properties.headers["id"] == asked.id
    [death] = message.properties.headers["x-death"]
    assert (death["queue"], death["reason"]) == (f"{apps.NAME}-classic", "rejected")


def test_a_task_that_expires_before_a_worker_comes_is_dead_lettered(
    apps: Any, run_classic: Callable[[], Any], channel: Any
) -> None:
    dead = f"{apps.NAME}-dead"
    channel.queue_declare(dead, durable=True)
    apps.classic.tasks["ran"].apply_async(("too late",), expiration=0.2)
    wait_until_ready(channel, dead, 1)
    message = take(channel, dead)
    channel.basic_ack(message.delivery_tag)
    assert message.properties.headers["x-death"][0]["original-expiration"] == "200"
    assert ready_count(channel, f"{apps.NAME}-classic") == 0


def test_a_retry_goes_before_tasks_of_lower_priority(
    apps: Any, run_classic: Callable[[], Any], task_log: Path
) -> None:
    lucky = apps.classic.tasks["third_time_lucky"].apply_async(("r-high", 0), priority=9)
    low = apps.classic.tasks["ran"].apply_async(("r-low",), priority=1)
    run_classic()
    assert lucky.get(timeout=SECONDS) == 2
    low.get(timeout=SECONDS)
    ran = [word for word in words(task_log) if word.startswith("r-")]
    assert ran.count("r-high") == 3
    assert ran[0] == "r-high"


def test_a_hundred_tasks_on_a_quorum_queue_return_their_results(
    quorum: Any, task_log: Path
) -> None:
    results = [quorum.tasks["ran"].delay(f"q-{number}") for number in range(100)]
    for result in results:
        result.get(timeout=SECONDS)
    ran = [word for word in words(task_log) if word.startswith("q-")]
    assert ran == [f"q-{number}" for number in range(100)]


def test_the_queue_of_the_tasks_is_a_quorum_queue(quorum: Any, apps: Any, channel: Any) -> None:
    arguments = {"x-queue-type": "quorum"}
    told = channel.queue_declare(f"{apps.NAME}-quorum", durable=True, arguments=arguments).method
    assert told.consumer_count == 1


def test_a_task_with_a_countdown_passes_the_ladder_of_delays(quorum: Any, channel: Any) -> None:
    asked = time.time()
    result = quorum.tasks["ran"].apply_async(("delayed",), countdown=3)
    # Three seconds are one step of two and one of one; the first holds the task right away.
    settle_down(channel, lambda: ready_count(channel, "celery_delayed_1") == 1)
    assert 2.9 <= result.get(timeout=SECONDS) - asked < 8


def test_a_task_with_an_eta_does_not_run_before(quorum: Any) -> None:
    asked = time.time()
    eta = datetime.now(UTC) + timedelta(seconds=2)
    ran = quorum.tasks["ran"].apply_async(("eta",), eta=eta).get(timeout=SECONDS)
    assert 1.0 <= ran - asked < 8


def test_delayed_tasks_run_in_the_order_of_their_delays(quorum: Any, task_log: Path) -> None:
    results = [
        quorum.tasks["ran"].apply_async((f"d-{seconds}",), countdown=seconds)
        for seconds in (3, 1, 2)
    ]
    for result in results:
        result.get(timeout=SECONDS)
    ran = [word for word in words(task_log) if word.startswith("d-")]
    assert ran == ["d-1", "d-2", "d-3"]


def test_a_task_is_retried_by_way_of_the_ladder(quorum: Any) -> None:
    asked = time.time()
    assert quorum.tasks["third_time_lucky"].delay("lucky", 1).get(timeout=SECONDS) == 2
    assert time.time() - asked >= 1.9

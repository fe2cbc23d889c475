"""A small Celery application: plain tasks, retries, a countdown, results over RPC."""

import os
import time
from typing import Any

from celery import Celery

app = Celery("warren_jobs", broker=os.environ["BROKER_URL"], backend="rpc://")
app.conf.update(
    task_default_queue=os.environ["TASK_QUEUE"],
    task_acks_late=True,
    worker_prefetch_multiplier=2,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    result_expires=None,
    timezone="UTC",
)


@app.task  # type: ignore[untyped-decorator]
def add(x: int, y: int) -> int:
    """The usual first task."""
    return x + y


@app.task(bind=True, max_retries=3, default_retry_delay=0)  # type: ignore[untyped-decorator]
def third_time_lucky(self: Any) -> int:
    """Fails twice, then tells at which attempt it succeeded."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task  # type: ignore[untyped-decorator]
def always_fails() -> None:
    """Its error must come back to the caller."""
    raise ValueError("as arranged")


@app.task  # type: ignore[untyped-decorator]
def now() -> float:
    """When it ran, by the clock of this machine."""
    return time.time()

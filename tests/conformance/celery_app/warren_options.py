"""Two small Celery applications: a classic queue with priorities and dead letters, a quorum one.

Each task that runs appends a line to the file `TASK_LOG`: what it was given and when it ran.
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from kombu.entity import Exchange, Queue

NAME = os.environ["TASK_QUEUE"]
LOG = Path(os.environ["TASK_LOG"])

classic = Celery("classic", broker=os.environ["BROKER_URL"], backend="rpc://", set_as_current=False)
classic.conf.update(
    task_queues=[
        Queue(  # type: ignore[no-untyped-call]
            f"{NAME}-classic",
            Exchange(""),  # type: ignore[no-untyped-call]
            f"{NAME}-classic",
            queue_arguments={
                "x-max-priority": 10,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": f"{NAME}-dead",
            },
        )
    ],
    task_default_queue=f"{NAME}-classic",
    task_default_priority=5,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_expires=60,
)

quorum = Celery("quorum", broker=os.environ["BROKER_URL"], backend="rpc://", set_as_current=False)
quorum.conf.update(
    task_default_queue=f"{NAME}-quorum",
    task_default_queue_type="quorum",
    task_default_exchange=f"{NAME}-quorum",
    task_default_exchange_type="topic",
    task_default_routing_key=f"{NAME}-quorum",
    broker_transport_options={"confirm_publish": True},
    broker_native_delayed_delivery_queue_type="quorum",
    worker_detect_quorum_queues=True,
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    result_expires=60,
)


def note(word: str) -> float:
    """Write down that a task ran; when."""
    now = time.time()
    with LOG.open("a") as lines:
        lines.write(f"{word} {now}\n")
    return now


def add_tasks(app: Celery) -> None:
    """The same tasks for both."""

    @app.task(name="ran", shared=False)  # type: ignore[untyped-decorator]
    def ran(word: str) -> float:
        return note(word)

    @app.task(name="third_time_lucky", shared=False, bind=True, max_retries=3)  # type: ignore[untyped-decorator]
    def third_time_lucky(self: Any, word: str, countdown: int) -> int:
        note(word)
        if self.request.retries < 2:
            raise self.retry(countdown=countdown)
        return int(self.request.retries)

    @app.task(name="refuse", shared=False)  # type: ignore[untyped-decorator]
    def refuse(word: str) -> None:
        note(word)
        raise Reject("no", requeue=False)


add_tasks(classic)
add_tasks(quorum)

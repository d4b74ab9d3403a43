"""The Celery application of the conformance tests: what `celery worker` runs.

The worker process finds the broker in CONFORMANCE_BROKER and takes every name it uses on the
broker from CONFORMANCE_PREFIX. When it is ready for tasks it writes a line to the file descriptor
CONFORMANCE_READY_FD. The tests import `make_app` only, and call tasks by name.
"""

import itertools
import os
import signal
import time
from pathlib import Path

import kombu
from celery import Celery
from celery.signals import worker_ready

BROKER_VARIABLE = "CONFORMANCE_BROKER"
PREFIX_VARIABLE = "CONFORMANCE_PREFIX"
READY_VARIABLE = "CONFORMANCE_READY_FD"
QUORUM_VARIABLE = "CONFORMANCE_QUORUM"

LADDER_LEVELS = 28


def make_app(broker_url: str, prefix: str, *, quorum: bool = False) -> Celery:
    """Make the application, as worker and caller both see it.

    With a quorum queue Celery has tasks for later wait in the broker, in its ladder of delays.
    """
    app = Celery("conformance", broker=broker_url, backend="rpc://")
    work = kombu.Exchange(f"{prefix}-work", type="topic" if quorum else "direct")
    arguments = {"x-queue-type": "quorum"} if quorum else None
    app.conf.update(
        task_queues=[
            kombu.Queue(f"{prefix}-work", work, f"{prefix}-work", queue_arguments=arguments),
            kombu.Queue(
                f"{prefix}-urgent",
                kombu.Exchange(f"{prefix}-urgent"),
                f"{prefix}-urgent",
                max_priority=10,
            ),
        ],
        task_default_queue=f"{prefix}-work",
        control_exchange=f"{prefix}-control",
        event_exchange=f"{prefix}-events",
        result_persistent=False,
        worker_prefetch_multiplier=4,
        worker_hijack_root_logger=False,
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry_on_startup=True,
        task_default_exchange=f"{prefix}-work",
        task_default_exchange_type=work.type,
        task_default_routing_key=f"{prefix}-work",
        broker_heartbeat=5,
    )
    return app


def register_tasks(app: Celery) -> None:
    """Define the tasks; only the worker needs them."""
    order = itertools.count()

    @app.task(name="add")
    def add(x, y):
        return x + y

    @app.task(name="fail")
    def fail():
        message = "as asked"
        raise ValueError(message)

    @app.task(name="now")
    def now():
        return time.time()

    @app.task(name="key_and_now", bind=True)
    def key_and_now(self):
        return self.request.delivery_info["routing_key"], time.time()

    @app.task(name="try_again", bind=True, max_retries=3)
    def try_again(self, successes_at):
        if self.request.retries < successes_at:
            raise self.retry(countdown=0.05)
        return self.request.retries

    @app.task(name="take_a_number")
    def take_a_number():
        return next(order)

    @app.task(name="wait_for")
    def wait_for(fifo):
        return Path(fifo).read_text()

    @app.task(name="die_once", bind=True, acks_late=True, reject_on_worker_lost=True)
    def die_once(self):
        if not self.request.delivery_info["redelivered"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return "redelivered"


if BROKER_VARIABLE in os.environ:
    app = make_app(
        os.environ[BROKER_VARIABLE],
        os.environ[PREFIX_VARIABLE],
        quorum=QUORUM_VARIABLE in os.environ,
    )
    register_tasks(app)

    @worker_ready.connect
    def tell(**_: object) -> None:
        """Tell the tests that tasks may come."""
        with os.fdopen(int(os.environ[READY_VARIABLE]), "w") as ready:
            ready.write("ready\n")

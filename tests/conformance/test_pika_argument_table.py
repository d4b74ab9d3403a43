"""What docs/queue-arguments.md says is refused, asked of a running broker; of RabbitMQ too."""

import pytest
from tests.broker.argument_tables import Row, rows
from tests.conformance.marks import foreign
from tests.conformance.pika_steps import channel_closed

# What the arguments of a queue must have beside them to be a queue of that type.
TYPE = "x-queue-type"


def cases(table: str) -> list:
    """Every row, type of queue and wrong value; RabbitMQ is not asked what it does not know."""
    return [
        pytest.param(row, kind, value, text, id=f"{row.argument}-{kind}-{value!r}")
        for row in rows(table)
        for kind in row.types
        for value, text in row.refused
        if not (foreign and row.ours_alone)
    ]


def refusal(row: Row, queue: str, text: str) -> str:
    """The reply text; a text that ends at the queue is all of it."""
    title = f"queue '{queue}' in vhost '/'"
    if text.endswith("queue …"):
        return "PRECONDITION_FAILED - " + text.replace("queue …", title)
    return f"PRECONDITION_FAILED - invalid arg '{row.argument}' for {title}: {text}"


@pytest.mark.parametrize(("row", "kind", "value", "text"), cases("Of queues"))
def test_wrong_arguments_of_queues(channel, name, row, kind, value, text):
    queue = name()
    arguments = {TYPE: kind} | {row.argument: value}
    with channel_closed(406, refusal(row, queue, text)):
        channel.queue_declare(queue, durable=True, arguments=arguments)


@pytest.mark.parametrize(("row", "kind", "value", "text"), cases("Of consumers"))
def test_wrong_arguments_of_consumers(channel, name, row, kind, value, text):
    queue = name()
    channel.queue_declare(queue, durable=True, arguments={TYPE: kind})
    channel.basic_qos(prefetch_count=1)
    with channel_closed(406, refusal(row, queue, text)):
        channel.basic_consume(queue, print, arguments={row.argument: value})

"""RabbitMQ's AMQP 1.0 client, which knows nothing of hints, while leaders move under its links."""

import threading
from contextlib import suppress
from typing import Any

import rabbitmq_amqp_python_client as rabbitmq

from warren.testing import ClusterOfNodes, Node, NodeFailed

QUEUE = "unaware"
COUNT = 60


class Taker(rabbitmq.AMQPMessagingHandler):
    """Accepts what it gets until it has enough."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def on_amqp_message(self, event: Any) -> None:
        self.bodies.append(bytes(event.message.body))
        self.delivery_context.accept(event)
        if len(set(self.bodies)) == COUNT:
            raise StopIteration


class Mover(threading.Thread):
    """Has one node after the other lead the queue, until it is stopped."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.moves = 0
        self.over = threading.Event()

    def run(self) -> None:
        names = ["n1", "n2", "n3"]
        while not self.over.wait(0.3):
            names.append(names.pop(0))
            with suppress(NodeFailed):  # There is no leader, or that node already leads.
                place = f"/api/queues/quorum/%2F/{QUEUE}/leader"
                self.node.api("POST", place, {"node": names[0]})
                self.moves += 1


def test_a_client_that_ignores_hints_publishes_and_consumes_while_the_leader_moves(
    warren_shared_cluster: ClusterOfNodes,
) -> None:
    node = warren_shared_cluster.node(1)
    connection = rabbitmq.Environment(f"amqp://guest:guest@127.0.0.1:{node.port}/").connection()
    connection.dial()
    management = connection.management()
    management.declare_queue(rabbitmq.QuorumQueueSpecification(name=QUEUE))
    address = rabbitmq.AddressHelper.queue_address(QUEUE)
    publisher = connection.publisher(address)
    mover = Mover(node)
    mover.start()
    bodies = [b"%d" % number for number in range(COUNT)]
    try:
        for body in bodies:
            status = publisher.publish(rabbitmq.Message(body=body))
            assert status.remote_state == rabbitmq.OutcomeState.ACCEPTED
            mover.over.wait(0.02)  # So that leaders move meanwhile.
        while mover.moves < 3:
            assert mover.is_alive()
            mover.over.wait(0.05)
        taker = Taker()
        consumer = connection.consumer(address, message_handler=taker)
        with suppress(StopIteration):
            consumer.run()
    finally:
        mover.over.set()
        mover.join()
    assert list(dict.fromkeys(taker.bodies)) == bodies
    connection.close()

"""Cost of the AMQP 0-9-1 core per message: scanning publishes in, writing deliveries out.

    python bench/micro/wire.py

Prints nanoseconds per message, the best and the median of several rounds, and the build.
"""

import platform
import statistics
import time
from collections.abc import Callable

from warren.wire.amqp091 import deliver
from warren.wire.amqp091.connection import Connection, Limits
from warren.wire.amqp091.events import Publishes
from warren.wire.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.buffer import BytesWriter

READ_BYTES = 65_536
MESSAGES = 60_000
ROUNDS = 9


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    head = bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + b"\xce"


def method_frame(channel: int, method: Method) -> bytes:
    return frame(1, channel, method.encode())


def message(channel: int, routing_key: bytes, properties: BasicProperties, body: bytes) -> bytes:
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties.encode()
    publish = method_frame(channel, BasicPublish("", routing_key))
    return publish + frame(2, channel, header) + frame(3, channel, body)


def opened_connection() -> Connection:
    connection = Connection(Limits(), {}, "PLAIN", 0)
    connection.start()
    connection.receive(method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0a\0b", "en_US")), 0)
    connection.accept_login()
    connection.receive(method_frame(0, ConnectionTuneOk(2047, 131072, 60)), 0)
    connection.receive(method_frame(0, ConnectionOpen("/")), 0)
    connection.accept_open()
    connection.receive(method_frame(1, ChannelOpen()), 0)
    return connection


def reads_of(stream: bytes) -> list[bytes]:
    return [stream[at : at + READ_BYTES] for at in range(0, len(stream), READ_BYTES)]


def measure(name: str, count: int, run: Callable[[], None]) -> None:
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        run()
        rounds.append((time.perf_counter_ns() - begin) / count)
    print(f"{name:44} {min(rounds):8.1f} best {statistics.median(rounds):8.1f} median")


def measure_receive(name: str, messages: list[bytes]) -> None:
    reads = reads_of(b"".join(messages))
    connection = opened_connection()

    def run() -> None:
        for read in reads:
            connection.receive(read, 0)

    measure(name, len(messages), run)


def measure_deliveries(name: str, messages: list[bytes], channel: int) -> None:
    connection = opened_connection()
    chunks = []
    for read in reads_of(b"".join(messages)):
        for event in connection.receive(read, 0):
            assert isinstance(event, Publishes)
            chunks.append((event.data, event.offsets, event.count))
    prefix = deliver.consumer_prefix(b"ctag1.0123456789abcdef")

    def run() -> None:
        tag = 1
        for data, offsets, count in chunks:
            writer = BytesWriter()
            deliver.write_deliveries(
                writer, channel, prefix, tag, False, data, 0, offsets, 0, count, 131072
            )
            writer.getvalue()
            tag += count

    measure(name, len(messages), run)


def main() -> None:
    build = "compiled" if deliver.__file__.endswith(".so") else "pure"
    print(f"{build}, Python {platform.python_version()}, {MESSAGES} messages, ns per message")
    plain = BasicProperties(delivery_mode=2)
    body = b"hello world!"
    same = [message(1, b"queue-name", plain, body)] * MESSAGES
    varying_key = [message(1, b"queue-%05d" % (i % 9973), plain, body) for i in range(MESSAGES)]
    varying_properties = [
        message(
            1,
            b"queue-name",
            BasicProperties(
                content_type="application/json", delivery_mode=2, message_id=f"{i:036d}"
            ),
            body,
        )
        for i in range(MESSAGES)
    ]
    headers: dict[str, object] = {"tenant": "acme", "attempt": 1, "trace": f"{0:032x}"}
    same_headers = [message(1, b"queue-name", BasicProperties(headers=headers), body)] * MESSAGES
    varying_headers = [
        message(1, b"queue-name", BasicProperties(headers=headers | {"trace": f"{i:032x}"}), body)
        for i in range(MESSAGES)
    ]
    large = [message(1, b"queue-name", plain, bytes(1024))] * (MESSAGES // 10)
    acks = [method_frame(1, BasicAck(i + 1)) for i in range(MESSAGES)]
    measure_receive("receive, 12 B, same key", same)
    measure_receive("receive, 12 B, varying key", varying_key)
    measure_receive("receive, 12 B, varying properties", varying_properties)
    measure_receive("receive, 12 B, same headers", same_headers)
    measure_receive("receive, 12 B, varying headers", varying_headers)
    measure_receive("receive, 1 KB, same key", large)
    measure_receive("receive, basic.ack", acks)
    measure_deliveries("deliver, 12 B, same key, same channel", same, 1)
    measure_deliveries("deliver, 12 B, same key, other channel", same, 2)
    measure_deliveries("deliver, 12 B, varying key", varying_key, 1)
    measure_deliveries("deliver, 12 B, varying properties", varying_properties, 1)
    measure_deliveries("deliver, 1 KB, other channel", large, 2)


if __name__ == "__main__":
    main()

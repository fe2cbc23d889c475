"""Measure streams beside RabbitMQ: `python -m bench.streams --help`. A row takes up to 4 minutes.

Both brokers run on one node, in turn, with fresh data; RabbitMQ with its plug-in rabbitmq_stream.

    stream    confirmed/s over the stream protocol: one publisher, batches of 100, bodies of 100 B
    java      the same with RabbitMQ's Java client and a consumer at the tail (for stream PerfTest)
    amqp      confirmed/s of bodies of 1 KB over AMQP 0-9-1 and 1.0 (`bgen`)
    cold      a stream of `--gigabytes` that is out of the page cache, read by one subscription of
              the stream protocol, then by one consumer of AMQP 1.0 and 0-9-1 (`bgen`); p50 and p99
              of confirms of another stream alone and beside each. Takes twice the disk for a while
    tail      CPU of the broker per delivery with one and with ten consumers at the tail, each on a
              connection of its own, of 20,000 messages/s of 1 KB in batches of 500; medians of
              `--rounds`. What the same publisher takes without a consumer is subtracted
    restart   `--messages` of 12 B in batches, or as many as go in `--fill` seconds, `kill -9`:
              seconds until the node is there, and until the stream is, ms to attach at a timestamp
    cluster   as amqp, on three nodes
    sql       messages that a filter looks at in a second of one core (Warren alone, in process)
"""

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from bench import run
from bench.cluster_brokers import BrokerCluster, RabbitCluster, WarrenCluster, declare
from bench.run import HERE, RMQ_BASE_PORT, RMQ_TAG, ROOT, machine
from bench.stream_client import (
    FIRST,
    NEXT,
    TIMESTAMP,
    StreamClient,
    amqp_message,
    batch_frame,
    publish_frame,
)
from queues.message import FORMAT_10, Chunk
from queues.selectors.message_fields import selector_of
from queues.selectors.sql import parse_sql
from queues.streams.filtering import StreamFilter
from warren.wire.amqp10.transfers import store

STREAM_PORT: Final = 5959
WINDOW: Final = 10_000
BODY_BYTES: Final = 1024
TAIL_RATE: Final = 20_000
TAIL_BATCH: Final = 500
TAIL_CONSUMERS: Final = 10
PROBES: Final = 300
SMALL: Final = 12
PER_BATCH: Final = 1000
READ_MAX_S: Final = 60.0
SERVED_MAX_S: Final = 30.0
QUEUE: Final = "bench"
CLUSTER: Final = "cluster"  # the row that has brokers of its own


class RabbitMQ(run.RabbitMQ):
    """With the stream plug-in, which needs a port of its own and the address of this machine."""

    def __init__(self) -> None:
        super().__init__()
        self._environment |= {"RMQ_PLUGINS": "rabbitmq_stream"}

    def start(self) -> float:
        self._script("wipe")
        data = Path(self._environment["RMQ_DATA"]) / f"{RMQ_TAG}-n1"
        folder = Path(self._environment.get("RMQ_ROOT", "/")) / str(data).lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{RMQ_BASE_PORT + 1}\n"
            f"stream.listeners.tcp.1 = 127.0.0.1:{STREAM_PORT}\n"
            "stream.advertised_host = localhost\n"
            "log.file.level = warning\nloopback_users.guest = true\n"
        )
        return self.start_again()

    def start_again(self) -> float:
        begun = time.monotonic()
        self._script("start")
        return time.monotonic() - begun

    def stop(self) -> None:
        super().stop()
        self._script("wipe")


AnyBroker = run.Warren | RabbitMQ


def opened() -> StreamClient:
    """A connection, as soon as the listener is there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return StreamClient(STREAM_PORT)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def cpu_seconds(broker: AnyBroker) -> float:
    times = psutil.Process(broker.pid()).cpu_times()
    return float(times.user + times.system)


def stream_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    client = opened()
    client.create("protocol")
    client.declare_publisher("protocol")
    data = publish_frame([amqp_message(bytes(100))] * 100)
    client.publish_for(1, data, 100, WINDOW)
    before = cpu_seconds(broker)
    rate = client.publish_for(options.seconds, data, 100, WINDOW)
    cpu = (cpu_seconds(broker) - before) / (rate * options.seconds) * 1e6
    client.delete("protocol")
    client.close()
    return f"{rate:,.0f}/s, {cpu:.2f} us of CPU for each"


def amqp_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    more = ["--declare", "bench:stream", "--delete-after", "--pids", str(broker.pid())]
    return published(broker.port, options, more)


def published(port: int, options: argparse.Namespace, more: list[str]) -> str:
    """What one publisher gets confirmed in a second over each AMQP, with 1,000 in flight."""
    found = []
    for proto in ("0.9.1", "1.0"):
        command = [str(HERE / "bgen"), "--port", str(port), "--proto", proto, "--queue", QUEUE]
        command += ["--addr-prefix", "/queues/", "--producers", "1", "--window", "1000"]
        command += ["--size", "1024", "--warmup", "1", "--duration", str(options.seconds + 1)]
        done = subprocess.run(
            [*command, *more], stdout=subprocess.PIPE, text=True, timeout=90, check=False
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        found.append(f"{proto}: {answer['pub_per_s']:,.0f}/s")
    return ", ".join(found)


def cluster_row(cluster: BrokerCluster, options: argparse.Namespace) -> str:
    """On three nodes: a member on each of them, and the publisher where the leader is."""
    cluster.start()
    try:
        port = cluster.ports()[0]
        declare(port, [QUEUE], "stream", 3)
        return published(port, options, [])
    finally:
        cluster.stop()


def java_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    """RabbitMQ's Java client, whose jars the tests of streams use."""
    opened().close()  # The listener is there.
    tools = Path(os.environ.get("WARREN_TOOLS", ROOT / ".tools"))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{tools / 'streams_java'}/*:{folder}"
        source = str(HERE / "java" / "StreamRate.java")
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", folder, source], check=True)
        command = ["java", "-cp", path, "StreamRate", str(STREAM_PORT), "100", str(options.seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    confirmed, consumed = map(float, done.stdout.split())
    return f"{confirmed:,.0f}/s confirmed, {consumed:,.0f}/s consumed"


def confirms_ms(client: StreamClient, data: bytes, work: Callable[[], None]) -> list[float]:
    """How long each of PROBES publishes takes; `work` is done between two of them."""
    found = []
    for _ in range(PROBES):
        begun, wanted = time.monotonic(), client.confirmed + 1
        client.send(data)
        while client.confirmed < wanted:
            client.read()
        found.append((time.monotonic() - begun) * 1000)
        work()
    return sorted(found)


def quantiles(values: list[float]) -> str:
    return f"p50 {statistics.median(values):.2f}, p99 {values[int(0.99 * len(values))]:.2f} ms"


def drop_page_cache() -> None:
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def cold_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    writer = opened()
    writer.create("cold", max_length_bytes="100000000000")
    writer.declare_publisher("cold")
    data = publish_frame([amqp_message(bytes(BODY_BYTES))] * 100)
    frames = int(options.gigabytes * 1e9 / len(data))
    writer.publish_count(frames, data, 100, WINDOW)
    probe = opened()
    probe.create("probe")
    probe.declare_publisher("probe")
    one = publish_frame([amqp_message(bytes(1024))])
    alone = confirms_ms(probe, one, lambda: None)
    said = [f"confirms {quantiles(alone)}"]
    for protocol in ("", "1.0", "0.9.1"):
        drop_page_cache()
        beside: list[float] = []
        if protocol:
            reader = amqp_reader(broker.port, protocol, "cold", frames * 100)
        else:
            reader = started("--read", "cold", str(frames * 100))
        while reader.poll() is None:
            beside += confirms_ms(probe, one, lambda: None)
        assert reader.stdout is not None
        answer = reader.stdout.read().strip()
        rate = f"AMQP {protocol}: {amqp_read(answer)}" if protocol else answer
        said.append(f"{rate}, beside {quantiles(sorted(beside))}")
    for stream in ("cold", "probe"):
        probe.delete(stream)
    probe.close()
    writer.close()
    return "; ".join(said)


def amqp_reader(port: int, protocol: str, stream: str, count: int) -> "subprocess.Popen[str]":
    """`bgen` as a consumer that reads the stream from its first message on."""
    command = [str(HERE / "bgen"), "--port", str(port), "--queue", stream, "--from-first"]
    command += ["--proto", protocol]
    command += ["--consumers", "1", "--prefetch", "1000", "--ack", "100", "--linger", "10"]
    command += ["--consume-count", str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def amqp_read(answer: str) -> str:
    figures = json.loads(answer.splitlines()[-1])
    read = figures["received"] * BODY_BYTES
    return f"{figures['sub_per_s'] * BODY_BYTES / 1e6:,.0f} MB/s of {read / 1e9:.1f} GB"


def read_all(stream: str, count: int) -> str:
    client = StreamClient(STREAM_PORT)
    begun = time.monotonic()
    client.subscribe(stream, FIRST, credit=20)
    while client.messages < count and time.monotonic() - begun < READ_MAX_S:
        client.read()
    elapsed = time.monotonic() - begun
    return f"{client.read_bytes / elapsed / 1e6:,.0f} MB/s of {client.read_bytes / 1e9:.1f} GB"


def tail_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    found: dict[int, list[float]] = {0: [], 1: [], TAIL_CONSUMERS: []}
    for _ in range(options.rounds):
        for count, values in found.items():
            values.append(tail_us(broker, options, count))
    none, one, many = map(statistics.median, found.values())
    spread = ", ".join(f"{min(each):.2f} .. {max(each):.2f}" for each in found.values())
    return (
        f"one {one - none:.2f} us, ten {(many - none) / TAIL_CONSUMERS:.2f} us of CPU for a"
        f" delivery; with none, one and ten {none:.2f}, {one:.2f}, {many:.2f} us for a message"
        f" ({spread})"
    )


def tail_us(broker: AnyBroker, options: argparse.Namespace, consumers: int) -> float:
    """CPU of the broker for each message that is published at a fixed rate, so many consumers at
    the tail; all of them have got it."""
    writer = opened()
    writer.create("tail")
    writer.declare_publisher("tail")
    data = publish_frame([amqp_message(bytes(1024))] * TAIL_BATCH)
    frames = int(options.seconds * TAIL_RATE / TAIL_BATCH)
    readers = started("--follow", "tail", str(consumers), str(frames * TAIL_BATCH))
    assert readers.stdout is not None
    readers.stdout.readline()  # They have subscribed.
    before, begun = cpu_seconds(broker), time.monotonic()
    for number in range(frames):
        while (early := begun + number * TAIL_BATCH / TAIL_RATE - time.monotonic()) > 0:
            writer.read_within(early)
        writer.send(data)
    while writer.confirmed < frames * TAIL_BATCH:
        writer.read()
    if readers.wait(READ_MAX_S) != 0:
        raise SystemExit("the consumers did not get all messages")
    used = (cpu_seconds(broker) - before) / (frames * TAIL_BATCH) * 1e6
    writer.delete("tail")
    writer.close()
    return used


def follow(stream: str, consumers: int, count: int) -> None:
    """Read so many messages at the tail of the stream with each of these consumers."""
    clients = [StreamClient(STREAM_PORT) for _ in range(consumers)]
    for client in clients:
        client.subscribe(stream, NEXT, credit=50)
    print("ready", flush=True)
    while late := [client for client in clients if client.messages < count]:
        for client in select.select(late, [], [])[0]:
            client.read()


def started(*arguments: str) -> "subprocess.Popen[str]":
    """This program again, as a process of its own."""
    command = [sys.executable, "-m", "bench.streams", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def restart_row(broker: AnyBroker, options: argparse.Namespace) -> str:
    client = opened()
    client.create("many", max_length_bytes="100000000000")
    client.declare_publisher("many")
    data = batch_frame([amqp_message(bytes(SMALL))] * PER_BATCH, 10)
    middle_ms, count, done = 0, 0, 0.0
    begun = time.monotonic()
    while done < 1:
        client.publish_count(20, data, 10, 200)
        count += 20 * 10 * PER_BATCH
        done = max((time.monotonic() - begun) / options.fill, count / options.messages)
        if done >= 0.5 and middle_ms == 0:
            middle_ms = time.time_ns() // 1_000_000
    rate = count / (time.monotonic() - begun)
    client.close()
    process = psutil.Process(broker.pid())
    process.kill()
    process.wait(10)
    seconds, begun = broker.start_again(), time.monotonic()
    found = f"{count / 1e6:.1f} M messages ({rate:,.0f}/s): start {seconds:.2f} s"
    reader = served("many")
    if reader is None:
        return f"{found}, the stream is not served within {SERVED_MAX_S:.0f} s"
    served_s = seconds + time.monotonic() - begun
    begun = time.monotonic()
    reader.subscribe("many", TIMESTAMP, middle_ms, credit=1)
    while reader.chunks == 0:
        reader.read()
    attach_ms = (time.monotonic() - begun) * 1000
    reader.close()
    return f"{found}, the stream is served after {served_s:.2f} s, attach {attach_ms:.0f} ms"


def served(stream: str) -> StreamClient | None:
    """A connection, as soon as its node lets a client subscribe to the stream, which may be after
    its listener is there. None: it did not in time."""
    deadline = time.monotonic() + SERVED_MAX_S
    while True:
        client = opened()
        try:
            client.subscribe(stream, NEXT, number=1)
        except RuntimeError:
            client.close()
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        else:
            return client


def sql_row() -> str:
    """The filter of a reader over chunks of 4,096 messages, one match in 100."""
    messages = [store(amqp_message(bytes(100), number)) for number in range(4096)]
    places = [0]
    for each in messages:
        places.append(places[-1] + len(each))
    offsets = b"".join([place.to_bytes(4, "little") for place in places])
    chunk = Chunk(FORMAT_10, b"".join(messages), 0, offsets, 0)
    rates = []
    for text in ("n % 100 = 7", "n > 10 AND n % 100 = 7 AND properties.subject IS NULL"):
        wanted = StreamFilter(None, selector_of([parse_sql(text)], lambda: 0))
        begun, seen = time.process_time(), 0
        while time.process_time() - begun < 2:
            at = 0
            while at < chunk.count():
                index, count = wanted.run_in(chunk, at, 512)
                at = max(index + count, at + 1)
            seen += int(chunk.count())
        rates.append(f"`{text}`: {seen / (time.process_time() - begun):,.0f}/s")
    return ", ".join(rates)


ROWS: Final[dict[str, Callable[[AnyBroker, argparse.Namespace], str]]] = {
    "stream": stream_row,
    "java": java_row,
    "amqp": amqp_row,
    "cold": cold_row,
    "tail": tail_row,
    "restart": restart_row,
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rows", nargs="*", default=[*ROWS, CLUSTER, "sql"])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=5, help="of the row tail")
    parser.add_argument("--gigabytes", type=float, default=1, help="of the cold stream")
    parser.add_argument("--messages", type=float, default=1e8, help="before the restart")
    parser.add_argument("--fill", type=float, default=60, help="seconds to publish them, at most")
    parser.add_argument("--brokers", nargs="*", default=["warren", "rabbitmq"])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--follow", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.read:
        print(read_all(options.read[0], int(options.read[1])))
        return
    if options.follow:
        follow(options.follow[0], int(options.follow[1]), int(options.follow[2]))
        return
    if options.here:
        print("| sql |", sql_row(), "|")
        return
    print(machine(), flush=True)
    settings = [f"listeners.stream=127.0.0.1:{STREAM_PORT}", *options.set]
    with tempfile.TemporaryDirectory(prefix="bench-streams-") as folder:
        python = options.python.absolute()
        brokers: dict[str, AnyBroker] = {
            "warren": run.Warren(python, Path(folder), settings),
            "rabbitmq": RabbitMQ(),
        }
        for row in [each for each in options.rows if each in ROWS]:
            for name in options.brokers:
                broker = brokers[name]
                broker.start()
                try:
                    print(f"| {row} | {name} | {ROWS[row](broker, options)} |", flush=True)
                finally:
                    broker.stop()
                    shutil.rmtree(Path(folder) / "warren", ignore_errors=True)
        if CLUSTER in options.rows:
            clusters: dict[str, BrokerCluster] = {
                "warren": WarrenCluster(3, python, Path(folder), options.set),
                "rabbitmq": RabbitCluster(3),
            }
            for name in options.brokers:
                print(
                    f"| {CLUSTER} | {name} | {cluster_row(clusters[name], options)} |", flush=True
                )
    if "sql" in options.rows:
        # The modules of the measured build come first, the sources of this program last.
        program = f"import sys; sys.path.append({str(ROOT)!r}); sys.argv[1:] = ['--here']; "
        program += "from bench import streams; streams.main()"
        subprocess.run([str(options.python.absolute()), "-P", "-c", program], check=True)


if __name__ == "__main__":
    main()

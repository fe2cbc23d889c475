"""Cost of the AMQP 1.0 codec per message: transfers found, transfers written, settlements.

    python bench/micro/wire10.py

Prints nanoseconds per message, the best and the median of several rounds, and the build.
"""

import platform

from bench.micro.wire import measure, reads_of
from warren.wire.amqp10 import transfers
from warren.wire.amqp10.codec.descriptors import ACCEPTED, DATA
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Properties, Transfer, read_performative
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.deliver import Heads, write_transfers
from warren.wire.amqp10.dispositions import DispositionScanner, write_disposition, write_flow
from warren.wire.amqp10.gather import TransferGatherer
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.transfers import TransferScanner
from warren.wire.buffer import BytesWriter

MESSAGES = 20_000
FRAME_MAX = 131_072


def frame(body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


def data_section(body: bytes) -> bytes:
    return encode_value(Described(ULong(DATA), body))


def transfer(delivery_id: int, payload: bytes) -> bytes:
    """As proton writes it: the smallest encodings."""
    tag = delivery_id.to_bytes(8, "big")
    performative = Transfer(
        handle=0, delivery_id=delivery_id, delivery_tag=tag, message_format=0, settled=False
    )
    return frame(performative.encoded() + payload)


def bgen_transfer(delivery_id: int, payload: bytes, handle: int = 0) -> bytes:
    """As bgen writes it: fixed widths."""
    id_and_tag = b"\x70" + delivery_id.to_bytes(4, "big") + b"\xa0\x04" + bytes(4)
    head = b"\x00\x53\x14\xc0\x10\x05\x52" + bytes([handle])
    return frame(head + id_and_tag + b"\x43\x42" + payload)


def measure_scan(name: str, frames: list[bytes]) -> None:
    """The input of one connection: what is cut off at the end of a read comes with the next."""
    stream = b"".join(frames)
    scanner = TransferScanner(FRAME_MAX)
    reads = []
    rest = b""
    for read in reads_of(stream):
        whole = rest + read
        scanner.scan(whole, 0, 0)
        rest = whole[scanner.end :]
        reads.append(whole)

    def run() -> None:
        for read in reads:
            assert scanner.scan(read, 0, 0) is not None

    measure(name, len(frames), run)


def measure_gather(name: str, frames: list[bytes]) -> None:
    """Frames of two links in turn."""
    stream = b"".join(frames)
    gatherer = TransferGatherer(FRAME_MAX)
    reads = []
    rest = b""
    for read in reads_of(stream):
        whole = rest + read
        gatherer.scan(whole, 0)
        rest = whole[gatherer.end :]
        reads.append(whole)

    def run() -> None:
        for read in reads:
            assert len(gatherer.scan(read, 0)[0].runs) == 2

    measure(name, len(frames), run)


def measure_deliveries(name: str, frames: list[bytes], heads: Heads | None) -> None:
    scanner = TransferScanner(FRAME_MAX)
    runs = []
    per_run = max(65_536 // len(frames[0]), 1)
    for at in range(0, len(frames), per_run):
        data = b"".join(frames[at : at + per_run])
        found = scanner.scan(data, 0, 0)
        assert found is not None
        runs.append((found.data, found.offsets, found.count))

    def run() -> None:
        tag = 0
        for data, offsets, count in runs:
            output = Output()
            written = write_transfers(
                output,
                0,
                1,
                tag,
                tag,
                False,
                heads,
                0,
                False,
                data,
                0,
                offsets,
                0,
                count,
                FRAME_MAX,
            )
            assert written == count
            output.take()
            tag += count

    measure(name, len(frames), run)


def measure_slow(name: str, frames: list[bytes]) -> None:
    sections = Sections()

    def run() -> None:
        for one in frames:
            reader = Reader(one, 8, len(one))
            read_performative(reader)
            assert sections.walk(one, reader.pos, len(one))

    measure(name, len(frames), run)


def measure_settlements() -> None:
    writer = BytesWriter()
    for delivery_id in range(MESSAGES):
        write_disposition(writer, 0, True, delivery_id, delivery_id, True, ACCEPTED)
    stream = writer.getvalue()
    scanner = DispositionScanner(FRAME_MAX)

    def scan() -> None:
        assert scanner.scan(stream, 0, 0) is not None
        assert scanner.end == len(stream)

    def write_dispositions() -> None:
        writer = BytesWriter()
        for delivery_id in range(MESSAGES):
            write_disposition(writer, 0, True, delivery_id, delivery_id + 99, True, ACCEPTED)

    def write_flows() -> None:
        writer = BytesWriter()
        for delivery_id in range(MESSAGES):
            write_flow(writer, 0, delivery_id, 400, 1, 0xFFFFFFFF, 1, delivery_id, 170, 0)

    measure("scan, disposition each", MESSAGES, scan)
    measure("write a disposition", MESSAGES, write_dispositions)
    measure("write a flow", MESSAGES, write_flows)


def main() -> None:
    build = "compiled" if transfers.__file__.endswith(".so") else "pure"
    print(f"{build}, Python {platform.python_version()}, {MESSAGES} messages, ns per message")
    head = Header(durable=True).encoded()
    small = [head + data_section(b"hello world!")] * MESSAGES
    large = [head + data_section(bytes(1024))] * (MESSAGES // 10)
    with_ids = [
        head
        + Properties(message_id=f"{number:036d}", content_type="application/json").encoded()
        + data_section(b"hello world!")
        for number in range(MESSAGES)
    ]
    heads = Heads({"x-exchange": "", "x-routing-key": "queue-name"})
    shapes = {
        "12 B, bgen": [bgen_transfer(at, one) for at, one in enumerate(small)],
        "12 B, proton": [transfer(at, one) for at, one in enumerate(small)],
        "12 B, varying properties": [transfer(at, one) for at, one in enumerate(with_ids)],
        "1 KB, bgen": [bgen_transfer(at, one) for at, one in enumerate(large)],
    }
    for name, frames in shapes.items():
        measure_scan(f"scan, {name}", frames)
    for size, payloads in (("12 B", small), ("1 KB", large)):
        turns = [bgen_transfer(at, one, at % 2) for at, one in enumerate(payloads)]
        measure_gather(f"gather, {size}, two links in turn", turns)
    for name, frames in shapes.items():
        measure_deliveries(f"deliver, {name}, as it came", frames, None)
        measure_deliveries(f"deliver, {name}, other head", frames, heads)
    measure_slow("decode a transfer and walk, 12 B", shapes["12 B, proton"][:6000])
    measure_settlements()


if __name__ == "__main__":
    main()

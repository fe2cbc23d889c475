"""Frames and chunks of the stream protocol, against bytes made by hand."""

import gzip
import random
import zlib

import pytest

from warren.wire.streams import answers, requests
from warren.wire.streams.chunks import BadBatch, decode_chunk, encode_chunk, messages_of
from warren.wire.streams.codes import Code, Command, StreamProtocolError
from warren.wire.streams.reading import FrameScanner
from warren.wire.streams.requests import Entry, Offset, decode_request

MIB = 1 << 20
S1 = "0002 7331"  # the string s1
REF = "0001 72"  # the string r
GOLDEN = {
    f"0001 0001 00000007 05 {REF} {S1}": requests.DeclarePublisher(7, 5, "r", "s1"),
    f"0001 0001 00000007 05 ffff {S1}": requests.DeclarePublisher(7, 5, "", "s1"),
    "0002 0001 05 00000002 0000000000000001 00000002 6162 0000000000000002 00000000": (
        requests.Publish(5, [Entry(1, b"ab"), Entry(2, b"")])
    ),
    "0002 0002 05 00000001 0000000000000009 0001 66 00000001 61": (
        requests.Publish(5, [Entry(9, b"a", "f")])
    ),
    "0002 0001 05 00000001 0000000000000009 90 0003 00000010 00000002 6162": (
        requests.Publish(5, [Entry(9, b"ab", "", 3, 1, 16)])
    ),
    f"0005 0001 00000001 {REF} {S1}": requests.QueryPublisherSequence(1, "r", "s1"),
    "0006 0001 00000001 05": requests.DeletePublisher(1, 5),
    f"0007 0001 00000001 03 {S1} 0001 000a": (
        requests.Subscribe(1, 3, "s1", Offset(requests.FIRST), 10)
    ),
    f"0007 0001 00000001 03 {S1} 0004 0000000000000011 000a 00000001 0001 6b 0001 76": (
        requests.Subscribe(1, 3, "s1", Offset(requests.OFFSET, 17), 10, {"k": "v"})
    ),
    f"0007 0001 00000001 03 {S1} 0005 fffffffffffffffe 000a 00000000": (
        requests.Subscribe(1, 3, "s1", Offset(requests.TIMESTAMP, -2), 10)
    ),
    "0009 0001 03 0010": requests.Credit(3, 16),
    f"000a 0001 {REF} {S1} 0000000000000011": requests.StoreOffset("r", "s1", 17),
    f"000b 0001 00000001 {REF} {S1}": requests.QueryOffset(1, "r", "s1"),
    "000c 0001 00000001 03": requests.Unsubscribe(1, 3),
    f"000d 0001 00000001 {S1} 00000001 0001 6b 0001 76": requests.Create(1, "s1", {"k": "v"}),
    f"000e 0001 00000001 {S1}": requests.Delete(1, "s1"),
    f"000f 0001 00000001 00000002 {S1} {REF}": requests.Metadata(1, ("s1", "r")),
    "0011 0001 00000001 00000000": requests.PeerProperties(1, {}),
    "0012 0001 00000001": requests.SaslHandshake(1),
    "0013 0001 00000001 0005 504c41494e 00000003 006100": (
        requests.SaslAuthenticate(1, "PLAIN", b"\0a\0")
    ),
    "0013 0001 00000001 0005 504c41494e ffffffff": requests.SaslAuthenticate(1, "PLAIN", b""),
    "0014 0001 00100000 0000003c": requests.Tune(MIB, 60),
    "8014 0001 00100000 0000003c": requests.Tune(MIB, 60),
    "0015 0001 00000001 0001 2f": requests.Open(1, "/"),
    "0016 0001 00000001 0001 0002 4f4b": requests.Close(1, 1, "OK"),
    "8016 0001 00000001 0001": requests.CloseAnswered(1),
    f"0018 0001 00000001 {REF} {S1}": requests.Route(1, "r", "s1"),
    f"0019 0001 00000001 {S1}": requests.Partitions(1, "s1"),
    "801a 0001 00000001 0001 0004 0000000000000011": (
        requests.ConsumerUpdated(1, 1, Offset(requests.OFFSET, 17))
    ),
    "801a 0001 00000001 0001 0000": requests.ConsumerUpdated(1, 1, Offset(0)),
    "001b 0001 00000001 00000001 0008 0001 0002": (
        requests.ExchangeCommandVersions(1, {8: (1, 2)})
    ),
    f"001c 0001 00000001 {S1}": requests.StreamStats(1, "s1"),
    f"001d 0001 00000001 {S1} 00000001 {REF} 00000001 {S1} 00000000": (
        requests.CreateSuperStream(1, "s1", ("r",), ("s1",), {})
    ),
    f"001e 0001 00000001 {S1}": requests.DeleteSuperStream(1, "s1"),
}
ANSWERS = {
    "0000000a 8001 0001 00000007 0001": answers.response(Command.DECLARE_PUBLISHER, 7),
    "00000011 0003 0001 05 00000001 0000000000000009": answers.publish_confirm(5, [9]),
    "00000013 0004 0001 05 00000001 0000000000000009 0011": (
        answers.publish_error(5, [9], Code.PRECONDITION_FAILED)
    ),
    "00000007 0008 0001 03 6162": answers.deliver(3, b"ab"),
    "0000000f 0008 0002 03 0000000000000011 6162": answers.deliver(3, b"ab", 17),
    "00000007 8009 0001 0004 03": answers.credit_refused(3, Code.SUBSCRIPTION_ID_DOES_NOT_EXIST),
    "00000012 800b 0001 00000001 0001 0000000000000011": (
        answers.numbered(Command.QUERY_OFFSET, 1, 17)
    ),
    "00000015 8012 0001 00000001 0001 00000001 0005 504c41494e": (
        answers.named(Command.SASL_HANDSHAKE, 1, ["PLAIN"])
    ),
    "00000014 8011 0001 00000001 0001 00000001 0001 6b 0001 76": (
        answers.with_properties(Command.PEER_PROPERTIES, 1, {"k": "v"})
    ),
    "0000000f 8013 0001 00000001 000a 00000001 78": answers.sasl_challenge(1, b"x"),
    "0000000c 0014 0001 00100000 0000003c": answers.tune(MIB, 60),
    "00000004 0017 0001": answers.heartbeat(),
    "0000000e 0016 0001 00000001 000d 0002 6e6f": answers.close(1, Code.UNKNOWN_FRAME, "no"),
    f"00000027 800f 0001 00000001 00000001 0000 0001 68 000015b0 00000001 {S1} 0001 0000 "
    "00000001 0000": answers.metadata(
        1, [("h", 5552)], [answers.StreamPlace("s1", Code.OK, 0, (0,))]
    ),
    f"0000000a 0010 0001 0006 {S1}": answers.metadata_update("s1", Code.STREAM_NOT_AVAILABLE),
    "0000000a 001a 0001 00000001 03 01": answers.consumer_update(1, 3, is_active=True),
    "00000014 801b 0001 00000001 0001 00000001 0002 0001 0002": (
        answers.command_versions(1, [Command.PUBLISH])
    ),
    "00000019 801c 0001 00000001 0001 00000001 0001 6b ffffffffffffffff": (
        answers.stream_stats(1, {"k": -1})
    ),
}
CHUNK = (
    "50 00 0002 00000002 0000000000000005 0000000000000003 0000000000000007"
    f"{zlib.crc32(bytes.fromhex('0000000161 0000000162')):08x} 0000000a 00000000 00000000"
    "00000001 61 00000001 62"
)


@pytest.mark.parametrize("written", GOLDEN)
def test_requests_are_decoded(written: str) -> None:
    assert decode_request(bytes.fromhex(written)) == GOLDEN[written]


def test_heartbeat_is_decoded() -> None:
    assert isinstance(decode_request(bytes.fromhex("00170001")), requests.Heartbeat)


@pytest.mark.parametrize("written", ANSWERS)
def test_answers_are_encoded(written: str) -> None:
    assert ANSWERS[written].hex() == bytes.fromhex(written).hex()


@pytest.mark.parametrize("written", GOLDEN)
def test_a_request_that_is_cut_short_is_refused(written: str) -> None:
    whole = bytes.fromhex(written)
    for length in range(4, len(whole)):
        try:
            decode_request(whole[:length])
        except StreamProtocolError as error:
            assert error.code == Code.UNKNOWN_FRAME


@pytest.mark.parametrize("written", GOLDEN)
def test_bytes_behind_a_request_are_refused(written: str) -> None:
    if written.startswith(("0007", "0013", "801a")):
        return  # They have optional fields at their end.
    with pytest.raises(StreamProtocolError):
        decode_request(bytes.fromhex(written) + b"\0")


@pytest.mark.parametrize(
    "written",
    [
        "0000 0001",
        "00ff 0001",
        "0003 0001 05 00000000",  # a broker's frame
        "0009 0002 03 0010",  # unknown version
        "0009 0000 03 0010",
        "000f 0001 00000001 7fffffff",
        "000f 0001 00000001 80000000",
        "000d 0001 00000001 0002 ffff 00000000",  # not UTF-8
        "0002 0001 05 00000001 0000000000000001 7fffffff 61",
        f"0007 0001 00000001 03 {S1} 0006 000a",
        f"0007 0001 00000001 03 {S1} 0000 000a",
        "",
        "0009",
    ],
)
def test_malformed_requests_are_refused(written: str) -> None:
    with pytest.raises(StreamProtocolError):
        decode_request(bytes.fromhex(written))


def test_damaged_requests_raise_only_the_protocol_error() -> None:
    rng = random.Random(24)
    seeds = [bytes.fromhex(each) for each in GOLDEN]
    refused = 0
    for _ in range(20_000):
        damaged = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            decode_request(bytes(damaged[: rng.randint(1, len(damaged))]))
        except StreamProtocolError:
            refused += 1
    assert refused > 1000


def test_frames_are_the_same_for_any_split_of_the_input() -> None:
    frames = [bytes.fromhex(each) for each in GOLDEN]
    whole = b"".join(len(each).to_bytes(4, "big") + each for each in frames)
    rng = random.Random(5)
    for _ in range(50):
        scanner = FrameScanner(MIB)
        found: list[bytes] = []
        start = 0
        while start < len(whole):
            size = rng.randint(1, 40)
            scanner.feed(whole[start : start + size])
            start += size
            while (each := scanner.next_frame()) is not None:
                found.append(each)
        assert found == frames
        assert len(scanner) == 0


@pytest.mark.parametrize(
    ("size", "code"), [(MIB + 1, Code.FRAME_TOO_LARGE), (3, Code.UNKNOWN_FRAME)]
)
def test_a_frame_of_a_wrong_size_is_refused_before_it_is_read(size: int, code: Code) -> None:
    scanner = FrameScanner(MIB)
    scanner.feed(size.to_bytes(4, "big"))
    with pytest.raises(StreamProtocolError) as caught:
        scanner.next_frame()
    assert caught.value.code == code


def test_chunks_are_encoded_as_written_by_hand() -> None:
    assert encode_chunk(7, 5, 3, [b"a", b"b"]).hex() == bytes.fromhex(CHUNK).hex()
    head, rows = decode_chunk(bytes.fromhex(CHUNK), MIB)
    assert (head.first_offset, head.timestamp_ms, head.epoch, rows) == (7, 5, 3, [b"a", b"b"])


def test_any_damaged_byte_of_a_chunk_that_matters_is_found() -> None:
    whole = bytes.fromhex(CHUNK)
    for place in [0, 1, 3, 7, *range(32, 40), *range(48, len(whole))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with pytest.raises(StreamProtocolError):
            decode_chunk(bytes(damaged), MIB)


def test_batches_are_read_with_and_without_gzip() -> None:
    body = b"\0\0\0\1a\0\0\0\2bc"
    assert messages_of(Entry(1, body, "", 2, 0, len(body)), MIB) == [b"a", b"bc"]
    assert messages_of(Entry(1, gzip.compress(body), "", 2, 1, len(body)), MIB) == [b"a", b"bc"]


@pytest.mark.parametrize(
    "entry",
    [
        Entry(1, b"\0\0\0\1a", "", 2, 0, 5),
        Entry(1, b"\0\0\0\1ab", "", 1, 0, 6),
        Entry(1, b"x", "", 1, 2, 5),
        Entry(1, b"x", "", 1, 1, 5),
        Entry(1, gzip.compress(bytes(4 * MIB)), "", 1, 1, 5),
        Entry(1, gzip.compress(bytes(4 * MIB)), "", 1, 1, 4 * MIB),
        Entry(1, gzip.compress(b"\0\0\0\1a"), "", 1, 1, 9),
    ],
)
def test_batches_that_cannot_be_read_are_refused(entry: Entry) -> None:
    with pytest.raises(BadBatch):
        messages_of(entry, MIB)

"""The registry: jobs, those who wait for them, silence, snapshots; and its bytes."""

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.cluster.coordination import replica  # noqa: F401  # puts our codec into pysyncobj
from node.cluster.coordination.coordination_codec import (
    NO_OP,
    REGULAR,
    SNAPSHOT_BYTES_MAX,
    BadMessage,
    decode_command,
    decode_frame,
    dumps,
    encode_command,
    encode_frame,
    generation_of,
    loads,
)
from node.cluster.coordination.coordination_interface import Holding, Load
from node.cluster.coordination.registry import (
    JOBS_MAX,
    SILENT_BEATS,
    Beat,
    Claim,
    Command,
    Registry,
    Release,
    Rows,
)

BASE = 5 << 32


def beat(member: int, number: int = 1) -> Beat:
    return Beat(member, number, 3, 4, 5, False)


def registry(*commands: Command) -> Registry:
    made = Registry(5)
    for each in commands:
        made.apply(each)
    return made


def logged(command: Command) -> bytes:
    return REGULAR + dumps((0, (encode_command(command),)))


# Jobs


def test_the_first_who_asks_has_the_job_and_the_others_wait_in_order() -> None:
    made = registry(Claim(1, "j"), Claim(3, "j"), Claim(2, "j"), Claim(3, "j"), Claim(1, "j"))
    assert made.holder("j") == Holding(1, BASE + 1)
    made.apply(Release(1, "j"))
    assert made.holder("j") == Holding(3, BASE + 2)
    made.apply(Release(2, "j"))
    made.apply(Release(2, "j"))
    made.apply(Release(3, "j"))
    assert made.holder("j") is None and made.jobs_of(3) == set()
    made.apply(Claim(2, "j"))
    assert made.holder("j") == Holding(2, BASE + 3)


def test_a_release_by_who_has_nothing_changes_nothing() -> None:
    made = registry(Claim(1, "j"), Release(2, "j"), Release(1, "k"))
    assert made.holder("j") == Holding(1, BASE + 1) and made.jobs_of(1) == {"j"}


def test_who_is_silent_for_the_beats_of_one_other_loses_what_it_has_and_waits_for() -> None:
    made = registry(Claim(1, "j"), Claim(2, "j"), Claim(2, "k"), Claim(1, "k"), beat(2), beat(1))
    for number in range(SILENT_BEATS - 1):
        made.apply(beat(2, number))
        made.apply(beat(3, number))
    assert made.holder("j") == Holding(1, BASE + 1)
    made.apply(beat(3, 9))
    assert made.holder("j") == Holding(2, BASE + 3) and made.jobs_of(1) == set()
    assert set(made.loads()) == {2, 3} and made.beat_of(1) == 0


def test_a_beat_ends_the_silence() -> None:
    made = registry(Claim(1, "j"))
    for number in range(3 * SILENT_BEATS):
        made.apply(beat(2, number))
        if number % (SILENT_BEATS - 1) == 0:
            made.apply(beat(1, number))
    assert made.holder("j") == Holding(1, BASE + 1)


def test_jobs_and_names_are_limited() -> None:
    made = registry(Claim(1, "x" * 256), Claim(1, "ü" * 128))
    assert made.jobs_of(1) == set()
    for number in range(JOBS_MAX + 1):
        made.apply(Claim(1, f"job {number}"))
    assert len(made.jobs_of(1)) == JOBS_MAX


def test_the_load_is_the_last_one_told() -> None:
    made = registry(beat(1), Beat(1, 2, 6, 7, 8, True))
    assert made.loads() == {1: Load(6, 7, 8, True)} and made.beat_of(1) == 2


names = st.sampled_from(["a", "b", "c"])
members = st.integers(1, 4)
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(beat, members, st.integers(0, 9)),
    st.builds(Claim, members, names),
    st.builds(Release, members, names),
)


@given(st.lists(commands, max_size=60), st.lists(commands, max_size=30))
def test_a_snapshot_goes_on_as_the_registry_itself_would(
    before: list[Command], after: list[Command]
) -> None:
    one = registry(*before)
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(msgspec.to_builtins(one.rows())))
    other = Registry(0)
    other.restore(msgspec.convert(plain, Rows))
    for each in after:
        one.apply(each)
        other.apply(each)
    assert one.rows() == other.rows()


@given(st.lists(commands, max_size=80))
def test_each_number_has_one_holder_and_whoever_has_a_job_is_known(given_: list[Command]) -> None:
    made = Registry(5)
    holders: dict[int, tuple[str, int]] = {}
    for each in given_:
        made.apply(each)
        for row in made.rows().jobs:
            assert holders.setdefault(row.fencing, (row.name, row.holder)) == (row.name, row.holder)
            known = {node.member for node in made.rows().nodes}
            assert {row.holder, *row.waiting} <= known and row.holder not in row.waiting
            assert len(set(row.waiting)) == len(row.waiting)


# Bytes


def test_the_bytes_are_those_of_the_format() -> None:
    assert encode_command(Beat(2, 9, 3, 4, 5, True)).hex() == "97010209030405c3"
    assert encode_command(Claim(2, "j")).hex() == "930202a16a"
    assert encode_command(Release(2, "j")).hex() == "930302a16a"
    assert logged(Claim(2, "j")).hex() == "00920091c405930202a16a"
    vote = encode_frame(5, {"type": "response_vote", "term": 3})
    assert vote.hex() == "0000000000000005" + "82a474797065ad726573706f6e73655f766f7465a47465726d03"


@given(commands)
def test_commands_come_back_from_their_bytes(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


def append(**fields: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "type": "append_entries",
        "term": 1,
        "commit_index": 1,
        "entries": [],
        "prevLogIdx": 1,
        "prevLogTerm": 0,
    }
    return plain | fields


def decoded(message: object) -> Any:
    return decode_frame(memoryview(encode_frame(5, message)))


def test_a_frame_carries_generation_and_message() -> None:
    entries = [(NO_OP, 2, 1), (logged(Claim(1, "j")), 3, 1)]
    frame = memoryview(encode_frame(5, append(entries=entries)))
    assert generation_of(frame) == 5
    assert decode_frame(frame) == append(entries=entries)
    snapshot = {"type": "append_entries", "term": 1, "commit_index": 1}
    for part in (None, (b"x", True, False)):
        assert decoded(snapshot | {"serialized": part})["serialized"] == part


@pytest.mark.parametrize(
    "message",
    [
        {"type": "status"},
        ["add", "n4"],
        "readonly",
        {"type": "request_vote", "term": 1},
        {"type": "response_vote", "term": -1},
        {"type": "append_entries", "term": 1, "commit_index": 1},
        append(term="1"),
        append(entries=[(b"\x02", 2, 1)]),
        append(entries=[(NO_OP + b"x", 2, 1)]),
        append(entries=[(REGULAR + b"\xc1", 2, 1)]),
        append(entries=[(REGULAR + dumps((1, (encode_command(Claim(1, "j")),))), 2, 1)]),
        append(entries=[(REGULAR + dumps((0, (b"x",))), 2, 1)]),
        {"type": "apply_command", "command": b""},
        {"type": "apply_command_response", "request_id": 1},
    ],
)
def test_what_no_node_says_is_refused(message: object) -> None:
    with pytest.raises(BadMessage):
        decoded(message)


class Trap:
    """Says so when it is made of a pickle."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (setattr, (Trap, "sprung", True))


def test_a_pickle_is_refused_wherever_it_comes() -> None:
    import pysyncobj.pickle

    hooks: Any = pysyncobj.pickle
    trap = pickle.dumps(Trap())
    places: list[Callable[[], object]] = [
        lambda: decode_frame(memoryview(b"\0" * 8 + trap)),
        lambda: decoded({"type": "apply_command", "command": REGULAR + trap}),
        lambda: decoded(append(entries=[(REGULAR + trap, 2, 1)])),
        lambda: decoded({"type": "apply_command", "command": REGULAR + dumps((0, (trap,)))}),
        lambda: hooks.loads(trap),
        lambda: hooks.load(BytesIO(trap)),
        lambda: hooks.load(BytesIO(b"\xc6" + b"\xff" * SNAPSHOT_BYTES_MAX)),
    ]
    for place in places:
        with pytest.raises(BadMessage):
            place()
    assert not Trap.sprung
    assert loads(hooks.dumps((1, {2}, b"3"))) == (1, [2], b"3")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for decode in (lambda: decode_frame(memoryview(data)), lambda: decode_command(data)):
        try:
            decode()
        except BadMessage:
            continue

"""What a standby asks its primary: the same when it arrives, and decoded in short turns."""

import asyncio

import pytest

from node.standby.held_queue import COPIED_MAX, VERIFIED_MAX
from node.standby.questions import PART_BYTES_MAX, BadQuestion, Question, decode_question

NUMBER_MAX = (1 << 63) - 1
NAME_BYTES_MAX = 255


def arrived(question: Question) -> Question:
    return asyncio.run(decode_question(question.encode()))


def test_question_arrives_as_it_was_asked() -> None:
    known = {f"q{number}": b"%d" % number for number in range(1_001)}
    for asked in (Question("state", (), known), Question("messages", (7, [[1, 2], [9, 1]]))):
        assert arrived(asked) == asked


@pytest.mark.parametrize("count", [COPIED_MAX, VERIFIED_MAX])
def test_largest_questions_of_a_standby_are_within_the_limit(count: int) -> None:
    runs = [[NUMBER_MAX - number, 1] for number in range(count)]
    for about in ((NUMBER_MAX, runs), ()):
        names = {f"{number:0{NAME_BYTES_MAX}}": bytes(16) for number in range(900)}
        asked = Question("digests", about, names)
        assert arrived(asked) == asked


def test_other_work_of_the_loop_goes_on_while_many_tokens_are_decoded() -> None:
    names = [f"queue {number}" for number in range(10_000)]
    body = Question("state", (), dict.fromkeys(names, bytes(16))).encode()

    async def turns() -> int:
        task = asyncio.ensure_future(decode_question(body))
        count = 0
        while not task.done():
            await asyncio.sleep(0)
            count += 1
        assert list(task.result().known) == names
        return count

    assert asyncio.run(turns()) >= 25


WHOLE = Question("state", ()).encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "cut off"),
        (WHOLE[:-1], "cut off"),
        (WHOLE + b"\0", "cut off"),
        (b"\0\0\0\1\xc1", "MessagePack"),
        (Question("messages", (bytes(PART_BYTES_MAX),)).encode(), "bytes; allowed: 131,072"),
        (WHOLE + b"\0\0\0\3\x81\xa1q", "truncated"),
        (WHOLE + b"\0\0\0\1\x90", "Expected `object`"),
        (b"\0\0\0\1\x90", "length 2"),
        (b"\0\0\1\0" + b"\x92\xa1s" + b"\x91" * 253, "truncated"),
    ],
)
def test_bytes_that_are_no_question_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BadQuestion, match=reason):
        asyncio.run(decode_question(body))

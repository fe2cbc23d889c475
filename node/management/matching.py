"""Names that an expression of a request is found in (`use_regex`), without holding up the loop.

Python's matcher tries ways one after the other, and an expression of a few letters can have it try
for ever. Expressions that cannot take long with names of this length (`is_quick`: few repetitions,
none of a group) are matched on the loop, in slices. All others are matched by a process of their
own (about 20 ms for its start), which has CPU_LIMIT_S of time: ApiError 400 after that. There are
PROCESSES_MAX of them at a time; other requests wait.
"""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from math import factorial
from time import monotonic
from typing import Final

from node.management.replies import ApiError

SLICE_S: Final = 0.005
CPU_LIMIT_S: Final = 1  # for the process, its start included
WAIT_S: Final = 20.0  # for its answer
PROCESSES_MAX: Final = 2
ROOM: Final = asyncio.Semaphore(PROCESSES_MAX)
QUICK_TRIES: Final = 1_000_000  # some 10 ms for one name
REPEATS: Final = frozenset("*+?{")
TOO_LONG: Final = "the expression takes too long; simpler ones have no repeated groups"
PROGRAM: Final = (
    "import json,re,resource,sys;"
    f"resource.setrlimit(resource.RLIMIT_CPU,({CPU_LIMIT_S},{CPU_LIMIT_S}));"
    "text,names=json.load(sys.stdin);"
    "found=re.compile(text).search;"
    "json.dump([place for place,name in enumerate(names) if found(name)],sys.stdout)"
)


async def places_of(pattern: re.Pattern[str], names: Sequence[str]) -> list[int]:
    """Which of the names have it, in order."""
    longest = max(map(len, names), default=0)
    if not is_quick(pattern.pattern, longest):
        async with ROOM:
            return await _elsewhere(pattern.pattern, names)
    found: list[int] = []
    due = monotonic() + SLICE_S
    for place, name in enumerate(names):
        if pattern.search(name):
            found.append(place)
        if monotonic() > due:
            await asyncio.sleep(0)
            due = monotonic() + SLICE_S
    return found


def is_quick(text: str, longest: int) -> bool:
    """Whether the expression takes no more than QUICK_TRIES steps for a name of this length."""
    repeats = _repeats_in(text)
    if repeats is None:
        return False
    # Each repetition can end, and the whole begin, at any place; they keep their order.
    tries = int(longest ** (repeats + 1)) // factorial(repeats + 1)
    return tries <= QUICK_TRIES


def _repeats_in(text: str) -> int | None:
    """How many of its signs are repeated; None: a group is, or must come again."""
    count, before, is_set, place = 0, "", False, 0
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            if text[place + 1 : place + 2].isdigit():
                return None
            sign, place = "\\", place + 1  # With what follows it is one sign.
        elif is_set:
            is_set = sign != "]" or before == "["
        elif sign == "[":
            is_set = True
        elif sign in REPEATS and before == ")":
            return None
        elif sign in REPEATS and not (sign == "?" and (before == "(" or before in REPEATS)):
            count += 1
        before, place = sign, place + 1
    return None if "(?P=" in text else count


async def _elsewhere(text: str, names: Sequence[str]) -> list[int]:
    """As a process of its own finds them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-ISc",
        PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            told, _ = await process.communicate(json.dumps([text, list(names)]).encode())
    except TimeoutError as error:
        raise ApiError.bad_request(TOO_LONG) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ApiError.bad_request(TOO_LONG)
    found: list[int] = json.loads(told)
    return found

"""Which URIs are tried, and for how long, to delete at an upstream what a removed link made there.

A list of URIs may name brokers that are gone. What a link leaves at its upstream stays bound there
and fills a queue that no link reads, so one failed connection must not end the attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from federation.ends import FAULTS

ROUNDS: Final = 4  # how often all URIs are tried
FIRST_WAIT_S: Final = 1.0  # between two rounds; doubles
TRY_S: Final = 8.0  # for one URI
CLEAN_UP_S: Final = 60.0  # for all of it


async def reached_one_of(
    uris: Sequence[str], last: str, act: Callable[[str], Awaitable[None]]
) -> None:
    """Call `act` with one URI after the other until it succeeds; raise its last fault if it never
    does. `last` is the URI that connected last, which comes first; "": none did."""
    ordered = sorted(dict.fromkeys(uris), key=lambda uri: uri != last)
    fault: Exception | None = None
    try:
        async with asyncio.timeout(CLEAN_UP_S):
            for number in range(ROUNDS):
                if number:
                    await asyncio.sleep(FIRST_WAIT_S * 2 ** (number - 1))
                for uri in ordered:
                    try:
                        async with asyncio.timeout(TRY_S):
                            return await act(uri)
                    except FAULTS as error:
                        fault = error
    except TimeoutError as error:
        fault = fault or error  # That of the last try says more.
    assert fault is not None
    raise fault

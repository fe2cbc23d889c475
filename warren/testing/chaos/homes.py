"""To which node a client of a chaos run has its line: to its own, as long as that answers.

Takes the URLs of all nodes and the client's number; gives lines (`line`), one at a time. When its
own node does not answer, a client goes to another at random, as clients do that shuffle their
hosts, and asks its own every now and then (`after_s`) whether it answers again: `is_back` says so,
and the next `line` is to it. So the clients of a node that is gone are spread over all others, and
all of them are spread over all nodes soon after the cluster is whole again: what a fault does then
is done to the cluster, not to one node that all clients had moved to.

A node on which nothing happened (`shun`) is the last choice once, and its client does not go back
before `shunned_s`. The lots are those of the client's number. Not compiled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from warren.client import ClientError
from warren.testing.chaos.lines import Line, closed, dial

Dial = Callable[[str, str, float], Awaitable[Line]]  # URL, protocol, seconds


class Home:
    """The way of one client to the nodes; `close` ends its search.

    Invariant: `_search` is there exactly while the last line was to another node than its own.
    """

    def __init__(
        self,
        urls: Sequence[str],
        protocol: str,
        number: int,
        *,
        timeout_s: float,
        after_s: float = 2.0,
        shunned_s: float = 10.0,
        dial: Dial = dial,
    ) -> None:
        self.at = 0  # place of the last line's node in `urls`
        self._urls = urls
        self._protocol = protocol
        self._timeout_s = timeout_s
        self._after_s = after_s
        self._shunned_s = shunned_s
        self._dial = dial
        self._own = (number - 1) % len(urls)
        self._drawn = Random(number)
        self._shunned: int | None = None
        self._search: asyncio.Task[Line] | None = None

    @property
    def is_back(self) -> bool:
        """The line is to another node, and the client's own answers again."""
        return self._search is not None and self._search.done()

    def shun(self) -> None:
        """Nothing happens on the line: the next one is to another node, if any answers."""
        self._shunned = self.at

    async def line(self) -> Line:
        """To its own node if that answers, or else to another one; OSError or ClientError: none."""
        search, self._search = self._search, None
        if search is not None:
            if search.done():
                self.at = self._own
                return search.result()
            await _cancelled(search, self._timeout_s)
        error: Exception | None = None
        for place in self._order():
            try:
                line = await self._dial(self._urls[place], self._protocol, self._timeout_s)
            except (OSError, ClientError) as reason:
                error = reason
                continue
            self.at = place
            self._settle_in()
            return line
        assert error is not None
        raise error

    async def close(self) -> None:
        """End the search for the client's own node."""
        search, self._search = self._search, None
        if search is not None:
            await _cancelled(search, self._timeout_s)

    def _order(self) -> list[int]:
        """Its own node first, the others at random, last the one that is shunned."""
        others = [place for place in range(len(self._urls)) if place != self._own]
        self._drawn.shuffle(others)
        order = [self._own, *others]
        if self._shunned is not None:
            order.remove(self._shunned)
            order.append(self._shunned)
        return order

    def _settle_in(self) -> None:
        """There is a line; if it is not to its own node, look for that."""
        least_s = self._shunned_s if self._shunned == self._own else 0.0
        self._shunned = None
        if self.at != self._own:
            self._search = asyncio.create_task(self._found_again(least_s))

    async def _found_again(self, least_s: float) -> Line:
        """A line to its own node, as soon as there is one."""
        await asyncio.sleep(least_s)  # It answered, and did nothing.
        while True:
            await asyncio.sleep(self._after_s * self._drawn.uniform(0.5, 1.5))
            try:
                return await self._dial(self._urls[self._own], self._protocol, self._timeout_s)
            except (OSError, ClientError):
                continue  # It is asked again.


async def _cancelled(search: asyncio.Task[Line], timeout_s: float) -> None:
    """End a search; what it has found is closed."""
    search.cancel()
    (found,) = await asyncio.gather(search, return_exceptions=True)
    if not isinstance(found, BaseException):
        await closed(found.close(), timeout_s)

"""Prints what a broker tells of a queue's leader, a line for each change.

    python -m warren.client.watch amqp://guest:guest@localhost:5672/%2F orders

It attaches a publisher that publishes nothing, so the user needs write permission. Ends with the
connection, or by an interrupt.
"""

import argparse
import asyncio
from collections.abc import Sequence
from urllib.parse import quote

from warren.client import connect
from warren.client.errors import ClientError
from warren.client.state import LinkState


def line_of(state: LinkState) -> str:
    """What is known, in one line."""
    where = "here" if state.local else ", ".join(state.leader_endpoints) or "?"
    parts = [
        f"leader={state.leader or '-'}",
        f"at={where}",
        f"epoch={state.leader_epoch}",
        f"state={state.state or '-'}",
        f"replicas={','.join(state.replicas) or '-'}",
    ]
    return " ".join(parts)


async def watch(url: str, queue: str) -> None:
    """Print until the link is over."""
    last = ""

    def told(state: LinkState) -> None:
        nonlocal last
        line = line_of(state)
        if line != last:
            print(line, flush=True)
            last = line

    async with await connect(url, follow=None) as connection:
        address = f"/queues/{quote(queue, safe='')}"
        await connection.publisher(address, on_link_state=told)
        await connection.wait_lost()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m warren.client.watch", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("queue")
    chosen = parser.parse_args(arguments)
    try:
        asyncio.run(watch(chosen.url, chosen.queue))
    except KeyboardInterrupt:
        return 0
    except (OSError, ClientError, ValueError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

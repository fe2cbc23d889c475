"""The options of `warren host` beside those of `warren server`. Nothing else is imported."""

import argparse
from typing import Final

COUNT_MAX: Final = 16


def node_count(text: str) -> int:
    """ArgumentTypeError: no number of nodes that a host can have."""
    if not text.isdecimal() or not 1 <= int(text) <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text}: allowed: 1 to {COUNT_MAX}")
    return int(text)

"""Regular expressions of permissions, with RabbitMQ's meaning: found anywhere in the name.

'' stands for '^$', which no name but the empty one has. Expressions come from administrators and
names are at most 255 bytes; both are matched on the loop, so an expression is kept short.
"""

import re

PATTERN_LENGTH_MAX = 4096


def compile_pattern(text: str) -> re.Pattern[str]:
    """The expression, ready to `search`; re.error if it is none."""
    return re.compile(text or "^$")


def is_found(pattern: str, text: str) -> bool:
    """Whether the expression is found in the text; one that this Python does not read is not."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except re.error:
        return False


def pattern_fault(text: str) -> str | None:
    """What is wrong with an expression that somebody wants to set; None if nothing is."""
    if len(text) > PATTERN_LENGTH_MAX:
        return f"the expression is longer than {PATTERN_LENGTH_MAX} characters"
    try:
        compile_pattern(text)
    except (re.error, RecursionError, OverflowError) as error:
        return f"'{text}' is not a regular expression: {error}"
    return None

"""Regular expressions that users set: permissions, policies, filters of the HTTP API.

RE2 matches in time linear in the length of the name, so no expression can hold up a node. RabbitMQ
uses PCRE, which also has lookarounds, backreferences, atomic groups and possessive quantifiers. RE2
has none of them. `Expression` adds the one form that RabbitMQ policies use often: lookaheads
directly after a leading `^`, as in `^(?!amq\\.).*`. Everything else is refused with a reason.
"""

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re2

LENGTH_MAX: Final = 4096
QUOTED_MAX: Final = 200  # characters of an expression that an error text quotes
CACHED_MAX: Final = 256
MEMORY_BYTES: Final = 1 << 18  # of a compiled expression; bounds the work per character of a name
NO_SUCH_SYNTAX: Final = ("invalid perl operator", "bad repetition operator")
UNSUPPORTED: Final = (
    "; not supported: lookaheads elsewhere than after a leading ^, lookbehinds, backreferences, "
    "atomic groups and possessive quantifiers"
)

ANYTHING: Final = ".*"  # in the permissions of most users


class ExpressionError(ValueError):
    """The text is no regular expression, or one that RE2 does not support."""


class Expression:
    """A compiled expression. Every form is found anywhere in a text unless it says otherwise."""

    __slots__ = ("_lookaheads", "_rest", "text")

    def __init__(self, text: str) -> None:
        """Raise ExpressionError if the text cannot be compiled."""
        if len(text) > LENGTH_MAX:
            raise ExpressionError(f"longer than {LENGTH_MAX} characters")
        self.text = text
        ahead, rest = _split_lookaheads(text)
        self._lookaheads = [(wanted, _compiled(f"^(?:{each})")) for wanted, each in ahead]
        self._rest = None if text == ANYTHING else _compiled(rest)

    def is_found_in(self, name: str) -> bool:
        if self._rest is None:
            return True
        subject = name.encode("utf-8", "replace")
        for wanted, lookahead in self._lookaheads:
            if (lookahead.search(subject) is not None) != wanted:
                return False
        return self._rest.search(subject) is not None


@lru_cache(CACHED_MAX)
def compiled_or_none(text: str) -> Expression | None:
    """None: the expression cannot be compiled. It was set by another version, or imported."""
    try:
        return Expression(text)
    except ExpressionError:
        return None


def expression_fault(text: str) -> str | None:
    """Say why the text cannot be set as an expression; None: it can."""
    try:
        Expression(text)
    except ExpressionError as error:
        return str(error)
    return None


def quoted(text: str) -> str:
    """The expression between quotes, cut to what an error text may quote."""
    return f"'{text}'" if len(text) <= QUOTED_MAX else f"'{text[:QUOTED_MAX]}...'"


@cache
def _options() -> "re2.Options":
    import re2

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    return options


def _compiled(text: str) -> "re2._Regexp[bytes]":
    """Imports RE2, 3 MB of memory, which a node without expressions but `.*` does not need."""
    import re2

    try:
        return re2.compile(text.encode(), _options())
    except UnicodeEncodeError as error:
        raise ExpressionError("not valid UTF-8") from error
    except re2.error as error:
        reason = _reason(error)
        hint = UNSUPPORTED if _is_unsupported(reason) else ""
        raise ExpressionError(reason[:QUOTED_MAX] + hint) from error


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


def _is_unsupported(reason: str) -> bool:
    if reason.startswith("invalid escape sequence: \\"):
        return reason[-1:].isalnum()
    return reason.startswith(NO_SUCH_SYNTAX)


def _split_lookaheads(text: str) -> tuple[list[tuple[bool, str]], str]:
    """Lookaheads right after a leading `^` (True: must be there), and the rest, anchored."""
    found: list[tuple[bool, str]] = []
    place = 1
    while text[:1] == "^" and text[place : place + 3] in ("(?!", "(?="):
        end = _closing(text, place)
        if end is None:
            break
        found.append((text[place + 2] == "=", text[place + 3 : end]))
        place = end + 1
    rest = "^" + text[place:]
    if not found or text[place : place + 1] in ("*", "+", "?", "{") or _has_alternatives(rest):
        return [], text
    return found, rest


def _closing(text: str, start: int) -> int | None:
    """Where the group that opens at `start` ends; None: it does not."""
    for place, depth in _depths(text, start):
        if depth == 0 and text[place] == ")":
            return place
    return None


def _has_alternatives(text: str) -> bool:
    """Whether there is a `|` outside all groups."""
    return any(depth == 0 and text[place] == "|" for place, depth in _depths(text, 0))


def _depths(text: str, start: int) -> list[tuple[int, int]]:
    """Each character that is neither escaped nor in a set, and the groups open after it."""
    found: list[tuple[int, int]] = []
    place, depth, first_of_set = start, 0, -1
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 2
            continue
        if first_of_set >= 0:
            if sign == "]" and place > first_of_set:
                first_of_set = -1
        elif sign == "[":
            first_of_set = place + (2 if text[place + 1 : place + 2] == "^" else 1)
        else:
            depth += (sign == "(") - (sign == ")")
            found.append((place, depth))
        place += 1
    return found

"""Log lines: as text or as JSON, to stderr or a file, at a level that can be changed while it runs.

    set_up(LogSection(...), node_name)
    log.warning("%s: %s", name, error, extra=ids_of(connection=name, vhost=vhost, user=user))

What a line is about goes with it as `ids`. As JSON they are fields beside `time` (UTC), `level`,
`logger`, `node`, `message` and, for a fault of ours, `exception`; as text the message names them
already. No password and no message body is ever given to a logger.

The last KEPT_LINES of them stay in memory, for who looks from afar (`last_lines`).

A file is only ever appended to; who moves it away (logrotate) sends SIGHUP, and it is reopened
under its name (`reopen`). If that fails the old file goes on, and a line there says why. A file
that cannot be opened at the start ends the start (OSError). Levels are of all loggers or of one of
`CATEGORIES`; they last as long as the process. All of it may be called from any thread.
"""

import io
import json
import logging
import sys
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from node.config.settings import LogSection

Ids = dict[str, object]  # the `extra` of a line

ROOT: Final = "warren"
AUDIT: Final = "warren.audit"
LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")
NONE: Final = logging.CRITICAL + 10  # above all levels
CATEGORIES: Final = (
    "addresses", "alarms", "audit", "broker", "cluster", "connection", "coordination", "damage",
    "dead_letters", "events", "federation", "firehose", "leases", "listener", "maintenance",
    "management", "mirroring", "node", "peers", "placement", "reconciling", "reply_to", "routing",
    "streams", "tls", "traffic", "turn",
)  # fmt: skip
ESCAPES: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))},
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
KEPT_LINES: Final = 500  # about 100 KB
KEPT_COLUMNS: Final = 2000  # of each line
TEXT: Final = "%(asctime)s [%(levelname)s] %(name)s: %(message)s"

log = logging.getLogger("warren.node")


def ids_of(
    *, connection: str = "", vhost: str = "", user: str = "", queue: str = "", **more: object
) -> Ids:
    """The `extra` of a line that is about these; what is empty is left out."""
    named = {"connection": connection, "vhost": vhost, "user": user, "queue": queue}
    return {"ids": {**{name: value for name, value in named.items() if value}, **more}}


class TextFormatter(logging.Formatter):
    """One line of text per record; a traceback follows on lines of its own.

    Control characters in values that clients choose are escaped: a name with a newline would look
    like a second record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(ESCAPES)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        ids = getattr(record, "ids", {})
        line: dict[str, object] = {
            "time": iso_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "node": self._node,
            "message": record.getMessage(),
            **ids,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def iso_time(seconds: float) -> str:
    """UTC, in milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ReopenableHandler(logging.StreamHandler[TextIO]):
    """A file that is appended to, and reopened on request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(open_to_append(path))

    def reopen(self) -> None:
        """OSError: it cannot be opened, and the old one goes on."""
        fresh = open_to_append(self._path)
        old = self.setStream(fresh)
        if old is not None:
            old.close()

    def close(self) -> None:
        super().close()
        self.stream.close()


class RecentLines(logging.Handler):
    """The last lines, as they were written to the log."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record)[:KEPT_COLUMNS])

    def last(self, count: int) -> list[str]:
        self.acquire()  # Other threads log, too.
        try:
            return list(self._lines)[-count:]
        finally:
            self.release()


def last_lines(count: int) -> list[str]:
    """Of the log, the oldest first."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RecentLines):
            return handler.last(count)
    return []


def open_to_append(path: Path) -> io.TextIOWrapper:
    return path.open("a", encoding="utf-8", errors="backslashreplace")


def set_up(section: "LogSection", node: str) -> None:
    """OSError: the file cannot be opened."""
    handler: logging.Handler
    if section.file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = ReopenableHandler(section.file)
    formatter = JsonFormatter(node) if section.format == "json" else TextFormatter(TEXT)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler, RecentLines(formatter)]
    root.setLevel(section.level.upper())


def reopen() -> None:
    """For SIGHUP: the file was moved away. Without one there is nothing to do."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, ReopenableHandler):
            try:
                handler.reopen()
            except OSError as error:
                log.error("the log file cannot be reopened, the old one stays in use: %s", error)


class BadLevel(Exception):
    """No such level or category; the text says which there are."""


def set_level(level: str, category: str = "") -> None:
    """Of all lines, or of one category; BadLevel."""
    if level not in LEVELS:
        raise BadLevel(f"level '{level}' is none of {', '.join(LEVELS)}")
    number = NONE if level == "none" else logging.getLevelNamesMapping()[level.upper()]
    logger_of(category).setLevel(number)
    log.warning("log level of %s is %s from now on", category or "all lines", level)


def levels() -> dict[str, str]:
    """What is logged now: `default`, and each category that has a level of its own."""
    found = {"default": level_name(logging.getLogger().level)}
    for category in CATEGORIES:
        own = logging.getLogger(f"{ROOT}.{category}").level
        if own != logging.NOTSET:
            found[category] = level_name(own)
    return found


def level_name(number: int) -> str:
    return "none" if number >= NONE else logging.getLevelName(number).lower()


def logger_of(category: str) -> logging.Logger:
    """BadLevel: there is no such category."""
    if not category or category == "default":
        return logging.getLogger()
    if category not in CATEGORIES:
        raise BadLevel(f"category '{category}' is none of {', '.join(CATEGORIES)}")
    return logging.getLogger(f"{ROOT}.{category}")

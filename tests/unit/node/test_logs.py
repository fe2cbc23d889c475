"""Log lines: golden ones in both forms, levels, and a file that is moved away."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.config.settings import LogSection
from node.events import logs
from node.events.logs import BadLevel, JsonFormatter, ids_of, iso_time

HERE = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Loggers are of the whole process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers = handlers
    root.setLevel(level)
    for category in logs.CATEGORIES:
        logging.getLogger(f"{logs.ROOT}.{category}").setLevel(logging.NOTSET)


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("warren.connection").makeRecord(
        "warren.connection", logging.WARNING, "f.py", 1, message, arguments, None, extra=extra
    )
    made.created = 1_700_000_000.25
    made.msecs = 250.0
    return made


def test_a_line_as_json_has_what_it_is_about_as_fields() -> None:
    ids = ids_of(connection="1.2.3.4:5 -> 6.7.8.9:5672", vhost="/", user="ann", queue="")
    line = JsonFormatter("warren@a").format(record("%s: %d", "closed", 320, **ids))
    assert line == (
        '{"time": "2023-11-14T22:13:20.250Z", "level": "warning", "logger": "warren.connection", '
        '"node": "warren@a", "message": "closed: 320", '
        '"connection": "1.2.3.4:5 -> 6.7.8.9:5672", "vhost": "/", "user": "ann"}'
    )


def test_a_line_as_text_is_its_message() -> None:
    formatter = logging.Formatter(logs.TEXT)
    formatter.converter = time.gmtime
    line = formatter.format(record("queue '%s'", "q", **ids_of(queue="q")))
    assert line == "2023-11-14 22:13:20,250 [WARNING] warren.connection: queue 'q'"


def test_names_that_would_begin_another_line_stay_on_theirs() -> None:
    line = JsonFormatter("n").format(record("%s", "a\nb", **ids_of(user="x\ny")))
    assert "\n" not in line
    assert json.loads(line)["user"] == "x\ny"


def test_a_fault_of_ours_is_told_with_its_place() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    line = json.loads(JsonFormatter("n").format(made))
    assert line["exception"].endswith("ValueError: odd")


def test_times_are_in_utc() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"


def test_a_file_that_is_moved_away_is_opened_anew_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "warren.log"
    logs.set_up(LogSection(file=path, format="json"), "n")
    log = logging.getLogger("warren.node")
    log.info("one")
    path.rename(tmp_path / "warren.log.1")
    log.info("two")
    logs.reopen()
    log.info("three")
    assert messages(tmp_path / "warren.log.1") == ["one", "two"]
    assert messages(path) == ["three"]


def test_a_file_that_cannot_be_opened_anew_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "warren.log"
    logs.set_up(LogSection(file=path, format="json"), "n")
    moved = tmp_path / "moved"
    folder.rename(moved)
    logs.reopen()
    (line,) = messages(moved / "warren.log")
    assert line.startswith("the log file cannot be reopened")


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        logs.set_up(LogSection(file=tmp_path / "none" / "warren.log"), "n")


def messages(path: Path) -> list[str]:
    return [json.loads(line)["message"] for line in path.read_text().splitlines()]


def test_levels_of_all_lines_and_of_one_category_are_changed_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logs.set_up(LogSection(file=path, format="json", level="warning"), "n")
    connection, cluster = (
        logging.getLogger("warren.connection"),
        logging.getLogger("warren.cluster"),
    )
    connection.info("one")
    logs.set_level("debug", "connection")
    connection.debug("two")
    cluster.info("three")
    logs.set_level("none")
    cluster.critical("four")
    connection.info("five")
    assert [each for each in messages(path) if each in ("one", "two", "three", "four", "five")] == [
        "two",
        "five",
    ]
    assert logs.levels() == {"default": "none", "connection": "debug"}


@pytest.mark.parametrize(("level", "category"), [("loud", ""), ("", ""), ("info", "nothing")])
def test_no_other_levels_and_categories_than_those_there_are(level: str, category: str) -> None:
    with pytest.raises(BadLevel, match="is none of"):
        logs.set_level(level, category)


@pytest.mark.source
def test_every_logger_of_the_node_is_a_category() -> None:
    found = set()
    for folder in ("node", "federation", "queues", "raft"):
        for path in (HERE / folder).rglob("*.py"):
            for line in path.read_text().splitlines():
                _, called, rest = line.partition('getLogger("warren.')
                if called:
                    found.add(rest.partition('"')[0])
    assert found <= set(logs.CATEGORIES), found - set(logs.CATEGORIES)


def test_control_characters_of_values_are_escaped_and_tracebacks_keep_their_lines() -> None:
    formatter = logs.TextFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord(
        "warren", logging.INFO, "", 0, "user '%s'", ("a\nERROR b\x1b",), None
    )
    assert formatter.format(record) == "INFO user 'a\\nERROR b\\x1b'"
    try:
        raise ValueError("x")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert formatter.format(record).count("\n") > 1


def test_the_last_lines_stay_in_memory_as_they_were_written(tmp_path: Path) -> None:
    logs.set_up(LogSection(file=tmp_path / "node.log"), "n1")
    log = logging.getLogger("warren.node")
    for number in range(logs.KEPT_LINES + 10):
        log.warning("line %d", number)
    assert [line.rpartition("line ")[2] for line in logs.last_lines(2)] == ["508", "509"]
    assert len(logs.last_lines(10_000)) == logs.KEPT_LINES
    written = (tmp_path / "node.log").read_text().splitlines()
    assert logs.last_lines(3) == written[-3:]

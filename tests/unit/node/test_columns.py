"""Tables of columns: rows, unknown counts, bare rows, schemas and lists of the command line."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from node.cli.lists import LISTS
from node.management.rows.client_columns import (
    CHANNEL_COLUMNS,
    CONNECTION_COLUMNS,
    CONSUMER_COLUMNS,
    STREAM_PUBLISHER_COLUMNS,
    SUBSCRIPTION_COLUMNS,
)
from node.management.rows.columns import Column, Kind
from node.management.rows.queue_columns import QUEUE_COLUMNS, columns_of
from node.management.rows.queue_rows import bare, queue_row
from node.management.schema import connections, streams
from node.management.schema.queues import QUEUE
from tests.unit.node.fake_broker import queue_view


def properties() -> dict[str, Any]:
    return cast("dict[str, Any]", QUEUE["properties"])


def test_row_has_columns_of_table_with_values_of_view() -> None:
    queue = queue_view("/", "q", ready=3)
    row = columns_of(queue)
    assert list(row) == [each.name for each in QUEUE_COLUMNS]
    assert (row["name"], row["messages_ready"], row["messages"]) == ("q", 3, 4)
    assert row.keys() <= properties().keys()


def test_counts_are_null_where_their_node_does_not_answer() -> None:
    row = queue_row(replace(queue_view("/", "q"), counts_known=False))
    counted = [
        each for each in QUEUE_COLUMNS if each.kind in (Kind.COUNT_OR_NULL, Kind.SHARE_OR_NULL)
    ]
    assert len(counted) > 15 and all(row[each.name] is None for each in counted)
    assert row["message_stats"] == {} and row["counts_known"] is False


def test_row_of_a_mirrored_queue_shows_the_progress_of_its_synchronisation() -> None:
    assert "sync_messages" not in queue_row(queue_view("/", "q"))
    row = queue_row(replace(queue_view("/", "q"), state="syncing", sync_messages=0))
    assert (row["state"], row["sync_messages"]) == ("syncing", 0)
    assert "sync_messages" in properties() and "sync_messages" in LISTS["list_queues"].columns


def test_bare_row_has_no_statistics() -> None:
    row = bare(queue_row(queue_view("/", "q")), with_totals=False)
    assert row["policy"] is None and row["state"] == "running"
    assert not row.keys() & {"messages", "consumers", "message_stats", "reason"}


@pytest.mark.parametrize(
    ("schema", "table"),
    [
        (connections.CONNECTION, CONNECTION_COLUMNS),
        (connections.CHANNEL, CHANNEL_COLUMNS),
        (connections.CONSUMER, CONSUMER_COLUMNS),
        (streams.CONSUMER, SUBSCRIPTION_COLUMNS),
        (streams.PUBLISHER, STREAM_PUBLISHER_COLUMNS),
    ],
)
def test_schema_of_clients_has_the_columns_of_their_table(
    schema: dict[str, Any], table: tuple[Column[Any], ...]
) -> None:
    names = [each.name for each in table]
    assert len(set(names)) == len(names)
    assert set(names) <= schema["properties"].keys()


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        ("list_queues", QUEUE),
        ("list_connections", connections.CONNECTION),
        ("list_channels", connections.CHANNEL),
        ("list_consumers", connections.CONSUMER),
    ],
)
def test_command_line_lists_columns_that_api_has(command: str, schema: dict[str, Any]) -> None:
    listing = LISTS[command]
    places = [listing.places.get(each, each).partition(".")[0] for each in listing.columns]
    assert set(places) <= schema["properties"].keys()

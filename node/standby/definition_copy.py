"""Brings the definitions of a standby to those of its primary. Not compiled.

This comes with the library for HTTP: import it once there is a standby.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from node.management.definitions_file import DefinitionsFile
from node.management.definitions_import import Importer
from node.management.definitions_run import ImportRun, Placed, ignore_progress
from node.management.replies import ApiError
from node.operations.live_operations import LiveOperations
from node.standby.definition_rows import deletions, exported, missing
from node.standby.held_queue import QueueFault

if TYPE_CHECKING:
    from node.broker import Broker

PLACE = "standby"  # where a refused command comes from, in its text


async def copy_definitions(broker: "Broker", name: str, wanted: dict[str, Any]) -> None:
    """See `node.standby.replica.CopyDefinitions`."""
    metadata = broker.metadata
    vhost = metadata.vhosts.get(name)
    if vhost is None:
        return
    operations = LiveOperations(broker)
    try:
        gone = [Placed(each, PLACE) for each in deletions(wanted, exported(metadata, vhost))]
        await ImportRun(operations, gone).carry_out(ignore_progress)
        rows = missing(wanted, exported(metadata, vhost))
        importer = Importer(
            metadata,
            broker.node_name,
            None,
            broker.logins.hash_of,
            default_type=broker.config.default_queue_type,
        )
        added = await importer.commands_of(DefinitionsFile(msgspec.json.encode(rows)))
        await ImportRun(operations, added).carry_out(ignore_progress)
    except ApiError as error:
        raise QueueFault(f"definitions of the primary: {error.reason}") from error

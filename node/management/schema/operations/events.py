"""Entries of `node.management.api.operations.events`."""

from typing import Final

from node.management.schema.model import MONITORING, STRING, Operation, Query

NAMES: Final = Query("names", STRING, "Patterns between commas: `queue.*,connection.closed`.")

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/api/events",
        summary="What happens in the cluster, as Server-Sent Events.",
        rights=MONITORING,
        query=(NAMES,),
        answers={200: STRING},
        refusals=(503,),
        content_type="text/event-stream",
    ),
)

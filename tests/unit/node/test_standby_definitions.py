"""What a standby imports and deletes so that it is as its primary."""

from node.standby.definition_rows import Row, Rows, deletions, missing
from queues.definitions.metadata.commands import (
    ClearPermissions,
    DeletePolicy,
    DeleteQueue,
    Unbind,
)

QUEUE: Row = {"vhost": "v", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}
BINDING: Row = {
    "vhost": "v",
    "source": "x",
    "destination": "q",
    "destination_type": "queue",
    "routing_key": "k",
    "arguments": {},
}
POLICY: Row = {"vhost": "v", "name": "p", "pattern": "", "apply-to": "all"} | {
    "definition": {"max-length": 1},
    "priority": 0,
}
RIGHTS: Row = {"vhost": "v", "user": "u", "configure": "", "write": "", "read": ""}


def test_equal_rows_need_nothing() -> None:
    rows = {"queues": [QUEUE], "policies": [POLICY]}
    assert list(deletions(rows, rows)) == []
    assert missing(rows, rows) == {"queues": [], "policies": [], "parameters": []}


def test_a_queue_with_other_arguments_is_deleted_and_made_again() -> None:
    wanted = {"queues": [{**QUEUE, "arguments": {"x-max-length": 1}}]}
    assert list(deletions(wanted, {"queues": [QUEUE]})) == [DeleteQueue("v", "q")]
    assert missing(wanted, {"queues": [QUEUE]})["queues"] == wanted["queues"]


def test_a_policy_with_another_definition_is_replaced_and_one_that_is_gone_deleted() -> None:
    wanted = {"policies": [{**POLICY, "definition": {"max-length": 2}}]}
    assert list(deletions(wanted, {"policies": [POLICY]})) == []
    assert missing(wanted, {"policies": [POLICY]})["policies"] == wanted["policies"]
    assert list(deletions({}, {"policies": [POLICY]})) == [DeletePolicy("v", "p", False)]
    assert list(deletions({}, {"operator_policies": [POLICY]})) == [DeletePolicy("v", "p", True)]


def test_operator_policies_are_imported_as_parameters() -> None:
    (row,) = missing({"operator_policies": [POLICY]}, {})["parameters"]
    assert (row["component"], row["name"], row["vhost"]) == ("operator_policy", "p", "v")


def test_bindings_go_before_their_queues_and_permissions_last() -> None:
    there: Rows = {"permissions": [RIGHTS], "queues": [QUEUE], "bindings": [BINDING]}
    kinds = [type(each) for each in deletions({}, there)]
    assert kinds == [Unbind, DeleteQueue, ClearPermissions]
    assert list(deletions({"permissions": [{**RIGHTS, "read": "a"}]}, there))[-1] == DeleteQueue(
        "v", "q"
    )

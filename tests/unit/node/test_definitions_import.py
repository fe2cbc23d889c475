"""Imports of definitions: files read row by row, and commands tried on a copy of the machine."""

import asyncio
from typing import Any

import msgspec
import pytest

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.config.default_policies import DefaultPolicy
from node.management.access import Context
from node.management.definitions_file import DefinitionsFile, file_in
from node.management.definitions_import import Importer
from node.management.definitions_run import ImportRun, ignore_progress
from node.management.rehearsal import rehearsal_of
from node.management.replies import ApiError
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    PutPolicy,
    PutUser,
    SetPermissions,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created, Exists, Refused
from tests.unit.node.fake_access import FakeAccess
from tests.unit.node.fake_broker import FakeBroker
from tests.unit.node.fake_operations import FakeOperations


def file_of(**parts: Any) -> DefinitionsFile:
    return DefinitionsFile(msgspec.json.encode(parts))


def applied(machine: Metadata, *commands: Any) -> list[Any]:
    return [machine.apply(machine.applied_index + 1, each) for each in commands]


# The file


def test_rows_are_read_one_by_one() -> None:
    file = file_of(queues=[{"name": "a"}, {"name": "b"}])
    assert [row["name"] for row in file.rows("queues")] == ["a", "b"]
    assert list(file.rows("exchanges")) == []
    assert file.digest != file_of(queues=[]).digest == file_of(queues=[]).digest


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"a": 1}}', b"[" * 10_000, b"\xff"])
def test_what_is_no_object_is_no_file(raw: bytes) -> None:
    with pytest.raises(ApiError, match="not_json"):
        DefinitionsFile(raw)


@pytest.mark.parametrize("rows", [b"{}", b"5", b"[5]", b'["a"]', b"[[]]"])
def test_a_part_is_a_list_of_objects(rows: bytes) -> None:
    file = DefinitionsFile(b'{"queues": %s}' % rows)
    with pytest.raises(ApiError, match="queues is not a list of objects"):
        list(file.rows("queues"))


def test_a_row_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"a":' * 65 + b"1" + b"}" * 65
    with pytest.raises(ApiError, match="not_json"):
        list(DefinitionsFile(b'{"queues": [%s]}' % deep).rows("queues"))
    shallow = b'{"a":' * 63 + b"1" + b"}" * 63
    assert list(DefinitionsFile(b'{"queues": [%s]}' % shallow).rows("queues"))


# The rehearsal


def test_a_rehearsal_refuses_what_the_machine_would_and_leaves_it_alone() -> None:
    machine = Metadata()
    applied(
        machine,
        DeclareQueue("/", "old", True, node="n"),
        DeclareExchange("/", "x", "direct", True),
        PutUser("u", "", "rabbit_password_hashing_sha256", ()),
    )
    before = machine.snapshot()
    rehearsal = rehearsal_of(machine)
    outcomes = applied(
        rehearsal,
        DeclareQueue("/", "old", True, node="n"),
        DeclareQueue("/", "old", False, node="n"),
        DeclareQueue("/", "new", True, node="n"),
        Bind("/", "x", Destination.QUEUE, "old", b"k"),
        Bind("/", "x", Destination.QUEUE, "new", b"k"),
        Bind("/", "x", Destination.QUEUE, "none", b"k"),
        SetPermissions("u", "/", "", "", ""),
        SetPermissions("none", "/", "", "", ""),
        DeclareVhost("v", "", ()),
        DeclareQueue("v", "q", True, node="n"),
    )
    kinds = [type(each) for each in outcomes]
    assert kinds == [
        Exists, Refused, Created, Created, Created, Refused, Created, Refused, Created, Created,
    ]  # fmt: skip
    assert machine.snapshot() == before


# The run


def context_of(operations: FakeOperations) -> Context:
    access = FakeAccess(users={})
    harness = LoginChecks(access, LoginRules())
    harness.close()
    return Context(FakeBroker(), access, harness, operations)


async def run(operations: FakeOperations, file: DefinitionsFile) -> ImportRun:
    context = context_of(operations)
    importer = Importer(operations.metadata, "n", None, context.logins.hash_of)
    return ImportRun(context.operations, await importer.commands_of(file))


def test_nothing_is_done_before_all_has_been_tried() -> None:
    operations = FakeOperations()
    rows = [{"name": f"q{number}", "vhost": "/"} for number in range(700)]
    rows.append({"name": "bad", "vhost": "/", "arguments": {"x-max-length": -1}})  # type: ignore[dict-item]

    async def test() -> None:
        trial = await run(operations, file_of(queues=rows))
        with pytest.raises(ApiError, match=r"queues\[700\]: .*nothing was imported"):
            await trial.try_out()

    asyncio.run(test())
    assert operations.metadata.queue_count == 0


def test_an_import_that_is_overtaken_says_how_far_it_came() -> None:
    """A client declares an exchange of the same name and another kind after the trial."""
    operations = FakeOperations()
    queues = [{"name": f"q{number}", "vhost": "/"} for number in range(9)]
    exchanges = [{"name": "x", "vhost": "/", "type": "topic"}]
    told: list[int] = []

    async def tell(done: int) -> None:
        told.append(done)

    async def test() -> None:
        trial = await run(operations, file_of(queues=queues, exchanges=exchanges))
        await trial.try_out()
        await operations.carry_out(DeclareExchange("/", "x", "direct", True))
        with pytest.raises(ApiError, match=r"exchanges\[0\]: .* 9 of 10 changes were made"):
            await trial.carry_out(tell)

    asyncio.run(test())
    assert operations.metadata.queue_count == 9 and told == []


def test_a_long_import_is_done_in_slices() -> None:
    operations = FakeOperations()
    rows = [{"name": f"q{number}", "vhost": "/"} for number in range(600)]
    told: list[int] = []

    async def tell(done: int) -> None:
        told.append(done)

    async def test() -> None:
        trial = await run(operations, file_of(queues=rows))
        await trial.try_out()
        await trial.carry_out(tell)
        again = await run(operations, file_of(queues=rows))
        assert again.total == 0
        await again.carry_out(ignore_progress)

    asyncio.run(test())
    assert told == [256, 512, 600]
    assert operations.metadata.queue_count == 600


def test_a_vhost_that_an_import_makes_begins_with_the_default_policies() -> None:
    rules = (DefaultPolicy(name="d", definition={"max-length": 5}),)
    hash_of = context_of(FakeOperations()).logins.hash_of
    importer = Importer(Metadata(), "n", None, hash_of, rules)
    file = file_of(vhosts=[{"name": "/"}, {"name": "new"}])
    placed = asyncio.run(importer.commands_of(file))
    policies = [each.command for each in placed if isinstance(each.command, PutPolicy)]
    assert [(each.vhost, each.name, each.operator) for each in policies] == [("new", "d", True)]


@pytest.mark.parametrize(
    ("row", "default", "found"),
    [
        ({"type": "classic"}, "classic", {}),
        ({"type": "classic"}, "quorum", {"x-queue-type": "classic"}),
        ({"type": "quorum"}, "quorum", {"x-queue-type": "quorum"}),
        ({}, "quorum", {"x-queue-type": "classic"}),
        ({"arguments": {"x-queue-type": "stream"}}, "quorum", {"x-queue-type": "stream"}),
    ],
)
def test_a_queue_keeps_its_type_whatever_the_default_of_the_node(
    row: dict[str, Any], default: str, found: dict[str, Any]
) -> None:
    hash_of = context_of(FakeOperations()).logins.hash_of
    importer = Importer(Metadata(), "n", None, hash_of, default_type=default)
    file = file_of(vhosts=[{"name": "/"}], queues=[{"name": "q", "vhost": "/", **row}])
    *_, placed = asyncio.run(importer.commands_of(file))
    assert isinstance(placed.command, DeclareQueue)
    assert decode_arguments(placed.command.arguments) == found


# Forms


FORM = "multipart/form-data; boundary=xyz"


def form(*parts: tuple[str, bytes]) -> bytes:
    made = b"".join(
        b'--xyz\r\nContent-Disposition: form-data; name="%s"; filename="d"\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in parts
    )
    return made + b"--xyz--\r\n"


def test_a_file_may_come_as_a_field_of_a_form() -> None:
    sent = b'{"queues": []}\r\n'
    assert file_in(form(("redirect", b"/"), ("file", sent)), FORM) == sent
    assert file_in(sent, "application/json") == sent and file_in(sent, "") == sent


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (form(("other", b"{}")), FORM),
        (form(("file", b"{}")), "multipart/form-data"),
        (b"{}", FORM),
        (b"", FORM),
        (b'--xyz\r\nname="file"', FORM),
    ],
)
def test_a_form_without_a_file_is_refused(raw: bytes, kind: str) -> None:
    with pytest.raises(ApiError) as refused:
        file_in(raw, kind)
    assert refused.value.status == 400

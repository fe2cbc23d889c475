"""Bytes of commands and snapshots: golden, versioned, and refused when they are anything else."""

from collections.abc import Callable
from typing import get_args

import pytest

from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Destination, MirrorView, Uid
from queues.definitions.members import Member
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import (
    BadCommand,
    Batch,
    Command,
    decode,
    encode,
    may_grow,
)
from queues.definitions.metadata.machine import Metadata

Commands = tuple[Command, ...]
ARGUMENTS = encode_arguments({"x-expires": 5})
KEY = b"\xffk"
TO_QUEUE = Destination.QUEUE
NODE = Member(3, "n", 9, "h", 5)

# docs/formats/metadata.md. These bytes are on disks: a change needs a new version.
GOLDEN: list[tuple[Command, str]] = [
    (
        commands.DeclareVhost("v", "d", ("t",), "quorum", True, True),
        "019701a176a16491a174a671756f72756dc3c3",
    ),
    (commands.DeleteVhost("v"), "019202a176"),
    (
        commands.PutUser("u", "h", "argon2id", ("administrator",)),
        "019503a175a168a86172676f6e32696491ad61646d696e6973747261746f72",
    ),
    (commands.DeleteUser("u"), "019204a175"),
    (commands.SetPermissions("u", "v", "c", "w", "r"), "019605a175a176a163a177a172"),
    (commands.ClearPermissions("u", "v"), "019306a175a176"),
    (
        commands.DeclareExchange("v", "x", "topic", True, False, True),
        "019807a176a178a5746f706963c3c2c3c400",
    ),
    (commands.DeleteExchange("v", "x", True), "019408a176a178c3"),
    (
        commands.DeclareQueue("v", "q", True, "c", False, ARGUMENTS, "n", True),
        "019b09a176a171c3a163c2c4130000000f09782d657870697265734900000005a16ec390c0",
    ),
    (commands.DeleteQueue("v", "q", Uid(300), "c"), "01950aa176a171cd012ca163"),
    (commands.Bind("v", "x", TO_QUEUE, "q", KEY), "01980ba176a17800a171c402ff6bc400a0"),
    (
        commands.Unbind("v", "x", Destination.EXCHANGE, "y", KEY, b"", "c"),
        "01980ca176a17801a179c402ff6bc400a163",
    ),
    (commands.DeleteByOwner("c", 9), "01930da16309"),
    (Batch((commands.DeleteVhost("v"), commands.DeleteUser("u"))), "01920f929202a1769204a175"),
    (
        commands.PutPolicy("v", "p", True, "^q", "queues", -1, b"{}"),
        "019810a176a170c3a25e71a6717565756573ffc4027b7d",
    ),
    (commands.DeletePolicy("v", "p", False), "019411a176a170c2"),
    (commands.PutParameter("v", "c", "n", b"1"), "019512a176a163a16ec40131"),
    (commands.DeleteParameter("", "c", "n"), "019413a0a163a16e"),
    (commands.SetTopicPermissions("u", "v", "x", "w", "r"), "019614a175a176a178a177a172"),
    (commands.ClearTopicPermissions("u", "v", "x"), "019415a175a176a178"),
    (commands.Found(7, (NODE,)), "01931607919e03a16e09a16805a0a0a0a0c2a090a0a0"),
    (
        commands.AddMember("n", 9, "h", 5, "i", "z", "a", "m", "s", (("k", "v"),)),
        "019d17a16e09a16805a169a17aa161a16da1739192a16ba176a0a0",
    ),
    (commands.RemoveMember(3), "01921803"),
    (
        commands.PutMember(Member(3, "n", 9, "h", 5, "i", "z", "a", "m", True, "s", (("k", "v"),))),
        "0192199e03a16e09a16805a169a17aa161a16dc3a1739192a16ba176a0a0",
    ),
    (commands.SetQueueMembers(Uid(300), (3, 1)), "01931acd012c920301"),
    (commands.RecoverQueue(Uid(300), 2, 9), "01941fcd012c0209"),
    (
        commands.SetMirrorView(Uid(300), MirrorView(4, 2, (3, 1), (2, 4), (3,), (1,))),
        "019320cd012c970402920301920204910391" + "01c2",
    ),
    (commands.NodeUp("n", 3, 255), "01941ba16e03ccff"),
    (commands.NodeDown("n", 255, 9), "01941ca16eccff09"),
    (commands.DeleteByNode("n", 9), "01931da16e09"),
    (commands.Numbered(255, 2, 1, (commands.DeleteVhost("v"),)), "01951eccff0201919202a176"),
]


# As they were before `amqps` and `tags`; logs of then are read.
EARLIER = [
    (commands.Found(7, (NODE,)), "01931607919a03a16e09a16805a0a0a0a0c2"),
    (
        commands.AddMember("n", 9, "h", 5, "i", "z", "a", "m"),
        "019917a16e09a16805a169a17aa161a16d",
    ),
    (
        commands.PutMember(Member(3, "n", 9, "h", 5, "i", "z", "a", "m", True)),
        "0192199a03a16e09a16805a169a17aa161a16dc3",
    ),
    (
        commands.SetMirrorView(Uid(300), MirrorView(4, 2, (3, 1), (2, 4), (3,), (1,))),
        "019320cd012c960402920301920204910391" + "01",
    ),
]


@pytest.mark.parametrize(("command", "written"), EARLIER)
def test_members_of_an_earlier_log_are_read(command: Command, written: str) -> None:
    assert decode(bytes.fromhex(written)) == command


@pytest.mark.parametrize(("command", "expected"), GOLDEN)
def test_commands_have_these_bytes(command: Command, expected: str) -> None:
    assert encode(command).hex() == expected
    assert decode(bytes.fromhex(expected)) == command


def test_every_kind_of_command_has_golden_bytes() -> None:
    assert {type(command) for command, _ in GOLDEN} == set(Command.__args__)


def test_a_command_of_fewer_elements_takes_the_defaults() -> None:
    assert decode(bytes.fromhex("019309a176a171")) == commands.DeclareQueue("v", "q")


@pytest.mark.parametrize("command", [command for command, _ in GOLDEN])
def test_bytes_cut_anywhere_are_no_command(command: Command) -> None:
    data = encode(command)
    for end in range(len(data)):
        with pytest.raises(BadCommand):
            decode(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("029202a176", id="version of tomorrow"),
        pytest.param("019263a176", id="unknown kind"),
        pytest.param("019202a17600", id="something after it"),
        pytest.param("01920201", id="a name that is a number"),
        pytest.param("019202a1ff", id="a name that is not UTF-8"),
        pytest.param("01980ba176a17809a171c402ff6bc400a0", id="unknown kind of destination"),
        pytest.param("01" + "920f91" * 3000, id="nested without end"),
    ],
)
def test_other_bytes_are_no_command(data: str) -> None:
    with pytest.raises(BadCommand):
        decode(bytes.fromhex(data))


def test_a_snapshot_has_these_bytes() -> None:
    machine = Metadata()
    machine.apply(1, commands.PutUser("u", "h", "argon2id", ("monitoring",)))
    machine.apply(2, commands.SetPermissions("u", "/", "c", "w", "r"))
    machine.apply(3, commands.DeclareQueue("/", "q", True, "", False, ARGUMENTS, "n"))
    machine.apply(4, commands.Bind("/", "amq.topic", TO_QUEUE, "q", KEY))
    snapshot = machine.snapshot()
    assert snapshot.hex() == "".join(SNAPSHOT)
    assert Metadata.restore(snapshot).snapshot() == snapshot


SNAPSHOT = [
    "019b04041d02919519a175a168a86172676f6e32696491aa6d6f6e69746f72696e6791961aa175a1",
    "2fa163a177a17291979710a12fb444656661756c74207669727475616c20686f737490a0c2c20398",
    "9811a12fa0a6646972656374c3c2c2c4009812a12faa616d712e646972656374a6646972656374c3",
    "c2c2c4009813a12faa616d712e66616e6f7574a666616e6f7574c3c2c2c4009814a12fa9616d712e",
    "746f706963a5746f706963c3c2c2c4009815a12fab616d712e68656164657273a768656164657273",
    "c3c2c2c4009816a12fa9616d712e6d61746368a768656164657273c3c2c2c4009817a12fb2616d71",
    "2e7261626269746d712e7472616365a5746f706963c3c2c3c4009818a12fb2616d712e7261626269",
    "746d712e6576656e74a5746f706963c3c2c3c400919d1ba12fa171c3a0c2c4130000000f09782d65",
    "7870697265734900000005a16e90000000c091981ca12fa9616d712e746f70696300a171c402ff6bc4001b",
    "90909090" + "96000100909090" + "90",
]

SNAPSHOT_WITHOUT_RULES = [
    "019704041d02919519a175a168a86172676f6e32696491aa6d6f6e69746f72696e6791961aa175a1",
    "2fa163a177a17291959410a12fb444656661756c74207669727475616c20686f73749003989811a1",
    "2fa0a6646972656374c3c2c2c4009812a12faa616d712e646972656374a6646972656374c3c2c2c4",
    "009813a12faa616d712e66616e6f7574a666616e6f7574c3c2c2c4009814a12fa9616d712e746f70",
    "6963a5746f706963c3c2c2c4009815a12fab616d712e68656164657273a768656164657273c3c2c2",
    "c4009816a12fa9616d712e6d61746368a768656164657273c3c2c2c4009817a12fb2616d712e7261",
    "626269746d712e7472616365a5746f706963c3c2c3c4009818a12fb2616d712e7261626269746d71",
    "2e6576656e74a5746f706963c3c2c3c40091981ba12fa171c3a0c2c4130000000f09782d65787069",
    "7265734900000005a16e91981ca12fa9616d712e746f70696300a171c402ff6bc4001b",
]


def test_an_earlier_form_of_a_command_is_read() -> None:
    assert decode(bytes.fromhex("01920da163")) == commands.DeleteByOwner("c", 0)
    vhost = commands.DeclareVhost("v", "d", ("t",))
    assert decode(bytes.fromhex("019401a176a16491a174")) == vhost


def test_an_earlier_form_of_a_snapshot_is_read() -> None:
    machine = Metadata.restore(bytes.fromhex("".join(SNAPSHOT_WITHOUT_RULES)))
    assert machine.snapshot().hex() == "".join(SNAPSHOT)


def test_every_kind_of_command_is_known_to_grow_or_not() -> None:
    growing = {
        "DeclareVhost", "PutUser", "SetPermissions", "DeclareExchange", "DeclareQueue", "Bind",
        "PutPolicy", "PutParameter", "SetTopicPermissions",
    }  # fmt: skip
    examples = {type(command): command for command, _ in GOLDEN}
    batches = {Batch, commands.Numbered}
    assert examples.keys() == set(get_args(Command))
    singles = [command for kind, command in examples.items() if kind not in batches]
    assert {type(each).__name__ for each in singles if may_grow(each)} == growing


@pytest.mark.parametrize("make", [Batch, lambda parts: commands.Numbered(1, 1, 0, parts)])
def test_a_batch_grows_if_one_of_its_commands_does(make: Callable[[Commands], Command]) -> None:
    delete = commands.DeleteVhost("v")
    assert not may_grow(make((delete,)))
    assert may_grow(make((delete, commands.SetTopicPermissions("u", "v", "x", "w", "r"))))

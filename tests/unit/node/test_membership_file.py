"""What a data directory knows of its cluster: kept whole or not at all, and refused if wrong."""

from pathlib import Path
from random import Random

import pytest

from node.cluster.membership.membership_file import (
    NAME,
    NEW_NAME,
    BadMembership,
    Membership,
    MembershipFile,
    PeerAddress,
    encode,
    was_used,
)
from tests.sim.storage.sim_disk import Crashed, SimDisk
from warren.storage.disk import OsDisk

HELD = Membership(
    name="n1",
    incarnation=77,
    member=1,
    cluster_id=0,
    founders=("a:1", "b:1", "c:1"),
    is_founder=True,
    given_below=4,
    peers=(PeerAddress(2, "b", 1), PeerAddress(3, "c", 1, 99)),
)


def refusal(directory: Path, name: str = "n1", incarnation: int = 77) -> str:
    with pytest.raises(BadMembership) as caught:
        MembershipFile(OsDisk(), str(directory)).read(name, incarnation)
    return str(caught.value)


def test_an_empty_directory_has_no_membership(tmp_path: Path) -> None:
    assert MembershipFile(OsDisk(), str(tmp_path)).read("n1", 77) is None


def test_what_was_written_is_read_back_and_can_be_replaced(tmp_path: Path) -> None:
    file = MembershipFile(OsDisk(), str(tmp_path))
    file.write(HELD)
    assert MembershipFile(OsDisk(), str(tmp_path)).read("n1", 77) == HELD
    founded = Membership("n1", 77, 1, 5, HELD.founders, True, 4, ())
    file.write(founded)
    assert file.held == founded
    assert MembershipFile(OsDisk(), str(tmp_path)).read("n1", 77) == founded


def test_the_bytes_of_the_file_are_these() -> None:
    assert encode(HELD) == (
        b"warren membership 1 04656928\n"
        b'{"name":"n1","incarnation":77,"member":1,"cluster_id":0,'
        b'"founders":["a:1","b:1","c:1"],"is_founder":true,"given_below":4,'
        b'"peers":[[2,"b",1,0],[3,"c",1,99]]}\n'
    )


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    MembershipFile(OsDisk(), str(tmp_path)).write(HELD)
    assert "belongs to node 'n1', and this node is named 'n2'" in refusal(tmp_path, "n2")


def test_a_file_that_was_copied_beside_another_node_id_is_refused(tmp_path: Path) -> None:
    MembershipFile(OsDisk(), str(tmp_path)).write(HELD)
    assert "is of another data directory" in refusal(tmp_path, incarnation=78)


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    content = encode(HELD)
    for at in range(len(content)):
        wrong = bytearray(content)
        wrong[at] ^= 1
        (tmp_path / NAME).write_bytes(bytes(wrong))
        text = refusal(tmp_path)
        assert "is damaged" in text or "later version" in text
    (tmp_path / NAME).write_bytes(content[:-5])
    assert "is damaged" in refusal(tmp_path)


def test_a_file_of_a_later_version_is_not_guessed_at(tmp_path: Path) -> None:
    later = encode(HELD).replace(b"membership 1", b"membership 2")
    (tmp_path / NAME).write_bytes(later)
    assert "a later version of Warren" in refusal(tmp_path)


def test_a_crash_at_any_moment_leaves_the_old_or_the_new_one() -> None:
    new = Membership("n1", 77, 1, 5, HELD.founders, True, 4, ())
    seen = set()
    for seed in range(20):
        for crash_in in range(1, 9):
            disk = SimDisk()
            MembershipFile(disk, "/d").write(HELD)
            disk.crash_in = crash_in
            is_through = False
            try:
                MembershipFile(disk, "/d").write(new)
                is_through = True
            except Crashed:
                is_through = False
            after = disk.crash(Random(seed))
            found = MembershipFile(after, "/d").read("n1", 77)
            assert found == new or (found == HELD and not is_through)
            assert NEW_NAME not in after.list("/d")
            seen.add(found == new)
    assert seen == {True, False}


def test_a_directory_with_a_log_has_been_used(tmp_path: Path) -> None:
    assert not was_used(OsDisk(), str(tmp_path))
    (tmp_path / "log").mkdir()
    assert not was_used(OsDisk(), str(tmp_path))
    (tmp_path / "log" / "00000001.wal").touch()
    assert was_used(OsDisk(), str(tmp_path))

"""Words about addresses between nodes: what is sent, what is refused, what they say together."""

import msgspec
import pytest

from node.addresses.address_words import AddressWord, Heard
from node.cluster.services.addresses_channel import VERSION, AddressesChannel
from warren.wire.peer.codes import PeerFault

PLACE = ("/", "queue", "q")
WORD = AddressWord(*PLACE, 10, 1, 5, 2, True)


class Links:
    """The cluster as the channel sees it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.member = 1

    def members(self) -> list[int]:
        return [1, 2, 3]

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> None:
        self.sent.append((member, b"".join(parts)))


class Accounts:
    def __init__(self) -> None:
        self.to_tell: list[AddressWord] = []
        self.heard = Heard()
        self.rounds: list[int] = []

    def words(self) -> list[AddressWord]:
        return self.to_tell

    def hear(self, member: int, words: list[AddressWord]) -> None:
        self.heard.hear(member, words)

    def begin_round(self, peers: int) -> None:
        self.rounds.append(peers)


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def channel(links: Links, accounts: Accounts) -> AddressesChannel:
    return AddressesChannel(links, accounts)  # type: ignore[arg-type]


def frame(*words: AddressWord, version: int = VERSION) -> memoryview:
    return memoryview(bytes((version,)) + msgspec.msgpack.encode(words))


def test_words_go_to_all_that_are_connected_and_once_more_when_there_are_none(
    channel: AddressesChannel, links: Links, accounts: Accounts
) -> None:
    channel.peer_connected(2)
    channel.tick()
    assert links.sent == []
    accounts.to_tell = [WORD]
    channel.peer_connected(3)
    channel.tick()
    accounts.to_tell = []
    channel.tick()
    channel.tick()
    empty, full = bytes(frame()), bytes(frame(WORD))
    assert sorted(links.sent) == sorted([(2, full), (3, full), (2, empty), (3, empty)])
    assert accounts.rounds == [1, 2, 2, 2]


def test_what_others_say_is_added_up_and_forgotten_with_them(
    channel: AddressesChannel, accounts: Accounts
) -> None:
    for member in (2, 3):
        channel.peer_connected(member)
        channel.peer_received(member, frame(WORD))
    assert accounts.heard.size_of(PLACE) == (30, 6)
    assert accounts.heard.active_count(PLACE) == 2
    channel.peer_lost(2)
    assert accounts.heard.size_of(PLACE) == (15, 3)
    channel.peer_received(3, frame())
    assert accounts.heard.size_of(PLACE) == (0, 0)


@pytest.mark.parametrize(
    "payload",
    [
        memoryview(b""),
        frame(WORD, version=2),
        memoryview(bytes((VERSION,)) + b"\xc1"),
        memoryview(bytes((VERSION,)) + msgspec.msgpack.encode([1])),
        frame(AddressWord(*PLACE, -1, 0, 0, 0, False)),
        frame(*[WORD] * 4097),
    ],
)
def test_a_frame_that_cannot_be_is_a_fault_of_the_peer(
    channel: AddressesChannel, payload: memoryview
) -> None:
    with pytest.raises(PeerFault):
        channel.peer_received(2, payload)

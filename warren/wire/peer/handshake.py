"""Who is there: both ends of a connection prove that they know the cluster's secret. No I/O.

    dialer                          accepter
    HELLO  its claim, its nonce  ->
                                 <- HELLO  its claim, its nonce, the version
    PROOF  over both hellos      ->
                                 <- PROOF  over both hellos and the dialer's proof; or a refusal

Messages have a fixed size and layout (docs/formats/peer-link.md), and nothing but that layout and
the version is looked at before the proof. A proof is an HMAC-SHA256 over a label of its direction
and all that was said before: one that was recorded has other nonces, one that is sent back has the
other label. The accepter proves nothing to a dialer that has not proven itself first. Takes nonces
and the key, gives bytes; anything wrong is a PeerFault, and after it there is no way on. Compiled.
"""

import hmac
import struct
from typing import Final, final

from mypy_extensions import i64

from warren.wire.peer.codes import (
    ACCEPTED,
    ASK_ROLE,
    CLUSTER,
    PROOF,
    SAME_NODE,
    TARGET,
    VERSION,
    PeerFault,
    refusal_text,
)

MAGIC: Final = b"WARRENPL"
VERSION_MIN: Final = 1  # of the peer link, spoken here
VERSION_MAX: Final = 2
MOVING_VERSION: Final = 2  # from it on a node knows the items MOVE and MOVED about queues
ID_MAX: Final = (1 << 63) - 1  # of nodes and all other numbers that are drawn
CLUSTER_ID_BYTES: Final = 16
FOUNDING_BYTES: Final = 8  # of a cluster id: the digest of the founding list
NONCE_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 16

_HELLO: Final = 1
_PROOF: Final = 2
_HEAD: Final = struct.Struct("<8sBBBBHH")
_CLAIM: Final = struct.Struct("<QQQQQ16s32s")
HEAD_BYTES: Final = 16
HELLO_BYTES: Final = 104
PROOF_BYTES: Final = 48
_NO_MAC: Final = bytes(32)
_NO_NUMBER: Final = bytes(8)

_KEY_LABEL: Final = b"warren peer link: key"
_DIALER_LABEL: Final = b"warren peer link: dialer"
_ACCEPTER_LABEL: Final = b"warren peer link: accepter"


def link_key(secret: bytes) -> bytes:
    """The key of proofs, from the cluster's secret."""
    assert len(secret) >= SECRET_BYTES_MIN
    return hmac.digest(secret, _KEY_LABEL, "sha256")


def link_cluster_id(founding: bytes, cluster_id: int) -> bytes:
    """What is said on the link: of the digest of the founding list the beginning, and the number of
    the cluster, 0 as long as this node does not know it."""
    return founding[:FOUNDING_BYTES] + cluster_id.to_bytes(8, "little")


def are_of_one_cluster(one: bytes, other: bytes) -> bool:
    """Whether they may be: a node that is being founded does not know the number yet."""
    if one[:FOUNDING_BYTES] != other[:FOUNDING_BYTES]:
        return False
    first = one[FOUNDING_BYTES:]
    second = other[FOUNDING_BYTES:]
    return first in (second, _NO_NUMBER) or second == _NO_NUMBER


@final
class Identity:
    """What this node says of itself, and the key it proves it with.

    `incarnation` is that of the data directory, `boot` that of the process; both are drawn once.
    A node that is no member yet has its incarnation for a `node_id`.
    """

    __slots__ = ("boot", "cluster_id", "incarnation", "key", "node_id")

    def __init__(
        self, node_id: int, incarnation: int, boot: int, cluster_id: bytes, key: bytes
    ) -> None:
        assert 1 <= node_id <= ID_MAX
        assert 1 <= incarnation <= ID_MAX
        assert 1 <= boot <= ID_MAX
        assert len(cluster_id) == CLUSTER_ID_BYTES
        assert len(key) == 32
        self.node_id = node_id
        self.incarnation = incarnation
        self.boot = boot
        self.cluster_id = cluster_id
        self.key = key


@final
class Claim:
    """What the other side says of itself; true as far as its holder knows the secret.

    `target` is the node that it wants; `pair` is drawn by the dialer for each link and is the same
    on both connections of it.
    """

    __slots__ = ("boot", "cluster_id", "incarnation", "node_id", "pair", "role", "target")

    def __init__(
        self,
        role: int,
        node_id: int,
        target: int,
        incarnation: int,
        boot: int,
        pair: int,
        cluster_id: bytes,
    ) -> None:
        self.role = role
        self.node_id = node_id
        self.target = target
        self.incarnation = incarnation
        self.boot = boot
        self.pair = pair
        self.cluster_id = cluster_id


@final
class Handshake:
    """One end. `take` is given whole messages, as `needed` says; `output` is what is to be sent.

    Invariant: `claim` is None until the other side has proven it. After a PeerFault the object is
    of no use; what `output` holds then is still to be sent.
    """

    def __init__(
        self, identity: Identity, nonce: bytes, role: int = 0, target: int = 0, pair: int = 0
    ) -> None:
        """A dialer has a target; an accepter takes role and pair from the dialer's hello."""
        assert len(nonce) == NONCE_BYTES
        self.is_dialer = target != 0
        self.output: list[bytes] = []
        self.claim: Claim | None = None
        self.version: i64 = 0  # once it is agreed upon
        self._identity = identity
        self._nonce = nonce
        self._role = role
        self._target = target
        self._pair = pair
        self._expected: i64 = _HELLO
        self._theirs: Claim | None = None  # not proven
        self._dialer_hello = b""
        self._accepter_hello = b""
        self._dialer_proof = b""

    def start(self) -> None:
        """The dialer begins."""
        assert self.is_dialer
        self._dialer_hello = self._hello(VERSION_MIN, VERSION_MAX)
        self.output.append(self._dialer_hello)

    def needed(self, begun: bytes) -> int:
        """Size of the message that begins so. PeerFault if no message does."""
        if not MAGIC.startswith(begun[: len(MAGIC)]):
            raise PeerFault("what came first is not the peer link")
        if len(begun) < HEAD_BYTES:
            return HEAD_BYTES
        kind: i64 = begun[8]
        if kind == _PROOF and self.is_dialer:
            return PROOF_BYTES
        if kind != self._expected:
            raise PeerFault(f"message {kind} of the handshake, where {self._expected} is expected")
        return HELLO_BYTES if kind == _HELLO else PROOF_BYTES

    def take(self, message: bytes) -> None:
        """One whole message of the other side."""
        _magic, kind, code, role, zero, version_min, version_max = _HEAD.unpack_from(message)
        if zero != 0 or version_min > version_max or role > ASK_ROLE:
            raise PeerFault("a message of the handshake is malformed")
        if kind == _PROOF and self._expected == _HELLO:
            raise PeerFault(f"refused without a proof: {refusal_text(code)}", code)
        if kind == _PROOF:
            self._take_proof(message, code)
        elif self.is_dialer:
            self._take_answer(message, role, code, version_min, version_max)
        else:
            self._take_hello(message, role, code, version_min, version_max)

    def accept(self) -> None:
        """The accepter lets the other side in."""
        self._answer(ACCEPTED)

    def refuse(self, code: int) -> None:
        """The accepter refuses and says why; it has only now learnt the name."""
        assert code != ACCEPTED
        self._answer(code)

    # Hellos

    def _take_hello(
        self, message: bytes, role: int, code: int, version_min: int, version_max: int
    ) -> None:
        version = min(version_max, VERSION_MAX)
        if version < max(version_min, VERSION_MIN):
            self.output.append(self._head(_PROOF, VERSION, VERSION_MIN, VERSION_MAX) + _NO_MAC)
            said = f"{version_min} to {version_max}"
            raise PeerFault(f"{refusal_text(VERSION)}: it speaks {said}", VERSION)
        theirs = self._claim(message, role, code)
        self.version = version
        self._role = role
        self._pair = theirs.pair
        self._target = theirs.node_id
        self._dialer_hello = message
        self._accepter_hello = self._hello(version, version)
        self._theirs = theirs
        self._expected = _PROOF
        self.output.append(self._accepter_hello)

    def _take_answer(
        self, message: bytes, role: int, code: int, version_min: int, version_max: int
    ) -> None:
        theirs = self._claim(message, role, code)
        is_spoken = VERSION_MIN <= version_min <= VERSION_MAX
        if version_min != version_max or not is_spoken:
            raise PeerFault(f"version {version_min} was chosen, which is not spoken here", VERSION)
        if role != self._role or theirs.pair != self._pair:
            raise PeerFault("the answer is not to this hello")
        self.version = version_min
        self._accepter_hello = message
        self._theirs = theirs
        self._expected = _PROOF
        head = self._head(_PROOF, ACCEPTED, self.version, self.version)
        self._dialer_proof = head + self._mac(_DIALER_LABEL, head)
        self.output.append(self._dialer_proof)

    def _claim(self, message: bytes, role: int, code: int) -> Claim:
        node_id, target, incarnation, boot, pair, cluster_id, _nonce = _CLAIM.unpack_from(
            message, HEAD_BYTES
        )
        for number in (node_id, target, incarnation, boot, pair):
            if not 1 <= number <= ID_MAX:
                raise PeerFault("a hello is malformed")
        if code != 0:
            raise PeerFault("a hello is malformed")
        return Claim(role, node_id, target, incarnation, boot, pair, cluster_id)

    # Proofs

    def _take_proof(self, message: bytes, code: int) -> None:
        theirs = self._theirs
        assert theirs is not None
        head = message[:HEAD_BYTES]
        if self.is_dialer:
            right = self._mac(_ACCEPTER_LABEL, self._dialer_proof + head)
        else:
            right = self._mac(_DIALER_LABEL, head)
        if not hmac.compare_digest(message[HEAD_BYTES:], right):
            self._wrong_proof(code)
        self._expected = 0
        if not self.is_dialer:
            self._dialer_proof = message
        if code != ACCEPTED:
            raise PeerFault(f"refused: {refusal_text(code)}", code)
        self._check_claim(theirs)
        self.claim = theirs

    def _wrong_proof(self, code: int) -> None:
        if self.is_dialer and code != ACCEPTED:
            raise PeerFault(f"refused without a proof: {refusal_text(code)}", code)
        if not self.is_dialer:
            self.output.append(self._head(_PROOF, PROOF, self.version, self.version) + _NO_MAC)
        raise PeerFault(refusal_text(PROOF), PROOF)

    def _check_claim(self, theirs: Claim) -> None:
        """What both ends can tell by themselves; the host knows who else may come."""
        mine = self._identity
        code = ACCEPTED
        if self._role == ASK_ROLE:
            code = SAME_NODE if theirs.incarnation == mine.incarnation else ACCEPTED
        elif not are_of_one_cluster(theirs.cluster_id, mine.cluster_id):
            code = CLUSTER
        elif theirs.node_id == mine.node_id:
            code = SAME_NODE
        elif theirs.target != mine.node_id or theirs.node_id != self._target:
            code = TARGET
        if code == ACCEPTED:
            return
        if not self.is_dialer:
            self._answer(code)
        raise PeerFault(refusal_text(code), code)

    def _answer(self, code: int) -> None:
        assert not self.is_dialer
        assert self._dialer_proof != b""
        head = self._head(_PROOF, code, self.version, self.version)
        self.output.append(head + self._mac(_ACCEPTER_LABEL, self._dialer_proof + head))

    # Layout

    def _mac(self, label: bytes, tail: bytes) -> bytes:
        said = label + self._dialer_hello + self._accepter_hello + tail
        return hmac.digest(self._identity.key, said, "sha256")

    def _hello(self, version_min: int, version_max: int) -> bytes:
        mine = self._identity
        claim = _CLAIM.pack(
            mine.incarnation if self._role == ASK_ROLE else mine.node_id,
            self._target,
            mine.incarnation,
            mine.boot,
            self._pair,
            mine.cluster_id,
            self._nonce,
        )
        return self._head(_HELLO, 0, version_min, version_max) + claim

    def _head(self, kind: int, code: int, version_min: int, version_max: int) -> bytes:
        return _HEAD.pack(MAGIC, kind, code, self._role, 0, version_min, version_max)

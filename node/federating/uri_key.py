"""The key under which URIs with passwords are stored: from the cluster's secret, or of this node.

A node without a cluster secret keeps a random key in its data directory. Members of a cluster have
the secret, so that each of them can read what another one has stored.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from federation.uris import SecretBox
from node.cluster.peering.cluster_secret import read_secret

if TYPE_CHECKING:
    from node.config.settings import Config

KEY_FILE: Final = "uri-key"
KEY_BYTES: Final = 32


def secret_box(config: "Config") -> SecretBox:
    """OSError, BadSecret: the key can be neither read nor made."""
    path = config.cluster.secret_file
    if path is not None:
        return SecretBox(read_secret(path))
    return SecretBox(own_key(Path(str(config.node.data_dir)) / KEY_FILE))


def own_key(path: Path) -> bytes:
    """The key in the file, which is made if it is not there."""
    if path.exists():
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    key = os.urandom(KEY_BYTES)
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return key

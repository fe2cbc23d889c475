"""Import definitions when a node starts: the setting `load_definitions`, a file or a directory.

Of a directory all files that end in `.json` are imported in the order of their names. A file whose
content was already imported from that name, by any node of the cluster, is skipped. Nothing of a
file is done when a part of it would be refused. OSError: a file cannot be read; ApiError: it cannot
be imported.
"""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from node.config.default_policies import DefaultPolicy
from node.management.api.parameters import LOADED, sealed_value
from node.management.api.users import HashOf
from node.management.bodies import DEFINITIONS_BYTES_MAX
from node.management.changes import refuse
from node.management.definitions_file import DefinitionsFile
from node.management.definitions_import import Importer
from node.management.definitions_run import ImportRun, ignore_progress
from node.management.operations import Operations
from node.management.replies import ApiError
from queues.definitions.metadata.commands import PutParameter
from queues.definitions.metadata.outcomes import Refused

if TYPE_CHECKING:
    from node.federating.link_service import LinkService

LOG: Final = logging.getLogger("warren.management")


class DefinitionsLoader:
    """Imports the files of one path into the definitions of the node."""

    def __init__(
        self,
        operations: Operations,
        node: str,
        hash_of: HashOf,
        rules: tuple[DefaultPolicy, ...],
        links: "LinkService",
        default_type: str,
    ) -> None:
        """`default_type`: of queues in vhosts without a default of their own."""
        self._operations = operations
        self._node = node
        self._hash_of = hash_of
        self._rules = rules
        self._links = links
        self._default_type = default_type

    async def load(self, path: Path) -> None:
        for each in await asyncio.to_thread(files_at, path):
            await self._load(each)

    async def _load(self, path: Path) -> None:
        file = await asyncio.to_thread(lambda: DefinitionsFile(content_of(path)))
        metadata = self._operations.metadata
        digest = msgspec.json.encode(file.digest)
        earlier = metadata.parameters.get((LOADED, path.name))
        if earlier is not None and earlier.value == digest:
            LOG.info("definitions file %s is unchanged and was not imported again", path)
            return
        seal = partial(sealed_value, metadata, self._links)
        importer = Importer(
            metadata, self._node, None, self._hash_of, self._rules, seal, self._default_type
        )
        run = ImportRun(self._operations, await importer.commands_of(file))
        await run.try_out()
        await run.carry_out(ignore_progress)
        run.warnings()
        outcome = await self._operations.carry_out(PutParameter("", LOADED, path.name, digest))
        if isinstance(outcome, Refused):
            refuse(outcome.code, outcome.text)
        LOG.info("imported %d definitions from %s", run.total, path)


def files_at(path: Path) -> list[Path]:
    """The file itself, or the `.json` files of the directory by name."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix == ".json" and each.is_file())


def content_of(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(DEFINITIONS_BYTES_MAX + 1)
    if len(content) > DEFINITIONS_BYTES_MAX:
        raise ApiError.bad_request(f"{path} has more than {DEFINITIONS_BYTES_MAX} bytes")
    return content

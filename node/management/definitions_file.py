"""A definitions file as it comes in: parts, rows of them one by one, and a digest of the whole.

Takes the bytes of the file; nothing of it is decoded before it is asked for, so that a file of many
megabytes is never one long piece of work. ApiError 400 `not_json` for what is no JSON object, and
for a part that is no list of objects.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec

from node.management.bodies import Body, decoded
from node.management.replies import ApiError

MARK: Final = b"\xef\xbb\xbf"  # that some editors put before UTF-8
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS: Final = msgspec.json.Decoder(list[msgspec.Raw])


class DefinitionsFile:
    """See the module."""

    def __init__(self, raw: bytes) -> None:
        self.digest = sha256(raw).hexdigest()
        try:
            self._parts = _PARTS.decode(raw.removeprefix(MARK) or b"{}")
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ApiError.bad_request("not_json") from error

    def rows(self, part: str) -> Iterator[Body]:
        """Those of one part; none if it is not there."""
        raw = self._parts.get(part)
        if raw is None:
            return
        try:
            rows = _ROWS.decode(raw)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ApiError.bad_request(f"{part} is not a list of objects") from error
        for each in rows:
            row = decoded(each)
            if not isinstance(row, dict):
                raise ApiError.bad_request(f"{part} is not a list of objects")
            yield row

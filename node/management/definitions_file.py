"""A definitions file as it comes in: parts, rows of them one by one, and a digest of the whole.

Takes the bytes of the file; nothing of it is decoded before it is asked for, so that a file of many
megabytes is never one long piece of work. ApiError 400 `not_json` for what is no JSON object, and
for a part that is no list of objects.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec
from aiohttp.helpers import parse_mimetype

from node.management.bodies import Body, decoded
from node.management.replies import ApiError

MARK: Final = b"\xef\xbb\xbf"  # that some editors put before UTF-8
FORM: Final = "multipart/form-data"
FIELD: Final = 'name="file"'  # of RabbitMQ's page and of scripts that were made for it
ROW_BYTES_MAX: Final = 256 * 1024  # of one queue, policy or the like
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def file_in(raw: bytes, content_type: str) -> bytes:
    """What was sent: as it is, or the field `file` of a form."""
    kind = parse_mimetype(content_type)
    if f"{kind.type}/{kind.subtype}" != FORM:
        return raw
    boundary = kind.parameters.get("boundary", "").encode()
    if not boundary:
        raise ApiError.bad_request("the form has no boundary")
    for part in (b"\r\n" + raw).split(b"\r\n--" + boundary)[1:]:
        head, found, content = part.partition(b"\r\n\r\n")
        if found and FIELD in head.decode(errors="replace"):
            return content
    raise ApiError.bad_request("the form has no field 'file'")


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
            if len(bytes(each)) > ROW_BYTES_MAX:
                raise ApiError.bad_request(f"{part}: a row is larger than {ROW_BYTES_MAX:,} bytes")
            row = decoded(each)
            if not isinstance(row, dict):
                raise ApiError.bad_request(f"{part} is not a list of objects")
            yield row

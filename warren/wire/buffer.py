"""Bytes in and out at native speed: the only place that names the low-level library.

`BytesWriter` grows and is taken with `getvalue()`; `read_*` and `write_*` are fixed-width
integers, big-endian (`_be`, the wire) or little-endian (`_le`, our own files). All of them check
bounds and raise IndexError. mypyc turns them into native code; uncompiled they still work.
"""

from librt.strings import (
    BytesWriter as BytesWriter,
)
from librt.strings import (
    read_i16_be as read_i16_be,
)
from librt.strings import (
    read_i32_be as read_i32_be,
)
from librt.strings import (
    read_i32_le as read_i32_le,
)
from librt.strings import (
    read_i64_be as read_i64_be,
)
from librt.strings import (
    read_i64_le as read_i64_le,
)
from librt.strings import (
    write_i16_be as write_i16_be,
)
from librt.strings import (
    write_i32_be as write_i32_be,
)
from librt.strings import (
    write_i32_le as write_i32_le,
)
from librt.strings import (
    write_i64_be as write_i64_be,
)
from librt.strings import (
    write_i64_le as write_i64_le,
)

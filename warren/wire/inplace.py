"""Stretches of bytes compared and copied without making slices of them. Compiled, hot."""

from typing import Final

from mypy_extensions import i32, i64

from warren.wire.buffer import (
    BytesWriter,
    read_i32_be,
    read_i32_le,
    read_i64_le,
    write_i32_be,
    write_i32_le,
    write_i64_le,
)

WORDS_BYTES_MAX: Final = 256  # more are copied by way of a slice


def same_bytes(data: bytes, left: i64, right: i64, size: i64) -> bool:
    """data[left:left+size] == data[right:right+size], without slices."""
    pos: i64 = 0
    if size >= 8:
        last = size - 8
        while pos < last:
            if read_i64_le(data, left + pos) != read_i64_le(data, right + pos):
                return False
            pos += 8
        return read_i64_le(data, left + last) == read_i64_le(data, right + last)
    while pos < size:
        if data[left + pos] != data[right + pos]:
            return False
        pos += 1
    return True


def begins_with(data: bytes, at: i64, end: i64, known: bytes) -> bool:
    """Whether data[at:end] begins with `known`."""
    size: i64 = len(known)
    if end - at < size:
        return False
    pos: i64 = 0
    while pos + 8 <= size:
        if read_i64_le(data, at + pos) != read_i64_le(known, pos):
            return False
        pos += 8
    while pos < size:
        if data[at + pos] != known[pos]:
            return False
        pos += 1
    return True


def copy(writer: BytesWriter, data: bytes, begin: i64, end: i64) -> None:
    """Append data[begin:end]."""
    if end - begin <= WORDS_BYTES_MAX:
        copy_words(writer, data, begin, end)
    else:
        writer.write(data[begin:end])


def copy_words(writer: BytesWriter, data: bytes, pos: i64, end: i64) -> None:
    """Append data[pos:end] without making a slice of it: cheaper for a few words."""
    while end - pos >= 8:
        write_i64_le(writer, read_i64_le(data, pos))
        pos += 8
    if end - pos >= 4:
        write_i32_be(writer, read_i32_be(data, pos))
        pos += 4
    while pos < end:
        writer.append(data[pos])
        pos += 1


def rebase(offsets: bytes, base: i64) -> bytes:
    """The offsets (u32 little-endian), each less `base`."""
    writer = BytesWriter()
    pos: i64 = 0
    size: i64 = len(offsets)
    while pos < size:
        write_i32_le(writer, i32(i64(read_i32_le(offsets, pos)) - base))
        pos += 4
    return writer.getvalue()

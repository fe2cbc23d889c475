"""Reads settings from file, environment and command line into typed values. Knows no setting.

A layer is a flat table from key (`limits.channel_max`) to the value as it was written, with the
place it came from. Later layers win. A key's type is that of the field it names; text
(`--set`, environment, flags) is read as TOML where the field is not text itself.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from node.config.encrypted_values import PASSPHRASE, decrypt

T = TypeVar("T")

ENVIRONMENT_PREFIX = "WARREN_"
# Names with our prefix that are not settings of a node: other programs of the project read
# them, and the nodes that they start inherit them.
ENVIRONMENT_APART = frozenset(
    {"WARREN_PURE", "WARREN_CONFIG", "WARREN_TOOLS", "WARREN_TOXIPROXY", PASSPHRASE}
)
# Variables of RabbitMQ's container image, so that its compose files start Warren unchanged.
RABBITMQ_PREFIX = "RABBITMQ_"
RABBITMQ_NAMES: Mapping[str, str] = {
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
}

BYTE_UNITS: Mapping[str, int] = {
    "": 1, "b": 1,
    "k": 1024, "kib": 1024, "kb": 1000,
    "m": 1024**2, "mib": 1024**2, "mb": 1000**2,
    "g": 1024**3, "gib": 1024**3, "gb": 1000**3,
    "t": 1024**4, "tib": 1024**4, "tb": 1000**4,
}  # fmt: skip

_IN_BYTES = "bytes"
ByteCount = Annotated[int, Meta(extra={"unit": _IN_BYTES})]  # also written as "256MiB"

# Never shown. Also written as "file:PATH", the first line of a file, "env:NAME", or
# "encrypted:BASE64" (`node.config.encrypted_values`).
Secret = Annotated[str, Meta(extra={"secret": True})]
SECRET_BYTES_MAX = 65536  # of such a file

Keys = Mapping[str, Any]  # key -> type of its field


class ConfigError(Exception):
    """The configuration is refused; the text is for the operator."""


class Section(Struct, frozen=True, kw_only=True):
    """Settings that belong together.

    A start makes 33 of these classes; as dataclasses they would cost 7 to 8 % of its CPU time.
    """

    def __repr__(self) -> str:
        """Name the section alone: some values are secret."""
        return f"{type(self).__name__}(...)"


class Address(Struct, frozen=True):
    """Where to listen or to connect. Port 0: any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Every address of this machine: to listen on, not to connect to."""
        return self.host in ("0.0.0.0", "::")


class Setting(Struct, frozen=True):
    """A value as it was written."""

    raw: object
    is_text: bool  # True: to be read; False: TOML has already read it
    origin: str


Layer = dict[str, Setting]


def keys_of(config: type, apart: Sequence[str] = (), prefix: str = "") -> dict[str, Any]:
    """Every key of a configuration class with its type; sections are entered."""
    keys: dict[str, Any] = {}
    for name, kind in get_type_hints(config, include_extras=True).items():
        if name in apart:
            continue
        if is_section(kind):
            keys.update(keys_of(kind, (), f"{prefix}{name}."))
        else:
            keys[prefix + name] = kind
    return keys


def file_layer(path: Path, keys: Keys) -> Layer:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    layer: Layer = {}
    _flatten(table, "", keys, str(path), layer)
    return layer


def _flatten(
    table: Mapping[str, object], prefix: str, keys: Keys, origin: str, layer: Layer
) -> None:
    for name, raw in table.items():
        key = prefix + name
        if key in keys:
            layer[key] = Setting(raw, False, origin)
        elif not _is_prefix(key, keys):
            raise _unknown(key, origin, keys)
        elif isinstance(raw, dict):
            _flatten(raw, f"{key}.", keys, origin, layer)
        else:
            raise ConfigError(f"{key} = {raw!r} ({origin}): allowed: a table")


def environment_layer(environment: Mapping[str, str], keys: Keys) -> tuple[Layer, tuple[str, ...]]:
    """Settings of the environment, and warnings of names that look like one and are none.

    A wrong name in a known section is refused. Others are let be: a container platform sets
    `WARREN_PORT_5672_TCP` and the like for a service of that name.
    """
    by_name = {ENVIRONMENT_PREFIX + key.upper().replace(".", "_"): key for key in keys}
    sections = {name.split("_")[1] for name, key in by_name.items() if "." in key}
    layer: Layer = {}
    warnings: list[str] = []
    for name in sorted(environment):
        if name.startswith(RABBITMQ_PREFIX):
            key = RABBITMQ_NAMES.get(name.removesuffix("_FILE"))
            if key is None:
                warnings.append(f"environment variable {name} of RabbitMQ was not used")
            else:
                layer[key] = Setting(_rabbitmq_text(name, environment[name]), True, name)
            continue
        if not name.startswith(ENVIRONMENT_PREFIX) or name in ENVIRONMENT_APART:
            continue
        if name in by_name:
            layer[by_name[name]] = Setting(environment[name], True, name)
        elif name.split("_")[1] in sections and "_SERVICE_" not in name and "_PORT" not in name:
            section = "_".join(name.split("_")[:2]) + "_"
            near = _nearest(name, by_name, section)
            raise ConfigError(f"unknown key {name} (environment): allowed: {near}")
        else:
            warnings.append(f"environment variable {name} is not a setting and was not used")
    return layer, tuple(warnings)


def _rabbitmq_text(name: str, text: str) -> str:
    """The value of a variable of RabbitMQ's image; of one that ends in _FILE, the file's line."""
    if not name.endswith("_FILE"):
        return text
    try:
        return revealed(f"file:{text}")
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def set_layer(sets: Sequence[str], keys: Keys) -> Layer:
    layer: Layer = {}
    for each in sets:
        key, separator, text = each.partition("=")
        key = key.strip()
        if not separator:
            raise ConfigError(f"--set {each}: allowed: KEY=VALUE")
        if key not in keys:
            raise _unknown(key, "--set", keys)
        layer[key] = Setting(text.strip(), True, "--set")
    return layer


def flag_layer(flags: Mapping[str, object]) -> Layer:
    return {key: Setting(raw, True, "command line") for key, raw in flags.items()}


def merged(layers: Iterable[Layer], keys: Keys) -> dict[str, object]:
    """The values of the keys that were set; of a key set twice, the last. All are checked."""
    values: dict[str, object] = {}
    for layer in layers:
        for key, setting in layer.items():
            values[key] = _value(key, setting, keys[key])
    return values


def build(config: type[T], values: Mapping[str, object], prefix: str = "") -> T:
    """An object of a configuration class with these values and, for the rest, its defaults."""
    arguments: dict[str, object] = {}
    for name, kind in get_type_hints(config, include_extras=True).items():
        key = prefix + name
        if is_section(kind):
            arguments[name] = build(kind, values, f"{key}.")
        elif key in values:
            arguments[name] = values[key]
    return config(**arguments)


def parse_address(text: str) -> Address:
    """HOST:PORT, with an IPv6 host in brackets; ValueError says what is wrong."""
    host, separator, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    whole = separator and bare and port.isascii() and port.isdigit()
    if not whole or int(port) > 65535 or (":" in bare) != (host != bare):
        raise ValueError(f"'{text}' is not HOST:PORT")
    return Address(bare, int(port))


def parse_byte_count(text: str) -> int:
    """`256MiB`, `50 MB`, `4096`; a bare letter counts in 1024s."""
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text.strip()[len(digits) :].strip().lower()
    if not (digits.isascii() and digits.isdigit()) or unit not in BYTE_UNITS:
        raise ValueError(f"'{text}' is not a number of bytes")
    return int(digits) * BYTE_UNITS[unit]


def is_section(kind: object) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _is_prefix(key: str, keys: Keys) -> bool:
    return any(known.startswith(f"{key}.") for known in keys)


def _unknown(key: str, origin: str, keys: Keys) -> ConfigError:
    section = key.partition(".")[0] + "."
    return ConfigError(f"unknown key {key} ({origin}): allowed: {_nearest(key, keys, section)}")


def _nearest(key: str, known: Iterable[str], section: str) -> str:
    """Names like it, or else all of its section, or else what sections there are."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(key, names, n=3, cutoff=0.75)
    beside = [name for name in names if name.startswith(section)]
    heads = dict.fromkeys(name.partition(".")[0] + ".*" * ("." in name) for name in names)
    return ", ".join(near or beside or heads)


def _value(key: str, setting: Setting, kind: Any) -> object:
    try:
        raw = _read_text(str(setting.raw), kind) if setting.is_text else setting.raw
        return msgspec.convert(_shaped(raw, kind), kind, dec_hook=_decode_path)
    except (ValueError, msgspec.ValidationError) as error:
        shown = f"{key} = {setting.raw!r}"
        if key == "users" or "pass" in key or is_secret(kind):
            shown = key  # Passwords do not go into a log.
        raise ConfigError(
            f"{shown} ({setting.origin}): {error}; allowed: {_allowed(kind)}"
        ) from error


def _decode_path(kind: type, raw: object) -> object:
    if kind is Path and isinstance(raw, str) and raw:
        return Path(raw)
    raise ValueError("not a path")


def _read_text(text: str, kind: Any) -> object:
    """What TOML would have given for this text in a field of this type."""
    bare = _bare(kind)
    if bare in (str, Path, Address) or get_origin(bare) is Literal or _counts_bytes(kind):
        return text
    if get_origin(bare) is tuple and not text.startswith("["):
        element = get_args(bare)[0]
        return [_read_text(part.strip(), element) for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def revealed(raw: str) -> str:
    """A secret that is written here, encrypted or not, in a file, or in the environment;
    ValueError: it is not there.

    What begins with `plain:` is the rest of it, whatever that looks like.
    """
    how, separator, where = raw.partition(":")
    if how == "file" and separator:
        try:
            with open(where, encoding="utf-8") as file:
                lines = file.read(SECRET_BYTES_MAX).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read {where}: {error}") from error
        if not lines or not lines[0]:
            raise ValueError(f"{where} begins with an empty line")
        return lines[0]
    if how == "env" and separator:
        if where not in os.environ:
            raise ValueError(f"the environment has no {where}")
        return os.environ[where]
    if how == "encrypted" and separator:
        return decrypt(where, passphrase())
    return where if how == "plain" and separator else raw


def passphrase() -> str:
    """That of encrypted values; ValueError: the environment does not say it."""
    text = os.environ.get(PASSPHRASE, "")
    if not text:
        raise ValueError(f"the environment has no {PASSPHRASE}")
    return revealed(text) if text.startswith("file:") else text


def is_secret(kind: Any) -> bool:
    return any((meta.extra or {}).get("secret") for meta in _metas(kind))


def _shaped(raw: object, kind: Any) -> object:
    """The same, with our own notations (HOST:PORT, 256MiB) taken apart, and names checked."""
    bare = _bare(kind)
    if isinstance(raw, str) and is_secret(kind):
        return revealed(raw)
    if isinstance(raw, str) and bare is Address:
        address = parse_address(raw)
        return {"host": address.host, "port": address.port}
    if bare is Address:
        raise ValueError("not HOST:PORT")
    if isinstance(raw, str) and _counts_bytes(kind):
        return parse_byte_count(raw)
    if isinstance(raw, list) and get_origin(bare) is tuple:
        return [_shaped(each, get_args(bare)[0]) for each in raw]
    if isinstance(raw, dict) and is_section(bare):
        hints = get_type_hints(bare, include_extras=True)
        for name in raw:
            if name not in hints:
                raise ValueError(f"unknown key {name}, known are {', '.join(hints)}")
        return {name: _shaped(each, hints[name]) for name, each in raw.items()}
    return raw


def _bare(kind: Any) -> Any:
    """The type without Annotated and without None."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return _bare(inner)
    return kind


def _metas(kind: Any) -> list[Meta]:
    if get_origin(kind) in (Union, UnionType):
        return [meta for each in get_args(kind) for meta in _metas(each)]
    if get_origin(kind) is Annotated:
        return [each for each in get_args(kind)[1:] if isinstance(each, Meta)]
    return []


def _counts_bytes(kind: Any) -> bool:
    return any((meta.extra or {}).get("unit") == _IN_BYTES for meta in _metas(kind))


def _allowed(kind: Any) -> str:
    """In words, what a field of this type takes."""
    bare = _bare(kind)
    if get_origin(bare) is Literal:
        return ", ".join(f"'{each}'" for each in get_args(bare))
    if get_origin(bare) is tuple:
        inner = [each for each in get_args(bare) if each is not Ellipsis]
        count = "a list of" if Ellipsis in get_args(bare) else f"a list of {len(inner)}:"
        return f"{count} {_allowed(inner[0])}"
    if is_section(bare):
        needed = [each.name for each in fields(bare) if each.required]
        return f"tables with {', '.join(each.name for each in fields(bare))} ({needed[0]} needed)"
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        Path: "a path",
    }
    word = "HOST:PORT" if bare is Address else words.get(bare, str(bare))
    if _counts_bytes(kind):
        word = "a number of bytes such as 1048576, '1MiB' or '1MB'"
    return word + "".join(_bounds(_metas(kind)))


def _bounds(metas: Sequence[Meta]) -> list[str]:
    words: list[str] = []
    for meta in metas:
        words += [f" >= {meta.ge}"] if meta.ge is not None and meta.ge != 0 else []
        words += [f" <= {meta.le}"] if meta.le is not None else []
        words += [f" like {meta.pattern}"] if meta.pattern is not None else []
    return words

"""Writes the pages of the manual that are derived from the sources: settings, commands, HTTP API.

    python tools/reference.py            # write the pages in docs/guide
    python tools/reference.py --check    # exit with 1 if they are not what it would write

A setting's text is the comment beside or above its field; a command's is its help.
"""

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta
from msgspec.structs import FieldInfo, fields

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from node.__main__ import make_parser as server_parser  # noqa: E402
from node.cli.warrenctl import TABLES  # noqa: E402
from node.config.config_layers import is_section  # noqa: E402
from node.config.settings import Config  # noqa: E402
from node.management.schema.document import all_operations  # noqa: E402

PAGES: Final = ROOT / "docs" / "guide"
WIDTH: Final = 118
LINES: Final = textwrap.TextWrapper(
    WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
)
CONFIGURATION: Final = """# Settings

A node reads one TOML file (`warren server --config FILE`). Every key can also be given as
`--set key=value`, and in the environment as `WARREN_` and the key in capitals with `_` for `.`:
`limits.frame_max` is `WARREN_LIMITS_FRAME_MAX`. Flags win over `--set`, that over the environment,
that over the file. A key or value that is not understood stops the start with what is allowed.
`warren convert-config rabbitmq.conf` writes such a file from one of RabbitMQ.

This page is made by `tools/reference.py`.
"""
COMMANDS: Final = """# Commands

Both programs print this by `--help`. This page is made by `tools/reference.py`.
"""


HTTP_API: Final = """# HTTP API

Requests, bodies and answers are those of RabbitMQ's management plug-in, with what Warren has
besides. The API listens on `listeners.management` (port 15672) and takes Basic authentication, or
access tokens as `Authorization: Bearer`. A node answers for the whole cluster.

```bash
curl -s -u guest:guest http://localhost:15672/api/overview
curl -s -u guest:guest -X PUT http://localhost:15672/api/queues/%2F/orders -d '{"durable": true}'
curl -s -u guest:guest 'http://localhost:15672/api/queues?columns=name,messages&sort=messages'
```

Errors are JSON, such as `{"error": "not_found", "reason": "Not Found"}`: 400 for bad input, with
what is allowed; 401 without a login; 403 without rights; 404 for what is not there; 409 for a
conflict; 413 for a body that is too large; 503 while no majority of the nodes runs or an alarm
blocks publishing.

The web page shows all fields of bodies and answers (API, or `/api/index.html`);
`/api/openapi.json` has them for programs. The last column names the
tag that a user needs at least; queues and exchanges also need permissions in their vhost. This
page is made by `tools/reference.py`.
"""


def comments_of(section: type) -> dict[str, str]:
    """By field of the class: the comment above it and beside it."""
    lines = textwrap.dedent(inspect.getsource(section)).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for each in tree.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            above: list[str] = []
            at = each.lineno - 2
            while lines[at].strip().startswith("#"):
                above.insert(0, lines[at].strip().lstrip("# "))
                at -= 1
            assert each.end_lineno is not None
            _, mark, beside = lines[each.end_lineno - 1].partition("  # ")
            found[each.target.id] = " ".join([*above, beside] if mark else above).strip()
    return found


def default_of(field: FieldInfo) -> str:
    if field.name == "name" and field.default_factory is not NODEFAULT:
        return "`warren@HOST`"
    if field.default_factory is not NODEFAULT:
        value = field.default_factory()
    else:
        value = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (tuple, list)):
        return ", ".join(f"`{each}`" for each in value) or "none"
    return f"`{value}`" if str(value) else "empty"


def allowed_for(kind: Any) -> str:
    """The values that a type allows, as far as it says; "": any of its kind."""
    if get_origin(kind) in (UnionType, Union):
        return next((found for found in map(allowed_for, get_args(kind)) if found), "")
    if get_origin(kind) is Literal:
        return ", ".join(f"`{each}`" if each else "empty" for each in get_args(kind))
    if get_origin(kind) is tuple and get_args(kind)[1:] == (Ellipsis,):
        found = allowed_for(get_args(kind)[0])
        return f"some of {found}" if found else ""
    if kind is bool:
        return "`true`, `false`"
    if get_origin(kind) is not Annotated:
        return ""
    lowest = highest = None
    for meta in kind.__metadata__:
        if isinstance(meta, Meta):
            lowest = meta.ge if lowest is None else lowest
            highest = meta.le if highest is None else highest
    if highest is not None:
        return f"{lowest or 0} to {highest}"
    return "" if lowest is None else f"at least {lowest}"


def sections(config: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """The sections with their names, the outermost first."""
    yield prefix, config
    for name, kind in get_type_hints(config).items():
        if is_section(kind):
            yield from sections(kind, f"{prefix}{name}.")


def configuration() -> str:
    parts = [CONFIGURATION]
    for prefix, section in sections(Config):
        rows = list(rows_of(prefix, section))
        if rows:
            name = prefix.rstrip(".") or "At the top of the file"
            purpose = "" if section is Config else inspect.getdoc(section) or ""
            title = f"## `{name}`" if prefix else f"## {name}"
            parts.append("\n".join([title, "", *([purpose, ""] if purpose else []), *rows, ""]))
    return "\n".join(parts)


def rows_of(prefix: str, section: type) -> Iterator[str]:
    comments = comments_of(section)
    hints = get_type_hints(section, include_extras=True)
    for field in fields(section):
        kind = hints[field.name]
        if field.name == "warnings" or is_section(kind):
            continue
        allowed = allowed_for(kind)
        text = comments[field.name]
        if not text:
            sys.exit(f"{prefix}{field.name}: a setting needs a comment, for the manual")
        facts = [f"Default: {default_of(field)}", *([f"allowed: {allowed}"] if allowed else [])]
        line = f"- `{prefix}{field.name}`: {sentence(text)} {'; '.join(facts)}."
        yield "\n".join(LINES.wrap(line))


def commands() -> str:
    parts = [COMMANDS, "## warren\n", *described("warren", server_parser()), "## warrenctl\n"]
    for title, table in TABLES:
        parts.append(f"### {title.capitalize()}\n")
        for name, row in table.items():
            text = f"- `{name}`: {row.help}"
            parts.extend(textwrap.wrap(text, WIDTH, subsequent_indent="  "))
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def described(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """The usage of every command behind a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for command, inner in sorted(action.choices.items()):
                if command in helps and helps[command] != argparse.SUPPRESS:
                    yield f"### {name} {command}\n"
                    if helps[command]:
                        yield "\n".join(textwrap.wrap(sentence(helps[command]), WIDTH)) + "\n"
                    yield f"```text\n{usage_of(inner)}\n```\n"


def sentence(text: str) -> str:
    text = text.replace("%%", "%")
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def usage_of(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    for group in parser._action_groups:
        formatter.start_section(group.title)
        formatter.add_arguments(
            each for each in group._group_actions if "--help" not in each.option_strings
        )
        formatter.end_section()
    return formatter.format_help().rstrip()


def http_api() -> str:
    """A table for each part, of its operations."""
    parts = [HTTP_API.rstrip()]
    last = ""
    for part, each in all_operations():
        if part != last:
            title = part.replace("_", " ").capitalize()
            parts.append(f"\n## {title}\n\n| Request | Purpose | User's tag |\n|---|---|---|")
            last = part
        summary = each.summary.replace("|", "\\|")
        parts.append(f"| `{each.method} {each.path}` | {summary} | {each.rights} |")
    return "\n".join(parts) + "\n"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    stale = 0
    pages = {
        "configuration.md": configuration(),
        "commands.md": commands(),
        "http-api.md": http_api(),
    }
    for name, text in pages.items():
        path = PAGES / name
        if check and (not path.exists() or path.read_text("utf-8") != text):
            print(f"{path.relative_to(ROOT)} is stale: run tools/reference.py", file=sys.stderr)
            stale = 1
        elif not check:
            path.write_text(text, "utf-8")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())

"""`warrenctl completion bash|zsh|fish`: a script that completes commands, options and columns.

    warrenctl completion bash > /etc/bash_completion.d/warrenctl
    warrenctl completion zsh > "${fpath[1]}/_warrenctl"
    warrenctl completion fish > ~/.config/fish/completions/warrenctl.fish

Made from the parser of arguments, so that it knows all that there is. It asks no node.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")

# What the shells are given: $1 the words of the tool, then a case for each command.
BASH: Final = """\
# Completion of warrenctl for bash; made by `warrenctl completion bash`.
_warrenctl() {
    local current="${COMP_WORDS[COMP_CWORD]}" command="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in
            -*) ;;
            COMMANDS) command="$word" ;;
        esac
    done
    local words="GLOBALS"
    case "$command" in
        "") words="$words NAMES" ;;
CASES    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _warrenctl warrenctl
"""
ZSH: Final = """\
#compdef warrenctl
# Completion of warrenctl for zsh; made by `warrenctl completion zsh`.
_warrenctl() {
    local command="" word
    for word in "${words[@]:1:$((CURRENT-2))}"; do
        case "$word" in
            -*) ;;
            COMMANDS) command="$word" ;;
        esac
    done
    local -a known
    known=(GLOBALS)
    case "$command" in
        "") known+=(NAMES) ;;
CASES    esac
    compadd -a known
    _files
}
_warrenctl "$@"
"""


@dataclass(frozen=True, slots=True)
class Words:
    """What may follow a command, and what it does."""

    help: str
    words: tuple[str, ...]


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of SHELLS."""
    globals_, commands = words_of(parser)
    if shell == "fish":
        return fish(globals_, commands)
    append = 'words="$words {}"' if shell == "bash" else "known+=({})"
    cases = "".join(
        f"        {name}) {append.format(' '.join(each.words))} ;;\n"
        for name, each in commands.items()
        if each.words
    )
    text = BASH if shell == "bash" else ZSH
    return (
        text.replace("COMMANDS)", "|".join(commands) + ")")
        .replace("GLOBALS", " ".join(globals_))
        .replace("NAMES", " ".join(commands))
        .replace("CASES", cases)
    )


def fish(globals_: tuple[str, ...], commands: Mapping[str, Words]) -> str:
    lines = ["# Completion of warrenctl for fish; made by `warrenctl completion fish`."]
    lines.append(f"set -l commands {' '.join(commands)}")
    lines += [f"complete -c warrenctl {fish_option(each)}" for each in globals_]
    none = "not __fish_seen_subcommand_from $commands"
    for name, each in commands.items():
        words = each.help.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c warrenctl -f -n '{none}' -a {name} -d '{words}'")
        given = f"__fish_seen_subcommand_from {name}"
        for word in each.words:
            kind = fish_option(word) if word.startswith("-") else f"-a {word}"
            lines.append(f"complete -c warrenctl -n '{given}' {kind}")
    return "\n".join(lines) + "\n"


def fish_option(word: str) -> str:
    return f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"


def words_of(parser: argparse.ArgumentParser) -> tuple[tuple[str, ...], dict[str, Words]]:
    """Options of the tool, and the commands with what may follow each."""
    commands: dict[str, Words] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                commands[name] = Words(each.description or "", followers(each))
    return options_of(parser), commands


def options_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(option for action in parser._actions for option in action.option_strings)


def followers(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Options, values that may be chosen from, and columns of a list."""
    found = list(options_of(parser))
    for action in parser._actions:
        if action.choices is not None and not action.option_strings:
            found += [str(each) for each in action.choices]
    if parser.epilog and parser.epilog.startswith("columns: "):
        found += parser.epilog.removeprefix("columns: ").split()
    return tuple(found)

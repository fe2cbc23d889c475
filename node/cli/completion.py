"""`warrenctl completion bash|zsh|fish`: a script that completes commands, options, columns, names.

    warrenctl completion bash > /etc/bash_completion.d/warrenctl
    warrenctl completion zsh > "${fpath[1]}/_warrenctl"
    warrenctl completion fish > ~/.config/fish/completions/warrenctl.fish

Made from the parser of arguments, so that it knows all that there is. Names of queues, users and so
on are asked of the node when they are completed; one that does not answer within 2 s has none.
"""

import argparse
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

SHELLS: Final = ("bash", "zsh", "fish")

# What the shells are given: the words of the tool, then a case for each command.
ASK: Final = "warrenctl -q -s -t 2"  # the first column is the name
IN_VHOST: Final = '-p "$vhost" '
NAMES_OF: Final = {  # lists of what an argument may name
    "queue": f"list_queues {IN_VHOST}name",
    "stream": f"list_queues {IN_VHOST}name",
    "exchange": f"list_exchanges {IN_VHOST}name",
    "username": "list_users user",
}
BASH: Final = """\
# Completion of warrenctl for bash; made by `warrenctl completion bash`.
_warrenctl() {
    local current="${COMP_WORDS[COMP_CWORD]}" command="" word before="" vhost="/"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$before" in -p|--vhost) vhost="$word" ;; esac
        before="$word"
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
    local command="" word before="" vhost="/"
    for word in "${words[@]:1:$((CURRENT-2))}"; do
        case "$before" in -p|--vhost) vhost="$word" ;; esac
        before="$word"
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


class Words(Struct, frozen=True):
    """What may follow a command, and what it does."""

    help: str
    words: tuple[str, ...]
    lists: tuple[str, ...]  # of NAMES_OF: commands whose answers may follow


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for one of SHELLS."""
    globals_, commands = words_of(parser)
    if shell == "fish":
        return fish(globals_, commands)
    append = 'words="$words {}"' if shell == "bash" else "known+=({})"
    cases = "".join(
        f"        {name}) {append.format(' '.join([*each.words, *asked(shell, each)]))} ;;\n"
        for name, each in commands.items()
        if each.words or each.lists
    )
    text = BASH if shell == "bash" else ZSH
    return (
        text.replace("COMMANDS)", "|".join(commands) + ")")
        .replace("GLOBALS", " ".join(globals_))
        .replace("NAMES", " ".join(commands))
        .replace("CASES", cases)
    )


def asked(shell: str, each: Words) -> list[str]:
    """What has the shell ask the node for names, one on each line of the answer."""
    form = "$({})" if shell == "bash" else '${{(f)"$({})"}}'
    return [form.format(f"{ASK} {words} 2>/dev/null | cut -f 1") for words in each.lists]


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
        for listed in each.lists:
            call = f"{ASK} {listed.replace(IN_VHOST, '')} 2>/dev/null | cut -f 1"
            lines.append(f"complete -c warrenctl -f -n '{given}' -a '({call})'")
    return "\n".join(lines) + "\n"


def fish_option(word: str) -> str:
    return f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"


def words_of(parser: argparse.ArgumentParser) -> tuple[tuple[str, ...], dict[str, Words]]:
    """Options of the tool, and the commands with what may follow each."""
    commands: dict[str, Words] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                commands[name] = Words(each.description or "", followers(each), lists_of(each))
    return options_of(parser), commands


def options_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(option for action in parser._actions for option in action.option_strings)


def lists_of(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Of the names that its arguments take, each once."""
    places = [NAMES_OF.get(action.dest) for action in parser._actions]
    return tuple(dict.fromkeys(place for place in places if place is not None))


def followers(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Options, values that may be chosen from, and columns of a list."""
    found = list(options_of(parser))
    for action in parser._actions:
        if action.choices is not None and not action.option_strings:
            found += [str(each) for each in action.choices]
    if parser.epilog and parser.epilog.startswith("columns: "):
        found += parser.epilog.removeprefix("columns: ").split()
    return tuple(found)

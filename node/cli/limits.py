"""`list_vhost_limits` and `list_user_limits` of `warrenctl`: of one as JSON, of all in rows."""

import json
from collections.abc import Callable
from typing import Final, TextIO

from node.cli.api import Api
from node.cli.tables import write_json
from node.cli.verbs import Argument, Commands, Options, Verb, announce, path, show

GLOBAL: Final = Argument("--global", is_flag=True)


def lists(kind: str, owner: str, option: str) -> Callable[[Api, Options, TextIO], None]:
    """As rabbitmqctl does: `--global`, or no name, is all of them."""

    def run(api: Api, options: Options, out: TextIO) -> None:
        named = getattr(options, option)
        if named and not getattr(options, "global"):
            announce(f'Listing limits for {owner} "{{{option}}}" ...', options, out)
            rows = api.get_list(path(kind, named))
            value = rows[0].get("value") if rows else {}
            if options.formatter == "json":
                write_json(value, out)
            else:
                print(json.dumps(value), file=out)
            return
        announce(f"Listing limits for all {owner}s ...", options, out)
        show(api.get_list(path(kind)), (owner, "value"), options, out)

    return run


LIMITS: Final[Commands] = {
    "list_vhost_limits": Verb(
        "the limits of a vhost, or of all",
        "",
        (GLOBAL,),
        lists("vhost-limits", "vhost", "vhost"),
        True,
    ),
    "list_user_limits": Verb(
        "the limits of a user, or of all",
        "",
        (Argument("--username", ""), GLOBAL),
        lists("user-limits", "user", "username"),
    ),
}

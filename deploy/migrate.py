"""Migrate from RabbitMQ to Warren by queue federation, while publishers and consumers run.

    python deploy/migrate.py check  --old http://USER:PASSWORD@old:15672 --new http://...:15672
    python deploy/migrate.py start  --old ... --new ... --upstream amqp://USER:PASSWORD@old:5672
    python deploy/migrate.py status --old ... --new ...
    python deploy/migrate.py wait   --old ... --new ...
    python deploy/migrate.py finish --old ... --new ...

`start` and `finish` take `--dry-run`: they print what they would change, and change nothing. The
old cluster is only read. docs/guide/migration.md has the order of the steps. Needs Python 3.11 and
no package. Exit status: 0 done, 1 a check failed, 2 wrong arguments, 3 a broker did not answer.
"""

import argparse
import base64
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

UPSTREAM: Final = "migration"
COMPONENT: Final = "federation-upstream"
KINDS: Final = {"migration-classic": "classic_queues", "migration-quorum": "quorum_queues"}
FOR_QUEUES: Final = {
    "migration-classic": ("all", "queues", "classic_queues"),
    "migration-quorum": ("all", "queues", "quorum_queues"),
}
ABOVE: Final = 1_000_000  # priority of the policies of the migration, above those of the user
LEFT_OUT: Final = ("cluster_name", "internal_cluster_id")  # the new cluster keeps its identity
MOVERS: Final = (COMPONENT, "federation-upstream-set", "shovel")
FEDERATION_KEYS: Final = (COMPONENT, "federation-upstream-set", "federation-upstream-pattern")
RESERVED: Final = "amq."  # generated names: queues that are never federated
TIMEOUT_S: Final = 60.0
SHOWN_MAX: Final = 20

Row = dict[str, Any]
Left = dict[tuple[str, str], int | None]


class Failed(Exception):
    """A check failed; the text is for the operator."""


class Unanswered(Exception):
    """A broker cannot be reached, or refuses a request."""


class Api:
    """The HTTP API of one cluster. The password is never printed."""

    def __init__(self, side: str, url: str) -> None:
        parts = urlsplit(url)
        self.side = side
        self.user = unquote(parts.username or "guest")
        pair = f"{self.user}:{unquote(parts.password or 'guest')}".encode()
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/json",
        }

    def ask(self, method: str, path: str, body: object = None) -> Any:
        raw = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/api{path}", raw, self._headers, method=method)
        where = f"{self.side} cluster: {method} {self._url}/api{path}"
        try:
            with urlopen(request, timeout=TIMEOUT_S) as reply:
                text = reply.read()
        except HTTPError as error:
            with error:
                reason = error.read().decode(errors="replace")[:500]
            raise Unanswered(f"{where}: status {error.code}: {reason}") from None
        except (URLError, OSError) as error:
            raise Unanswered(f"{where}: {error}") from None
        return json.loads(text) if text else None

    def get(self, path: str) -> Any:
        return self.ask("GET", path)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parsed(arguments)
    old, new = Api("old", given.old), Api("new", given.new)
    try:
        if given.step == "check":
            check(old, new)
        elif given.step == "start":
            start(old, new, given.upstream, given.prefetch, given.dry_run)
        elif given.step == "status":
            show(old, new)
        elif given.step == "wait":
            wait(old, new, given.quiet, given.timeout)
        else:
            finish(old, new, given.quiet, given.dry_run)
    except Failed as error:
        print(f"migrate: {error}", file=sys.stderr)
        return 1
    except Unanswered as error:
        print(f"migrate: {error}", file=sys.stderr)
        return 3
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="migrate.py", description="Migrate from RabbitMQ to Warren by queue federation."
    )
    parser.add_argument("step", choices=("check", "start", "status", "wait", "finish"))
    parser.add_argument("--old", required=True, help="HTTP API of RabbitMQ, with user and password")
    parser.add_argument("--new", required=True, help="HTTP API of Warren, with user and password")
    parser.add_argument("--upstream", help="AMQP URI of RabbitMQ without vhost, for Warren's nodes")
    parser.add_argument("--prefetch", type=int, default=1000, help="prefetch of each link")
    parser.add_argument("--quiet", type=float, default=15.0, help="seconds without a message")
    parser.add_argument("--timeout", type=float, default=86_400.0, help="seconds that `wait` lasts")
    parser.add_argument("--dry-run", action="store_true", help="print the changes only")
    given = parser.parse_args(arguments)
    if given.step == "start" and not given.upstream:
        parser.error("start needs --upstream")
    if given.upstream and urlsplit(given.upstream).path.strip("/"):
        parser.error("--upstream has a vhost: leave it out, each link uses the vhost of its queue")
    return given


# Steps


def check(old: Api, new: Api) -> Row:
    """Print what does not move; return the definitions of the old cluster. Changes nothing."""
    definitions: Row = old.get("/definitions")
    if old.get("/cluster-name")["name"] == new.get("/cluster-name")["name"]:
        raise Failed("both clusters have the same name: change one with `set_cluster_name`")
    federated = [each for each in definitions["policies"] if uses_federation(each)]
    if federated:
        names = ", ".join(f"'{each['name']}' in vhost '{each['vhost']}'" for each in federated)
        raise Failed(f"policies of the old cluster use federation: {names}: remove them first")
    for text in not_moved(definitions, old, new):
        print(f"note: {text}")
    counts = ", ".join(
        f"{len(definitions.get(kind, []))} {kind}"
        for kind in ("vhosts", "users", "queues", "exchanges", "bindings", "policies")
    )
    messages = sum(each["messages"] or 0 for each in queues(old).values())
    print(f"old cluster: {counts}; {messages} messages in queues that move")
    return definitions


def start(old: Api, new: Api, upstream: str, prefetch: int, dry_run: bool) -> None:
    """Import the definitions with an upstream and policies for all queues."""
    definitions = check(old, new)
    wanted = prepared(definitions, new.user, upstream, prefetch)
    added = [each["name"] for each in wanted["policies"] if is_ours(each)]
    print(f"import into the new cluster: {len(wanted['queues'])} queues, {len(added)} policies")
    for each in wanted["policies"]:
        if is_ours(each):
            print(f"  policy '{each['name']}' in vhost '{each['vhost']}'")
    for each in wanted["parameters"]:
        if each["component"] == COMPONENT:
            print(f"  upstream '{each['name']}' in vhost '{each['vhost']}'")
    if dry_run:
        print("dry run: nothing was changed")
        return
    new.ask("POST", "/definitions", wanted)
    verify(wanted, new.get("/definitions"))
    print("done: every vhost, queue, exchange and binding exists in the new cluster")
    print("next: `status` until all links run; then move consumers, then publishers")


def show(old: Api, new: Api) -> None:
    """Print messages and consumers of every queue that has some, and the links."""
    before, after = queues(old), queues(new)
    print(f"{'vhost':20} {'queue':40} {'old':>10} {'consumers':>10} {'new':>10} {'consumers':>10}")
    for key in sorted(before):
        there, here = before[key], after.get(key, {"messages": 0, "consumers": 0})
        if there["messages"] or there["consumers"] or here["messages"] or here["consumers"]:
            print(
                f"{key[0]:20} {key[1]:40} {shown(there['messages']):>10} {there['consumers']:10}"
                f" {shown(here['messages']):>10} {here['consumers']:10}"
            )
    links = [each for each in new.get("/federation-links") if each["upstream"] == UPSTREAM]
    states = Counter(each["status"] for each in links)
    print("links: " + (", ".join(f"{n} {state}" for state, n in sorted(states.items())) or "none"))
    for each in [each for each in links if each["status"] != "running"][:SHOWN_MAX]:
        print(f"  {each.get('queue', '')}: {each['status']}: {each.get('error', '')}")


def wait(old: Api, new: Api, quiet_s: float, timeout_s: float) -> None:
    """Return when the queues of the old cluster were empty for `quiet_s`.

    RabbitMQ refreshes the counts of its API every 5 seconds: `quiet_s` must be longer.
    """
    end = time.monotonic() + timeout_s
    empty_since = None
    while True:
        left = remaining(old)
        now = time.monotonic()
        empty_since = None if left else empty_since or now
        if empty_since is not None and now - empty_since >= quiet_s:
            print(f"done: the queues of the old cluster were empty for {quiet_s:g} seconds")
            return
        if now > end:
            raise Failed(f"after {timeout_s:g} seconds: {listed(left, queues(new))}")
        if left:
            count = sum(filter(None, left.values()))
            print(f"{count} messages in {len(left)} queues of the old cluster")
        time.sleep(min(5.0, max(0.2, quiet_s / 5)))


def finish(old: Api, new: Api, quiet_s: float, dry_run: bool) -> None:
    """Remove upstreams and policies of the migration. Refused while messages are left."""
    stays_empty(old, new, 0 if dry_run else quiet_s)
    paths = [
        f"/policies/{quoted(each['vhost'])}/{quoted(each['name'])}"
        for each in new.get("/policies")
        if is_ours(each)
    ]
    paths += [
        f"/parameters/{COMPONENT}/{quoted(each['vhost'])}/{UPSTREAM}"
        for each in new.get(f"/parameters/{COMPONENT}")
        if each["name"] == UPSTREAM
    ]
    for path in paths:
        print(f"delete {path}")
        if not dry_run:
            new.ask("DELETE", path)
    if dry_run:
        print("dry run: nothing was changed")
        return
    stays_empty(old, new, quiet_s)
    print("done: the old cluster can be stopped")


def stays_empty(old: Api, new: Api, quiet_s: float) -> None:
    """Look for messages in the old cluster for `quiet_s`: counts of its API are seconds old."""
    end = time.monotonic() + quiet_s
    while True:
        left = remaining(old)
        if left:
            raise Failed(listed(left, queues(new)))
        if time.monotonic() >= end:
            return
        time.sleep(min(1.0, quiet_s))


# Definitions


def prepared(definitions: Row, user: str, upstream: str, prefetch: int) -> Row:
    """The definitions for the new cluster."""
    vhosts = [each["name"] for each in definitions["vhosts"]]
    value = {"uri": upstream, "prefetch-count": prefetch, "ack-mode": "on-confirm"}
    kept = [each for each in definitions["parameters"] if each["component"] not in MOVERS]
    ours = [
        {"component": COMPONENT, "vhost": vhost, "name": UPSTREAM, "value": value}
        for vhost in vhosts
    ]
    policies = list(definitions["policies"])
    for vhost in vhosts:
        policies += twins([each for each in definitions["policies"] if each["vhost"] == vhost])
        policies += catch_alls(vhost, policies)
    return definitions | {
        "users": [each for each in definitions["users"] if each["name"] != user],
        "parameters": kept + ours,
        "global_parameters": [
            each
            for each in definitions.get("global_parameters", [])
            if each["name"] not in LEFT_OUT
        ],
        "policies": policies,
    }


def twins(policies: list[Row]) -> Iterator[Row]:
    """Policies for queues once more, with the upstream, above all others.

    The originals stay as they are, so the end of the migration is to delete the twins. Streams and
    exchanges keep the originals.
    """
    for each in policies:
        for prefix, apply_to in KINDS.items():
            if each.get("apply-to", "all") in FOR_QUEUES[prefix]:
                yield each | {
                    "name": f"{prefix}: {each['name']}",
                    "apply-to": apply_to,
                    "priority": each.get("priority", 0) + ABOVE,
                    "definition": each["definition"] | {COMPONENT: UPSTREAM},
                }


def catch_alls(vhost: str, policies: list[Row]) -> list[Row]:
    """Policies for the queues that no other policy matches."""
    priorities = [each.get("priority", 0) for each in policies if each["vhost"] == vhost]
    return [
        {
            "vhost": vhost,
            "name": prefix,
            "pattern": ".*",
            "apply-to": apply_to,
            "priority": min(priorities, default=0) - 1,
            "definition": {COMPONENT: UPSTREAM},
        }
        for prefix, apply_to in KINDS.items()
    ]


def is_ours(policy: Row) -> bool:
    name: str = policy["name"]
    return name in KINDS or name.startswith(tuple(f"{prefix}: " for prefix in KINDS))


def uses_federation(policy: Row) -> bool:
    return not is_ours(policy) and any(key in policy["definition"] for key in FEDERATION_KEYS)


def not_moved(definitions: Row, old: Api, new: Api) -> Iterator[str]:
    """What the operator has to do by hand, or should know."""
    for each in definitions["queues"]:
        if each.get("arguments", {}).get("x-queue-type") == "stream":
            yield f"stream '{each['name']}' in vhost '{each['vhost']}': its messages stay"
    for each in definitions["parameters"]:
        if each["component"] in MOVERS:
            what = f"{each['component']} '{each['name']}' in vhost '{each['vhost']}'"
            yield f"{what}: not imported, so that it does not run in both clusters"
    if any(each["name"] == new.user for each in definitions["users"]):
        yield f"user '{new.user}' is not imported: the new cluster keeps its own"
    for each in old.get("/queues"):
        if is_private(each):
            yield f"queue '{each['name']}' in vhost '{each['vhost']}': exclusive or generated"


def verify(wanted: Row, found: Row) -> None:
    """Compare names and endpoints. The import itself refuses other arguments."""
    for kind, keys in (
        ("vhosts", ("name",)),
        ("queues", ("vhost", "name")),
        ("exchanges", ("vhost", "name", "type")),
        ("bindings", ("vhost", "source", "destination", "destination_type", "routing_key")),
    ):
        there = {tuple(each[key] for key in keys) for each in found[kind]}
        missing = [
            key for key in (tuple(e[key] for key in keys) for e in wanted[kind]) if key not in there
        ]
        if missing:
            raise Failed(f"{len(missing)} {kind} are not in the new cluster: {missing[:SHOWN_MAX]}")


# Queues


def queues(api: Api) -> dict[tuple[str, str], Row]:
    """By vhost and name: those that move. `messages` is None until RabbitMQ has counted them."""
    return {
        (each["vhost"], each["name"]): {
            "messages": each.get("messages"),
            "consumers": each.get("consumers", 0),
        }
        for each in api.get("/queues")
        if not is_private(each) and each.get("type") != "stream"
    }


def is_private(queue: Row) -> bool:
    exclusive = queue.get("exclusive") or queue.get("owner_pid_details")
    return bool(exclusive) or str(queue["name"]).startswith(RESERVED)


def remaining(old: Api) -> Left:
    """Queues that are not known to be empty."""
    return {key: each["messages"] for key, each in queues(old).items() if each["messages"] != 0}


def listed(left: Left, after: dict[tuple[str, str], Row]) -> str:
    """Queues with messages, and whether a consumer in the new cluster pulls them."""
    rows = []
    for (vhost, name), count in sorted(left.items())[:SHOWN_MAX]:
        pulled = after.get((vhost, name), {"consumers": 0})["consumers"]
        reason = "" if pulled else ", no consumer in the new cluster: move them with a shovel"
        rows.append(f"queue '{name}' in vhost '{vhost}': {shown(count)} messages{reason}")
    return f"{len(left)} queues of the old cluster have messages: " + "; ".join(rows)


def shown(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def quoted(text: str) -> str:
    return quote(text, safe="")


if __name__ == "__main__":
    sys.exit(main())

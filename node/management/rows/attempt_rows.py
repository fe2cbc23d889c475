"""What is known of logins, by protocol or by source. Pure."""

from typing import Final

from node.auth.attempts import AttemptLog, Attempts
from node.management.rows.rates import Row

ATTEMPTS: Final = "auth_attempts"  # the question to another node


def attempt_rows(log: AttemptLog, what: str) -> list[Row]:
    """By `protocol` or by `source`; `reset`: start again."""
    if what == "reset":
        log.reset()
        return []
    if what == "source":
        return [
            {"remote_address": address, "username": user, **attempts_row(protocol, counts)}
            for (protocol, address, user), counts in log.by_source.items()
        ]
    return [attempts_row(protocol, counts) for protocol, counts in log.by_protocol.items()]


def attempts_row(protocol: str, counts: Attempts) -> Row:
    return {
        "protocol": protocol,
        "auth_attempts": counts.every,
        "auth_attempts_failed": counts.failed,
        "auth_attempts_succeeded": counts.succeeded,
    }

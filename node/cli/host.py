"""`warren host --nodes N`: N nodes of one machine behind one AMQP address."""

import argparse
import asyncio
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from node.config.settings import Config, ConfigError, load
from node.events import logs
from node.host.plan import NodePlan, plans_of, secret_path
from node.host.supervisor import Host

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 78
SECRET_BYTES: Final = 32


def main(options: argparse.Namespace, file: Path | None, flags: Mapping[str, object]) -> int:
    """Run the nodes until they are stopped; return the exit status."""
    try:
        config = load(file, flags, options.sets, os.environ)
        plans = plans_of(config, options.nodes)
        for plan in plans:  # A mistake is answered here, not by each node.
            load(file, {**flags, **plan.settings}, options.sets, os.environ)
    except ConfigError as error:
        print(f"warren: {error}", file=sys.stderr)
        return EXIT_CONFIG
    try:
        logs.set_up(config.log, config.node.name)
        make_folders(config, plans)
    except OSError as error:
        print(f"warren: {error}", file=sys.stderr)
        return EXIT_FAILED
    return asyncio.run(run_host(plans, common_arguments(file, flags, options.sets)))


async def run_host(plans: list[NodePlan], common: list[str]) -> int:
    return await Host(plans, common).run()


def common_arguments(file: Path | None, flags: Mapping[str, object], sets: list[str]) -> list[str]:
    """What all nodes get; the settings of each come behind it and win."""
    arguments = [] if file is None else ["--config", str(file)]
    for text in (*(f"{key}={value}" for key, value in flags.items()), *sets):
        arguments += ["--set", text]
    return arguments


def make_folders(config: Config, plans: list[NodePlan]) -> None:
    """The data directories, and the secret if there is none. OSError: they cannot be made."""
    for plan in plans:
        plan.data.mkdir(parents=True, exist_ok=True)
    path = secret_path(config)
    if config.cluster.secret_file is None and not path.exists():
        made = path.with_suffix(".new")
        made.touch(mode=0o600)
        made.write_text(secrets.token_hex(SECRET_BYTES))
        made.replace(path)

"""Builds the compiled modules; everything else is in pyproject.toml.

`WARREN_PURE=1`, or a machine without a C compiler, gives a pure build of the same sources.
The modules named here are also run uncompiled, so they may use nothing that only mypyc knows.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

# -O2 makes the code that runs for each message as fast as -O3 and takes 20 % less CPU to compile.
# -Os takes another quarter less, and makes shared objects a third smaller: for the other modules.
OFTEN = "-O2"
SELDOM = "-Os"
# Nothing reads unwind tables, which take 1 MB.
COMPILE = ["-g0", "-w", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"]
# No symbols, and no page of padding between the sections of 190 small files.
LINK = ["-s", "-Wl,-z,noseparate-code"]
MODULES_H = "modules.h"  # includes the declarations of all modules
PYTHON_H = "python.h"
GLIBC = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}

COMPILED_FOR_SIZE = {
    "queues/machine/snapshot_parts.py",
    "queues/hosts/found_state.py",
    "queues/hosts/quorum_snapshot.py",
    "raft/election.py",
    "raft/membership.py",
    "raft/recovery.py",
    "raft/status.py",
    "warren/storage/compaction.py",
    "warren/storage/damage.py",
    "warren/storage/debts.py",
    "warren/storage/found_entries.py",
    "warren/storage/group_damage.py",
    "warren/storage/identify.py",
    "warren/storage/recovery.py",
    "warren/storage/scan.py",
    "warren/storage/upkeep.py",
    "warren/wire/amqp091/methods.py",
    "warren/wire/amqp10/handshake.py",
    "warren/wire/amqp10/performatives.py",
    "warren/wire/peer/handshake.py",
}

COMPILED = [
    "node/amqp10/committing.py",
    "node/amqp10/consuming.py",
    "node/amqp10/endpoint.py",
    "node/amqp10/forms.py",
    "node/amqp10/publishing.py",
    "node/amqp10/sessions.py",
    "node/amqp091/channel.py",
    "node/amqp091/deliveries.py",
    "node/amqp091/endpoint.py",
    "node/amqp091/basic_get.py",
    "node/cluster/peering/link_socket.py",
    "node/cluster/queues/queues_channel.py",
    "node/resources/publish_hold.py",
    "node/events/internal_publisher.py",
    "node/amqp091/publish_plans.py",
    "node/views/queue_weights.py",
    "node/connections/socket_reading.py",
    "node/amqp091/transaction.py",
    "node/turn.py",
    "node/turn_stages.py",
    "queues/machine/address_settings.py",
    "queues/machine/annotations.py",
    "queues/remote/home.py",
    "queues/remote/items.py",
    "queues/remote/peer_queues.py",
    "queues/remote/proxy.py",
    "queues/remote/quorum_proxy.py",
    "queues/remote/remote_interfaces.py",
    "queues/remote/remote_session.py",
    "queues/dead_lettering/dead_letter_schedule.py",
    "queues/runs/columns.py",
    "queues/machine/command_fields.py",
    "queues/machine/commands.py",
    "queues/machine/consumer_limits.py",
    "queues/machine/consumers.py",
    "queues/sessions/counts.py",
    "queues/sessions/balance.py",
    "queues/sessions/credit.py",
    "queues/dead_lettering/dead_letter_limits.py",
    "queues/dead_lettering/dead_letters.py",
    "queues/machine/delays.py",
    "queues/machine/pending_dead_letters.py",
    "queues/machine/effects.py",
    "queues/machine/expiry.py",
    "queues/bodies/extents.py",
    "queues/machine/fifo.py",
    "queues/machine/snapshot_parts.py",
    "queues/queue_host.py",
    "queues/bodies/holes.py",
    "queues/hosts/entry_apply.py",
    "queues/dead_lettering/dead_letter_reads.py",
    "queues/hosts/classic.py",
    "queues/hosts/queue_core.py",
    "queues/hosts/found_state.py",
    "queues/hosts/id_log.py",
    "queues/hosts/journal.py",
    "queues/hosts/quorum_bodies.py",
    "queues/hosts/quorum_entry.py",
    "queues/hosts/quorum_member.py",
    "queues/hosts/quorum_snapshot.py",
    "queues/hosts/body_reads.py",
    "queues/hosts/host_interfaces.py",
    "queues/dead_lettering/at_least_once_worker.py",
    "queues/hosts/sweeping.py",
    "queues/hosts/effect_dispatch.py",
    "queues/hosts/byte_counts.py",
    "queues/dead_lettering/dead_letter_publisher.py",
    "queues/hosts/session_users.py",
    "queues/machine/leaving.py",
    "queues/machine/known_ids.py",
    "queues/machine/last_values.py",
    "queues/machine/time_and_leadership.py",
    "queues/machine/limiter.py",
    "queues/conversion/ingress_times.py",
    "queues/conversion/offset_marks.py",
    "queues/message.py",
    "queues/machine/notes.py",
    "queues/machine/published_numbers.py",
    "queues/machine/options.py",
    "queues/runs/packed_runs.py",
    "queues/bodies/paging.py",
    "queues/sessions/publishing.py",
    "queues/hosts/evaluating.py",
    "queues/selectors/message_fields.py",
    "queues/selectors/sql.py",
    "queues/streams/filtering.py",
    "queues/machine/ready.py",
    "queues/machine/selection.py",
    "queues/machine/selections.py",
    "queues/machine/roster.py",
    "queues/routing/consistent_hash.py",
    "queues/routing/content.py",
    "queues/routing/copies.py",
    "queues/routing/direct.py",
    "queues/routing/fanout.py",
    "queues/routing/hashing.py",
    "queues/routing/headers.py",
    "queues/routing/modulus_hash.py",
    "queues/routing/pace.py",
    "queues/routing/outside.py",
    "queues/routing/random_one.py",
    "queues/routing/router.py",
    "queues/routing/shares.py",
    "queues/routing/topic.py",
    "queues/machine/checked_out.py",
    "queues/runs/seqset.py",
    "queues/bodies/store.py",
    "queues/machine/numbered_sessions.py",
    "queues/machine/ack_timeouts.py",
    "queues/machine/traits.py",
    "queues/sessions/unacked.py",
    "raft/codec.py",
    "raft/core.py",
    "raft/detector.py",
    "raft/election.py",
    "raft/entries.py",
    "raft/group.py",
    "raft/host.py",
    "raft/incoming.py",
    "raft/leading.py",
    "raft/links.py",
    "raft/log.py",
    "raft/log_group.py",
    "raft/membership.py",
    "raft/messages.py",
    "raft/outbox.py",
    "raft/progress.py",
    "raft/proposals.py",
    "raft/quorum.py",
    "raft/ready.py",
    "raft/recovery.py",
    "raft/replica.py",
    "raft/ring.py",
    "raft/ring_view.py",
    "raft/settings.py",
    "raft/status.py",
    "warren/storage/compaction.py",
    "warren/storage/damage.py",
    "warren/storage/debts.py",
    "warren/storage/direct.py",
    "warren/storage/entry_reads.py",
    "warren/storage/files.py",
    "warren/storage/found_entries.py",
    "warren/storage/group_damage.py",
    "warren/storage/group_log.py",
    "warren/storage/identify.py",
    "warren/storage/ledger.py",
    "warren/storage/log.py",
    "warren/storage/opening.py",
    "warren/storage/pace.py",
    "warren/storage/pages.py",
    "warren/storage/places.py",
    "warren/storage/ranges.py",
    "warren/storage/reads.py",
    "warren/storage/recall.py",
    "warren/storage/record.py",
    "warren/storage/recovery.py",
    "warren/storage/scan.py",
    "warren/storage/stretches.py",
    "warren/storage/tally.py",
    "warren/storage/upkeep.py",
    "warren/storage/wal.py",
    "warren/wire/amqp091/client.py",
    "warren/wire/amqp091/client_events.py",
    "warren/wire/amqp091/connection.py",
    "warren/wire/amqp091/contents.py",
    "warren/wire/amqp091/deliver.py",
    "warren/wire/amqp091/events.py",
    "warren/wire/amqp091/fields.py",
    "warren/wire/amqp091/forward.py",
    "warren/wire/amqp091/lane.py",
    "warren/wire/amqp091/methods.py",
    "warren/wire/amqp091/properties.py",
    "warren/wire/amqp091/rewrite.py",
    "warren/wire/amqp091/scanner.py",
    "warren/wire/amqp10/arrivals.py",
    "warren/wire/amqp10/codes.py",
    "warren/wire/amqp10/connection.py",
    "warren/wire/amqp10/deliver.py",
    "warren/wire/amqp10/departures.py",
    "warren/wire/amqp10/descriptors.py",
    "warren/wire/amqp10/dispositions.py",
    "warren/wire/amqp10/errors.py",
    "warren/wire/amqp10/events.py",
    "warren/wire/amqp10/flows.py",
    "warren/wire/amqp10/frames.py",
    "warren/wire/amqp10/gather.py",
    "warren/wire/amqp10/handshake.py",
    "warren/wire/amqp10/limits.py",
    "warren/wire/amqp10/link.py",
    "warren/wire/amqp10/links.py",
    "warren/wire/amqp10/message.py",
    "warren/wire/amqp10/outcomes.py",
    "warren/wire/amqp10/output.py",
    "warren/wire/amqp10/performatives.py",
    "warren/wire/amqp10/reader.py",
    "warren/wire/amqp10/receiver.py",
    "warren/wire/amqp10/rows.py",
    "warren/wire/amqp10/sender.py",
    "warren/wire/amqp10/serial.py",
    "warren/wire/amqp10/session.py",
    "warren/wire/amqp10/settling.py",
    "warren/wire/amqp10/transfers.py",
    "warren/wire/amqp10/windows.py",
    "warren/wire/amqp10/writer.py",
    "warren/wire/errors.py",
    "warren/wire/inplace.py",
    "warren/wire/peer/codes.py",
    "warren/wire/peer/connection.py",
    "warren/wire/peer/frames.py",
    "warren/wire/peer/handshake.py",
    "warren/wire/peer/lanes.py",
    "warren/wire/peer/stream.py",
]


C_FILES_FOR_SIZE = {
    f"__native_{path.removesuffix('.py').replace('/', '___')}.c" for path in COMPILED_FOR_SIZE
}


def compiler_found() -> bool:
    """Whether the compiler that this Python was built for, or any other, is on the path."""
    wanted = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(wanted) is not None


def extensions() -> list[Extension]:
    """Write C for all modules, and describe the extensions that are made of it.

    mypy checks the types in `make lint`, with all libraries installed. Here it reads them only to
    compile: errors outside of the compiled modules do not count, and a library may be absent.
    """
    from mypyc.build import mypycify

    options = ["--follow-imports=silent", "--ignore-missing-imports"]
    return mypycify([*options, *COMPILED], multi_file=True)


class CompileModules(build_ext):
    """Run mypyc, and compile all its C files in parallel, the largest first.

    setup.py is also executed for metadata: mypyc runs here, so that it runs once per build.
    """

    def run(self) -> None:
        if self.distribution.ext_modules:
            say("compiling: mypyc writes C (10 to 20 s)")
            self.distribution.ext_modules = extensions()
            inplace, editable = self.inplace, self.editable_mode
            self.reinitialize_command(self)
            self.inplace, self.editable_mode = inplace, editable
            self.ensure_finalized()
        super().run()

    def build_extensions(self) -> None:
        work = [
            (source, extension) for extension in self.extensions for source in extension.sources
        ]
        work.sort(key=lambda item: os.path.getsize(item[0]), reverse=True)
        self.precompile_headers()
        self.left = len(work)
        self.step = max(1, self.left // 10)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = dict(pool.map(self.compile_one, work))
            list(pool.map(lambda extension: self.link(extension, objects), self.extensions))

    def precompile_headers(self) -> None:
        """Compile what the C files include: the declarations of all modules, or Python.h alone.

        Without this, parsing them for each file takes 30 s of CPU. They are compiled once for each
        level of optimisation. A compiler that cannot use the result reads the header itself.
        """
        together = self.extensions[0]
        names = [name for name in together.depends if "__native_" in os.path.basename(name)]
        names.sort(key=lambda name: "__native_internal_" in name)
        declared = "".join(f'#include "{os.path.abspath(name)}"\n' for name in names)
        folders = [*together.include_dirs, *self.compiler.include_dirs]
        include = [f"-I{each}" for each in folders]
        for level in (OFTEN, SELDOM):
            for header, text in ((MODULES_H, declared), (PYTHON_H, "#include <Python.h>\n")):
                path = self.header(header, level)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                command = [*self.compiler.compiler_so, *include, level, *COMPILE]
                self.compiler.spawn([*command, "-x", "c-header", path, "-o", f"{path}.gch"])

    def header(self, name: str, level: str) -> str:
        return os.path.join(os.path.abspath(self.build_temp), level.strip("-"), name)

    def compile_one(self, item: tuple[str, Extension]) -> tuple[str, str]:
        """Compile one C file; return it and its object."""
        source, extension = item
        name = os.path.basename(source)
        of_module = name.startswith("__native_")
        is_shim = extension is not self.extensions[0]
        seldom = is_shim or name in C_FILES_FOR_SIZE or (of_module and "___" not in name)
        level = SELDOM if seldom else OFTEN
        header = MODULES_H if of_module else PYTHON_H if is_shim else None
        include = ["-include", self.header(header, level)] if header else []
        [made] = self.compiler.compile(
            [source],
            output_dir=self.build_temp,
            include_dirs=extension.include_dirs,
            extra_postargs=[level, *COMPILE, *include],
        )
        self.left -= 1
        if self.left % self.step == 0:
            say(f"compiling: {self.left} C files left")
        return source, made

    def link(self, extension: Extension, objects: dict[str, str]) -> None:
        path = self.get_ext_fullpath(extension.name)
        made = [objects[source] for source in extension.sources]
        self.compiler.link_shared_object(made, path, extra_postargs=LINK)


class TaggedWheel(bdist_wheel):
    """Give a wheel the manylinux tag that its shared objects allow."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        system, _, machine = platform.partition("_")
        if system == "linux" and machine in ("x86_64", "aarch64"):
            minor = oldest_glibc(self.get_finalized_command("build_ext").get_outputs())
            platform = f"manylinux_2_{minor}_{machine}" if minor else platform
        return python, abi, platform


def oldest_glibc(shared_objects: list[str]) -> int | None:
    """The 2.x of the oldest glibc on which these load; None if they need more than glibc."""
    found = [17]  # the oldest that pip knows a tag for on all machines
    for path in shared_objects:
        shown = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=False)
        needed = set(re.findall(r"NEEDED\s+(\S+)", shown.stdout))
        if shown.returncode or not needed <= GLIBC:
            return None
        found += map(int, re.findall(r"\bGLIBC_2\.(\d+)", shown.stdout))
    return max(found)


def say(text: str) -> None:
    """Report progress; tools/environment.py shows these lines while pip is silent."""
    print(f"warren: {text}", file=sys.stderr, flush=True)


compiled = bool(COMPILED) and os.environ.get("WARREN_PURE") != "1" and compiler_found()
setup(
    # A placeholder: setuptools has to know that there are extensions before they are described.
    ext_modules=[Extension("warren", [])] if compiled else [],
    cmdclass={"build_ext": CompileModules, "bdist_wheel": TaggedWheel},
)

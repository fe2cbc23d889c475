"""Builds the compiled modules; everything else is in pyproject.toml.

`WARREN_PURE=1`, or a machine without a C compiler, gives a pure build of the same sources.
The modules named here are also run uncompiled, so they may use nothing that only mypyc knows.
"""

import os
import shutil
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from setuptools import setup
from setuptools.command.build_ext import build_ext

COMPILED = [
    "node/amqp10/committing.py",
    "node/amqp10/consuming.py",
    "node/amqp10/endpoint.py",
    "node/amqp10/forms.py",
    "node/amqp10/publishing.py",
    "node/amqp10/sessions.py",
    "node/channel091.py",
    "node/deliveries.py",
    "node/endpoint091.py",
    "node/getting.py",
    "node/hold.py",
    "node/internal_publisher.py",
    "node/plans.py",
    "node/queue_weights.py",
    "node/reading.py",
    "node/transaction.py",
    "node/turn.py",
    "node/turn_stages.py",
    "queues/alike.py",
    "queues/annotations.py",
    "queues/away/home.py",
    "queues/away/items.py",
    "queues/away/neighbour.py",
    "queues/away/proxy.py",
    "queues/away/roaming.py",
    "queues/away/seam.py",
    "queues/away/strand.py",
    "queues/away/telling.py",
    "queues/burials.py",
    "queues/columns.py",
    "queues/commands.py",
    "queues/consumers.py",
    "queues/counts.py",
    "queues/credit.py",
    "queues/dead_letter_limits.py",
    "queues/dead_letters.py",
    "queues/delays.py",
    "queues/dying.py",
    "queues/effects.py",
    "queues/expiry.py",
    "queues/extents.py",
    "queues/fifo.py",
    "queues/frozen.py",
    "queues/host.py",
    "queues/holes.py",
    "queues/hosts/applying.py",
    "queues/hosts/burying.py",
    "queues/hosts/classic.py",
    "queues/hosts/found.py",
    "queues/hosts/journal.py",
    "queues/hosts/quorum.py",
    "queues/hosts/quorum_bodies.py",
    "queues/hosts/quorum_entry.py",
    "queues/hosts/quorum_member.py",
    "queues/hosts/quorum_snapshot.py",
    "queues/hosts/reading.py",
    "queues/hosts/seams.py",
    "queues/hosts/sexton.py",
    "queues/hosts/sweeping.py",
    "queues/hosts/telling.py",
    "queues/hosts/traffic.py",
    "queues/hosts/undertaker.py",
    "queues/hosts/users.py",
    "queues/leaving.py",
    "queues/led.py",
    "queues/message.py",
    "queues/notes.py",
    "queues/last_numbers.py",
    "queues/options.py",
    "queues/packed_runs.py",
    "queues/paging.py",
    "queues/passing.py",
    "queues/publishing.py",
    "queues/ready.py",
    "queues/roster.py",
    "queues/routing/consistent_hash.py",
    "queues/routing/content.py",
    "queues/routing/copies.py",
    "queues/routing/direct.py",
    "queues/routing/fanout.py",
    "queues/routing/hashing.py",
    "queues/routing/headers.py",
    "queues/routing/modulus_hash.py",
    "queues/routing/outside.py",
    "queues/routing/random_one.py",
    "queues/routing/router.py",
    "queues/routing/shares.py",
    "queues/routing/topic.py",
    "queues/rows.py",
    "queues/seqset.py",
    "queues/store.py",
    "queues/streams.py",
    "queues/timeouts.py",
    "queues/traits.py",
    "queues/unacked.py",
    "queues/unshared.py",
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


def compiler_found() -> bool:
    """Whether the compiler that this Python was built for, or any other, is on the path."""
    wanted = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(wanted) is not None


def compiled_modules() -> list:
    if os.environ.get("WARREN_PURE") == "1" or not COMPILED or not compiler_found():
        return []
    from mypyc.build import mypycify

    # A file of C for each module: one for all takes a compiler five minutes and 1.5 GB.
    modules = mypycify(COMPILED, opt_level="3", debug_level="1", multi_file=True)
    for module in modules:  # Calls between those files need not go through the linker's table.
        module.extra_compile_args = [*module.extra_compile_args, "-fvisibility=hidden"]
    return modules


class BuildTogether(build_ext):
    """Compiles as many files at a time as there are processors, the largest first.

    Each module has an extension of its own, which only leads to the one with all the code: those
    are built while the files of that one are.
    """

    def build_extensions(self) -> None:
        compiler = self.compiler

        def compile_all(
            sources,
            output_dir=None,
            macros=None,
            include_dirs=None,
            debug=False,
            extra_preargs=None,
            extra_postargs=None,
            depends=None,
        ) -> list:
            macros, objects, extra_postargs, pp_opts, build = compiler._setup_compile(
                output_dir, macros, include_dirs, sources, depends, extra_postargs
            )
            arguments = compiler._get_cc_args(pp_opts, debug, extra_preargs)

            def compile_one(item) -> None:
                made, (source, ending) = item
                compiler._compile(made, source, ending, arguments, extra_postargs, pp_opts)

            def size(item) -> int:
                return os.path.getsize(item[1][0])

            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                list(pool.map(compile_one, sorted(build.items(), key=size, reverse=True)))
            return objects

        compiler.compile = compile_all
        self.parallel = 2
        super().build_extensions()


setup(ext_modules=compiled_modules(), cmdclass={"build_ext": BuildTogether})

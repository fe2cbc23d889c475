"""Builds the compiled modules; everything else is in pyproject.toml.

`WARREN_PURE=1`, or a machine without a C compiler, gives a pure build of the same sources.
The modules named here are also run uncompiled, so they may use nothing that only mypyc knows.
"""

import gc
import multiprocessing
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

# Passes that take a third of the time of -O2. Loops of codecs gain 5 % by them, other code nothing.
NOT_WORTH_IT = [
    *("-fno-code-hoisting", "-fno-expensive-optimizations", "-fno-gcse", "-fno-ipa-bit-cp"),
    *("-fno-ipa-cp", "-fno-ipa-modref", "-fno-ipa-sra", "-fno-ipa-vrp"),
    *("-fno-rerun-cse-after-loop", "-fno-schedule-insns2", "-fno-thread-jumps"),
    *("-fno-tree-pre", "-fno-tree-switch-conversion", "-fno-tree-tail-merge"),
    *("-fno-tree-vectorize", "-fno-tree-vrp"),
]
# Seven more, an eighth of the time of -Os for the same size. Code that runs for each message keeps
# them: AMQP 1.0 is slower without.
FOR_SPEED_ALONE = [
    *("-fno-split-wide-types", "-fno-ssa-phiopt", "-fno-tree-ch", "-fno-tree-dominator-opts"),
    *("-fno-tree-loop-optimize", "-fno-tree-pta", "-fno-tree-sink"),
]
# Padding before functions, loops and jumps takes 6 % of the code. Loops of codecs keep it.
NO_PADDING = [f"-fno-align-{what}" for what in ("functions", "jumps", "labels", "loops")]
LOOPS = "loops"  # loops over the messages of a read or write
OFTEN = "often"  # other code that runs for each message
SELDOM = "seldom"
LEVELS = {LOOPS: "-O2", OFTEN: "-O2", SELDOM: "-Os"}
# The body of a module runs once. Functions by which interpreted code calls compiled code have no
# loops: what they take is spent in the library of mypyc. Together they are a third of the C code.
COLD = {
    r"\bchar CPyDef_\w+_____top_level__\(void\)": 'cold, optimize("Os")',
    r"\bPyObject \*CPyPy_\w+\([^;{]*\)": 'cold, optimize("O1")',
}
# Nothing reads unwind tables, which take 1 MB.
COMPILE = ["-g0", "-w", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"]
# No symbols, and no pages of padding between the sections of 200 small files.
LINK = ["-s", "-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--build-id=none"]
LINK_ENTRANCE = [*LINK, "-nostartfiles"]  # It constructs and destroys nothing.
GROUP = "warren"
LIBRARY = f"{GROUP}__mypyc"  # mypyc's name for the shared object that has all code
ENTRANCE = "warren.compiled_modules"  # what Python imports all modules from: see warren/compiled.py
# A module is named by its spec; the library has a function that makes it.
ENTRANCE_CODE = r"""
#include <Python.h>
#include <string.h>

static void *found(PyObject *library, const char *path) {
    PyObject *capsule = PyObject_GetAttrString(library, strchr(path, '.') + 1);
    if (capsule == NULL) return NULL;
    void *function = PyCapsule_GetPointer(capsule, path);
    Py_DECREF(capsule);
    return function;
}

static PyObject *create(PyObject *spec, PyModuleDef *def) {
    PyObject *name = PyObject_GetAttrString(spec, "name");
    PyObject *dashed = name ? PyObject_CallMethod(name, "replace", "ss", ".", "___") : NULL;
    Py_XDECREF(name);
    const char *text = dashed ? PyUnicode_AsUTF8(dashed) : NULL;
    PyObject *path = text ? PyBytes_FromFormat("%s.init_%s", LIBRARY, text) : NULL;
    Py_XDECREF(dashed);
    PyObject *library = path ? PyImport_ImportModule(LIBRARY) : NULL;
    PyObject *made = NULL;
    if (library != NULL) {
        int (*ensure)(void) = (int (*)(void))found(library, LIBRARY ".ensure_deps");
        if (ensure == NULL) PyErr_Clear();
        if (ensure == NULL || ensure() >= 0) {
            PyObject *(*init)(void) = (PyObject *(*)(void))found(library, PyBytes_AsString(path));
            if (init != NULL) made = init();
        }
        Py_DECREF(library);
    }
    Py_XDECREF(path);
    return made;
}

static PyModuleDef_Slot slots[] = {{Py_mod_create, create}, {0, NULL}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, LIBRARY, NULL, 0, NULL, slots};
#define ENTRANCE(leaf) PyMODINIT_FUNC PyInit_##leaf(void) { return PyModuleDef_Init(&def); }

static int tell_names(PyObject *module) {
    return PyModule_AddStringConstant(module, "names", NAMES);
}

static PyModuleDef_Slot own_slots[] = {{Py_mod_exec, tell_names}, {0, NULL}};
static struct PyModuleDef own_def = {PyModuleDef_HEAD_INIT, "own", NULL, 0, NULL, own_slots};
PyMODINIT_FUNC PyInit_OWN_LEAF(void) { return PyModuleDef_Init(&own_def); }
"""
GLIBC = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}

COMPILED_LOOPS = {
    "node/amqp091/forms.py",
    "node/streams/bodies.py",
    "node/streams/endpoint.py",
    "node/streams/publish_frames.py",
    "queues/machine/fifo.py",
    "queues/machine/ready.py",
    "queues/runs/columns.py",
    "queues/runs/packed_runs.py",
    "queues/sessions/publishing.py",
    "queues/sessions/unacked.py",
    "warren/wire/amqp091/contents.py",
    "warren/wire/amqp091/deliver.py",
    "warren/wire/amqp091/lane.py",
    "warren/wire/amqp091/scanner.py",
    "warren/wire/amqp10/arrivals.py",
    "warren/wire/amqp10/deliver.py",
    "warren/wire/amqp10/departures.py",
    "warren/wire/amqp10/dispositions.py",
    "warren/wire/amqp10/gather.py",
    "warren/wire/amqp10/codec/reader.py",
    "warren/wire/amqp10/rows.py",
    "warren/wire/amqp10/transfers.py",
    "warren/wire/amqp10/codec/writer.py",
    "warren/wire/inplace.py",
}

COMPILED_SELDOM = {
    "queues/selectors/sql.py",
    "warren/storage/recovery/stretches.py",
    "node/cluster/peering/peer_record.py",
    "queues/remote/moving.py",
    "raft/copy_pace.py",
    "queues/hosts/classic_end.py",
    "node/amqp10/sessions.py",
    "warren/wire/amqp091/connection.py",
    "warren/wire/amqp10/connection.py",
    "warren/wire/amqp10/events.py",
    "queues/dead_lettering/dead_letter_publisher.py",
    "queues/dead_lettering/dead_letters.py",
    "node/amqp091/transaction.py",
    "node/amqp10/committing.py",
    "queues/hosts/host_interfaces.py",
    "queues/machine/address_settings.py",
    "queues/machine/options.py",
    "queues/machine/consuming/roster.py",
    "queues/machine/snapshot_parts.py",
    "queues/hosts/found_state.py",
    "queues/hosts/quorum_snapshot.py",
    "queues/remote/remote_interfaces.py",
    "raft/detector.py",
    "raft/election.py",
    "raft/membership.py",
    "raft/recovery.py",
    "raft/settings.py",
    "raft/status.py",
    "warren/storage/compaction.py",
    "warren/storage/debts.py",
    "warren/storage/recovery/found_entries.py",
    "warren/storage/recovery/opening.py",
    "warren/storage/recovery/recovery.py",
    "warren/storage/recovery/scan.py",
    "warren/storage/tally.py",
    "warren/storage/upkeep.py",
    "warren/wire/amqp091/methods.py",
    "warren/wire/amqp10/errors.py",
    "warren/wire/amqp10/handshake.py",
    "warren/wire/amqp10/limits.py",
    "warren/wire/amqp10/codec/performatives.py",
    "warren/wire/errors.py",
    "node/events/internal_publisher.py",
    "node/resources/publish_hold.py",
    "node/views/queue_weights.py",
    "queues/dead_lettering/at_least_once_worker.py",
    "raft/ring_view.py",
    "queues/machine/consuming/ack_timeouts.py",
    "queues/machine/time_and_leadership.py",
    "warren/storage/files.py",
    "warren/storage/recall.py",
    "warren/storage/pages.py",
    "queues/machine/message_groups.py",
    "queues/machine/last_values.py",
    "queues/dead_lettering/dead_letter_schedule.py",
    "queues/hosts/delay_log.py",
    "queues/hosts/id_log.py",
    "queues/hosts/sweeping.py",
    "queues/bodies/paging.py",
    "queues/dead_lettering/dead_letter_reads.py",
    "queues/machine/leaving.py",
    "queues/hosts/session_users.py",
}

COMPILED = [
    "node/amqp10/committing.py",
    "node/amqp10/links/consuming.py",
    "node/amqp10/endpoint.py",
    "node/amqp10/forms.py",
    "node/amqp10/links/publishing.py",
    "node/amqp10/sessions.py",
    "node/amqp091/channel.py",
    "node/amqp091/deliveries.py",
    "node/amqp091/forms.py",
    "node/amqp091/endpoint.py",
    "node/amqp091/basic_get.py",
    "node/clock.py",
    "node/cluster/peering/link_socket.py",
    "node/cluster/peering/peer_links.py",
    "node/cluster/peering/peer_record.py",
    "node/cluster/queues/queues_channel.py",
    "node/resources/alarms.py",
    "node/resources/publish_hold.py",
    "node/events/internal_publisher.py",
    "node/amqp091/publish_plans.py",
    "node/views/queue_weights.py",
    "node/connections/client_endpoint.py",
    "node/connections/socket_reading.py",
    "node/amqp091/transaction.py",
    "node/streams/bodies.py",
    "node/streams/endpoint.py",
    "node/streams/publish_frames.py",
    "node/timers.py",
    "node/turn.py",
    "node/turn_stages.py",
    "queues/machine/address_settings.py",
    "queues/machine/annotations.py",
    "queues/remote/home.py",
    "queues/remote/items.py",
    "queues/remote/kept.py",
    "queues/remote/moving.py",
    "queues/remote/peer_queues.py",
    "queues/remote/proxy.py",
    "queues/remote/quorum_proxy.py",
    "queues/remote/remote_interfaces.py",
    "queues/remote/remote_session.py",
    "queues/dead_lettering/dead_letter_schedule.py",
    "queues/runs/columns.py",
    "queues/machine/command_fields.py",
    "queues/machine/commands.py",
    "queues/machine/consuming/consumer_limits.py",
    "queues/machine/consuming/consumers.py",
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
    "queues/hosts/classic_end.py",
    "queues/hosts/queue_core.py",
    "queues/hosts/found_state.py",
    "queues/hosts/id_log.py",
    "queues/hosts/delay_log.py",
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
    "queues/machine/message_groups.py",
    "queues/machine/time_and_leadership.py",
    "queues/machine/consuming/limiter.py",
    "queues/conversion/incoming_marks.py",
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
    "queues/selectors/sql_operations.py",
    "queues/streams/filtering.py",
    "queues/machine/ready.py",
    "queues/machine/consuming/selection.py",
    "queues/machine/consuming/selections.py",
    "queues/machine/consuming/roster.py",
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
    "queues/machine/consuming/checked_out.py",
    "queues/runs/seqset.py",
    "queues/bodies/store.py",
    "queues/machine/consuming/numbered_sessions.py",
    "queues/machine/consuming/ack_timeouts.py",
    "queues/machine/traits.py",
    "queues/sessions/unacked.py",
    "raft/codec.py",
    "raft/copy_pace.py",
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
    "raft/ready.py",
    "raft/recovery.py",
    "raft/replica.py",
    "raft/ring.py",
    "raft/ring_view.py",
    "raft/settings.py",
    "raft/status.py",
    "warren/storage/compaction.py",
    "warren/storage/debts.py",
    "warren/storage/direct.py",
    "warren/storage/entry_reads.py",
    "warren/storage/files.py",
    "warren/storage/recovery/found_entries.py",
    "warren/storage/group_log.py",
    "warren/storage/ledger.py",
    "warren/storage/log.py",
    "warren/storage/recovery/opening.py",
    "warren/storage/pace.py",
    "warren/storage/pages.py",
    "warren/storage/places.py",
    "warren/storage/ranges.py",
    "warren/storage/reads.py",
    "warren/storage/recall.py",
    "warren/storage/record.py",
    "warren/storage/recovery/recovery.py",
    "warren/storage/runner.py",
    "warren/storage/recovery/scan.py",
    "warren/storage/recovery/stretches.py",
    "warren/storage/tally.py",
    "warren/storage/upkeep.py",
    "warren/storage/wal.py",
    "warren/storage/writing/log_writer.py",
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
    "warren/wire/amqp10/codec/codes.py",
    "warren/wire/amqp10/connection.py",
    "warren/wire/amqp10/deliver.py",
    "warren/wire/amqp10/departures.py",
    "warren/wire/amqp10/codec/descriptors.py",
    "warren/wire/amqp10/dispositions.py",
    "warren/wire/amqp10/errors.py",
    "warren/wire/amqp10/events.py",
    "warren/wire/amqp10/flows.py",
    "warren/wire/amqp10/codec/frames.py",
    "warren/wire/amqp10/gather.py",
    "warren/wire/amqp10/handshake.py",
    "warren/wire/amqp10/limits.py",
    "warren/wire/amqp10/link.py",
    "warren/wire/amqp10/links.py",
    "warren/wire/amqp10/codec/message.py",
    "warren/wire/amqp10/outcomes.py",
    "warren/wire/amqp10/output.py",
    "warren/wire/amqp10/codec/performatives.py",
    "warren/wire/amqp10/codec/reader.py",
    "warren/wire/amqp10/receiver.py",
    "warren/wire/amqp10/rows.py",
    "warren/wire/amqp10/sender.py",
    "warren/wire/amqp10/codec/serial.py",
    "warren/wire/amqp10/session.py",
    "warren/wire/amqp10/settling.py",
    "warren/wire/amqp10/transfers.py",
    "warren/wire/amqp10/windows.py",
    "warren/wire/amqp10/codec/writer.py",
    "warren/wire/errors.py",
    "warren/wire/inplace.py",
    "warren/wire/peer/codes.py",
    "warren/wire/peer/connection.py",
    "warren/wire/peer/frames.py",
    "warren/wire/peer/lanes.py",
    "warren/wire/peer/stream.py",
    "warren/wire/stream/frames.py",
]


# By the name of the C file; those without a module of their own are not in it.
LEVEL_OF = {
    f"__native_{path.removesuffix('.py').replace('/', '___')}.c": (
        SELDOM if path in COMPILED_SELDOM else LOOPS if path in COMPILED_LOOPS else OFTEN
    )
    for path in COMPILED
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

    gc.disable()  # What mypy makes stays until the process ends.
    options = ["--follow-imports=silent", "--ignore-missing-imports"]
    return mypycify([*options, *COMPILED], multi_file=True, group_name=GROUP)


class Mypyc:
    """A process that writes the C files, and does not free what mypy has made: that takes 8 s."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._taken, given = context.Pipe(duplex=False)
        self._child = context.Process(target=lambda: given.send(extensions()))
        self._child.start()
        given.close()

    def library(self) -> Extension:
        """The extension that has the code of all modules; the others would be for imports."""
        try:
            found: list[Extension] = self._taken.recv()
        except EOFError:
            raise SystemExit("mypyc has failed as shown above") from None
        self._child.join()
        return found[0]


class CompileModules(build_ext):
    """Run mypyc, and compile all its C files in parallel, the largest first.

    setup.py is also executed for metadata: mypyc runs here, so that it runs once per build.
    """

    def build_extensions(self) -> None:
        """The first extension has the code of all modules, the other is for imports of them."""
        from mypyc.common import RUNTIME_C_FILES

        say("compiling: mypyc writes C (10 to 20 s)")
        mypyc = Mypyc()
        os.makedirs(self.build_temp, exist_ok=True)
        often = [*self.known(NOT_WORTH_IT), *self.known(NO_PADDING)]
        self.without = {LOOPS: [], OFTEN: often, SELDOM: [*often, *self.known(FOR_SPEED_ALONE)]}
        processors = os.cpu_count() or 1
        with ThreadPoolExecutor(max(1, processors - 1)) as pool:  # mypyc has one of them.
            runtime = [pool.submit(self.compile_runtime, name) for name in RUNTIME_C_FILES]
            entrance = pool.submit(self.build_entrance)
            self.library = mypyc.library()
        entrance.result()
        sources = [
            path
            for path in sorted(self.library.sources, key=os.path.getsize, reverse=True)
            if os.path.basename(path) not in RUNTIME_C_FILES
        ]
        self.left = len(sources)
        self.step = max(1, self.left // 10)
        with ThreadPoolExecutor(processors) as pool:
            declared = self.declarations()
            list(pool.map(lambda level: self.precompile(level, declared), LEVELS))
            objects = list(pool.map(self.compile_one, sources))
        objects += [each.result() for each in runtime]
        path = self.get_ext_fullpath(self.extensions[0].name)
        self.compiler.link_shared_object(objects, path, extra_postargs=LINK)

    def known(self, flags: list[str]) -> list[str]:
        """These flags if the compiler takes them; older ones, and others than GCC, may not."""
        path = os.path.join(self.build_temp, "flags.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write("int nothing;\n")
        command = [*self.compiler.compiler_so, *flags, "-c", path, "-o", f"{path}.o"]
        done = subprocess.run(command, capture_output=True, check=False)
        return flags if done.returncode == 0 else []

    def flags(self, level: str) -> list[str]:
        return [LEVELS[level], *self.without[level], *COMPILE]

    def declarations(self) -> str:
        """What the C files of modules include, and which of their functions are cold."""
        names = [name for name in self.library.depends if "__native_" in os.path.basename(name)]
        names.sort(key=lambda name: "__native_internal_" in name)
        text = "".join(f'#include "{os.path.abspath(name)}"\n' for name in names)
        for name in names:
            with open(name, encoding="utf-8") as file:
                content = file.read()
            for pattern, attributes in COLD.items():
                for found in re.finditer(pattern, content):
                    text += f"{found[0]} __attribute__(({attributes}));\n"
        return text

    def precompile(self, level: str, declared: str) -> None:
        """Compile the declarations of all modules, once for each level of optimisation.

        Without this, parsing them for each file takes 30 s of CPU. A compiler that cannot use the
        result reads the header itself.
        """
        folders = [*self.library.include_dirs, *self.compiler.include_dirs]
        include = [f"-I{each}" for each in folders]
        path = self.header(level)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(declared)
        command = [*self.compiler.compiler_so, *include, *self.flags(level)]
        self.compiler.spawn([*command, "-x", "c-header", path, "-o", f"{path}.gch"])

    def header(self, level: str) -> str:
        return os.path.join(os.path.abspath(self.build_temp), level, "modules.h")

    def compile_one(self, source: str) -> str:
        """Compile one C file; return its object."""
        name = os.path.basename(source)
        level = LEVEL_OF.get(name, SELDOM)
        include = ["-include", self.header(level)] if name.startswith("__native_") else []
        made = self.compile_file(source, self.library.include_dirs, [*self.flags(level), *include])
        self.count_down()
        return made

    def compile_runtime(self, name: str) -> str:
        """Compile one C file of the library that all compiled code calls; return its object."""
        import mypyc

        folder = os.path.join(os.path.dirname(mypyc.__file__), "lib-rt")
        return self.compile_file(os.path.join(folder, name), [folder], self.flags(SELDOM))

    def compile_file(self, source: str, folders: list[str], flags: list[str]) -> str:
        [made] = self.compiler.compile(
            [source], output_dir=self.build_temp, include_dirs=folders, extra_postargs=flags
        )
        return str(made)

    def count_down(self) -> None:
        """Tell the user about ten times how many are left."""
        self.left -= 1
        if self.left % self.step == 0:
            say(f"compiling: {self.left} C files left")

    def build_entrance(self) -> None:
        """Make the shared object that Python imports the modules by, out of the first one.

        mypyc writes a C file for each module, which costs 20 s of CPU, and a shared object of which
        each process maps three pages.
        """
        names = [path.removesuffix(".py").replace("/", ".") for path in COMPILED]
        leaves = sorted({name.rpartition(".")[2] for name in names})
        code = ENTRANCE_CODE.replace("LIBRARY", f'"{LIBRARY}"')
        code = code.replace("NAMES", f'"{" ".join(names)}"')
        code = code.replace("OWN_LEAF", ENTRANCE.rpartition(".")[2])
        source = os.path.join(self.build_temp, "entrance.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(code)
            file.writelines(f"ENTRANCE({leaf})\n" for leaf in leaves)
        made = self.compile_file(source, [], ["-Os", *COMPILE])
        path = self.get_ext_fullpath(ENTRANCE)
        self.compiler.link_shared_object([made], path, extra_postargs=LINK_ENTRANCE)


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
    ext_modules=[Extension(LIBRARY, []), Extension(ENTRANCE, [])] if compiled else [],
    cmdclass={"build_ext": CompileModules, "bdist_wheel": TaggedWheel},
)

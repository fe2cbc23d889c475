"""Exchange kind `headers`: the arguments of a binding against the headers of a message.

Binding argument `x-match` is `all` (the default), `any`, `all-with-x` or `any-with-x`; without
`-with-x`, other arguments that begin with `x-` do not count. An argument of void value asks only
that the header be there. `all` of nothing holds, `any` of nothing does not. Compiled.

Each binding is filed under wanted headers: one that wants any, under every one of them; one that
wants all, under the one that fewest others are filed under. So a message meets only bindings that
have at least one header in common with it.
"""

from typing import Final, final

from queues.definitions.arguments import comparable, decode_arguments, term, type_name
from queues.definitions.broker_objects import Binding
from queues.routing.content import Content

MATCH_ARGUMENT: Final = "x-match"
FORMS: Final = ("all", "any", "all-with-x", "any-with-x")
PRESENT: Final = ("present",)  # stands for the value of an argument that is void

Wanted = tuple[str, object]  # header name; its comparable value, or PRESENT


@final
class Entry:
    """What one binding wants."""

    def __init__(self, target: int, any_will_do: bool, wanted: list[Wanted]) -> None:
        self.target = target
        self.any_will_do = any_will_do
        self.wanted = wanted
        self.filed: list[Wanted] = []  # where the entry is in the file


@final
class Headers:
    """Invariant: an entry is in the file under all of its `filed`, or in `_always`, or nowhere.

    Nowhere are those that want any of nothing. No inner dict of the file is empty.
    """

    per_message: Final = True
    by_key: Final = False

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}  # by uid of the binding
        self._always: dict[int, Entry] = {}
        self._file: dict[Wanted, dict[int, Entry]] = {}

    def add(self, binding: Binding) -> str:
        uid = binding.uid
        entry = entry_of(binding)
        self._entries[uid] = entry
        if entry.any_will_do:
            entry.filed = entry.wanted
        elif entry.wanted:
            entry.filed = [self._least_used(entry.wanted)]
        else:
            self._always[uid] = entry
        for wanted in entry.filed:
            self._file.setdefault(wanted, {})[uid] = entry
        return ""

    def remove(self, binding: Binding) -> None:
        uid = binding.uid
        entry = self._entries.pop(uid)
        self._always.pop(uid, None)
        for wanted in entry.filed:
            filed = self._file[wanted]
            del filed[uid]
            if not filed:
                del self._file[wanted]

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        for entry in self._always.values():
            found.add(entry.target)
        if not self._file:
            return
        held: set[Wanted] = set()
        for name, value in content.headers().items():
            held.add((name, PRESENT))
            held.add((name, comparable(value)))
        for wanted in held:
            filed = self._file.get(wanted)
            if filed is not None:
                _take_matching(filed, held, found)

    def is_empty(self) -> bool:
        return not self._entries

    def fullest(self) -> int:
        """Under the header that most bindings are filed under: how many a message may meet."""
        return max(map(len, self._file.values()), default=0)

    def _least_used(self, wanted: list[Wanted]) -> Wanted:
        best = wanted[0]
        best_count = len(self._file.get(best, ()))
        for each in wanted:
            count = len(self._file.get(each, ()))
            if count < best_count:
                best = each
                best_count = count
        return best


def _take_matching(filed: dict[int, Entry], held: set[Wanted], found: set[int]) -> None:
    """Of entries that have one wanted header in common with those held, take what matches."""
    for entry in filed.values():
        if not entry.any_will_do:
            missing = False
            for wanted in entry.wanted:
                if wanted not in held:
                    missing = True
                    break
            if missing:
                continue
        found.add(entry.target)


def entry_of(binding: Binding) -> Entry:
    """What the arguments of the binding want; a bad `x-match` counts as `all`."""
    arguments = decode_arguments(binding.arguments)
    form = arguments.get(MATCH_ARGUMENT)
    with_x = form == "all-with-x" or form == "any-with-x"
    wanted: list[Wanted] = []
    for name, value in arguments.items():
        if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-")):
            wanted.append((name, PRESENT if value is None else comparable(value)))
    return Entry(binding.target, form == "any" or form == "any-with-x", wanted)


def binding_fault(arguments: dict[str, object]) -> str | None:
    """Why a headers exchange takes no binding with these arguments; None if it does."""
    form = arguments.get(MATCH_ARGUMENT, "all")
    if not isinstance(form, str):
        kind = type_name(form)
        return f"Invalid x-match field type {kind} (value {term(form)}); expected longstr"
    if form not in FORMS:
        expected = "all, any, all-with-x, or any-with-x"
        return f"Invalid x-match field value {term(form)}; expected {expected}"
    return None

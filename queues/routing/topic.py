"""Exchange kind `topic`: words parted by dots, `*` for one, `#` for any number of them.

Binding keys form a trie over words. A routing key is matched by walking all nodes that it can
have reached, word by word, so that the cost goes by words and by the nodes alive at each of them,
never by the number of bindings, and a node is looked at once per word however many `#` lead to it.
Compiled.

An empty key has no words at all; `a.` has two, the second of them empty. Empty words count.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.definitions.broker_objects import Binding
from queues.routing.content import Content


@final
class Node:
    """The place reached by one sequence of words of binding keys.

    Invariant: every node but the root has a target below it or in it.
    """

    def __init__(self, any_words: bool) -> None:
        self.any_words = any_words  # reached by `#`: stays alive whatever words follow
        self.children: dict[bytes, Node] = {}
        self.star: Node | None = None
        self.hash: Node | None = None
        self.targets: dict[int, int] = {}  # target, number of bindings with this very key
        self.met: i64 = 0  # the step that met this node last

    def is_leaf(self) -> bool:
        return not self.children and self.star is None and self.hash is None


def words_of(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []


def pattern_of(key: bytes) -> list[bytes]:
    """The words of a binding key; in each row of wildcards with a `#`, the `*` first and one `#`.

    Such rows match the same keys in any order (`#.*.#` is `*.#`). Written in one way they share
    nodes of the trie, which bounds what a message with many words costs.
    """
    words = words_of(key)
    if b"#" not in words:
        return words
    pattern: list[bytes] = []
    ends_in_hash = False
    for word in words:
        if word == b"#":
            if not ends_in_hash:
                pattern.append(word)
            ends_in_hash = True
        elif word == b"*" and ends_in_hash:
            pattern.insert(len(pattern) - 1, word)
        else:
            pattern.append(word)
            ends_in_hash = False
    return pattern


@final
class Topic:
    """The trie of one exchange."""

    per_message: Final = False
    by_key: Final = True

    def __init__(self) -> None:
        self._root = Node(False)
        self._step: i64 = 0  # counts the words of all keys matched so far

    def add(self, binding: Binding) -> str:
        node = self._root
        for word in pattern_of(binding.binding_key):
            node = _child_to_have(node, word)
        target = binding.target
        node.targets[target] = node.targets.get(target, 0) + 1
        return ""

    def remove(self, binding: Binding) -> None:
        """Take the binding out, and the nodes that no key needs any more."""
        words = pattern_of(binding.binding_key)
        path = [self._root]
        for word in words:
            node = _child(path[-1], word)
            assert node is not None
            path.append(node)
        targets = path[-1].targets
        target = binding.target
        targets[target] -= 1
        if targets[target] == 0:
            del targets[target]
        while words and not path[-1].targets and path[-1].is_leaf():
            path.pop()
            _forget_child(path[-1], words.pop())

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        alive: list[Node] = []
        self._step += 1
        self._meet(self._root, alive, found)
        for word in words_of(key):
            reached: list[Node] = []
            self._step += 1
            for node in alive:
                if node.any_words:
                    self._meet(node, reached, found)
                child = node.children.get(word)
                if child is not None:
                    self._meet(child, reached, found)
                star = node.star
                if star is not None:
                    self._meet(star, reached, found)
            alive = reached
            if not alive:
                return
        for node in alive:
            found.update(node.targets)

    def is_empty(self) -> bool:
        return not self._root.targets and self._root.is_leaf()

    def _meet(self, node: Node, alive: list[Node], found: set[int]) -> None:
        """Note that the words so far lead to `node`, and on through `#` to those behind it."""
        step = self._step
        at: Node | None = node
        while at is not None and at.met != step:
            at.met = step
            if at.any_words and at.is_leaf():
                found.update(at.targets)  # Whatever follows matches.
                return
            alive.append(at)
            at = at.hash


def _child(node: Node, word: bytes) -> Node | None:
    if word == b"*":
        return node.star
    if word == b"#":
        return node.hash
    return node.children.get(word)


def _child_to_have(node: Node, word: bytes) -> Node:
    child = _child(node, word)
    if child is None:
        child = Node(word == b"#")
        if word == b"*":
            node.star = child
        elif word == b"#":
            node.hash = child
        else:
            node.children[word] = child
    return child


def _forget_child(node: Node, word: bytes) -> None:
    if word == b"*":
        node.star = None
    elif word == b"#":
        node.hash = None
    else:
        del node.children[word]

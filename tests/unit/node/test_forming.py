"""A cluster is founded once, by a majority of its list, and never by a part of it."""

from itertools import combinations

from node.cluster.membership.forming import Forming, Found, Join, Refuse, Wait, Word, list_digest

SEEDS = ("a:1", "b:1", "c:1")


def word(address: str, cluster_id: int = 0, seeds: tuple[str, ...] = SEEDS) -> Word:
    return Word(address, 1000 + ord(address[0]), cluster_id, list_digest(seeds))


def forming(address: str, seeds: tuple[str, ...] = SEEDS) -> Forming:
    return Forming(address, 7, seeds)


def test_a_node_alone_in_its_list_founds_at_once() -> None:
    assert forming("a:1", ("a:1",)).decide() == Found(1, 1)


def test_a_minority_waits_and_says_for_whom() -> None:
    decision = forming("b:1").decide()
    assert decision == Wait("1 of 3 seeds are here, 2 are needed")


def test_a_majority_of_empty_seeds_founds_with_the_whole_list() -> None:
    node = forming("b:1")
    node.heard(word("c:1"))
    assert node.decide() == Found(2, 3)


def test_the_order_of_the_list_does_not_matter() -> None:
    node = forming("b:1", ("c:1", "b:1", "a:1"))
    node.heard(word("c:1"))
    assert node.decide() == Found(2, 3)


def test_no_two_disjoint_parts_of_a_list_can_both_found() -> None:
    seeds = tuple(f"{letter}:1" for letter in "abcde")
    for size in range(1, 6):
        for part in combinations(seeds, size):
            rest = [address for address in seeds if address not in part]
            assert not (founds(part, seeds) and founds(rest, seeds))


def founds(part: tuple[str, ...] | list[str], seeds: tuple[str, ...]) -> bool:
    """Whether some node of the part founds, if all of the part hear each other."""
    for address in part:
        node = Forming(address, 7, seeds)
        for other in part:
            node.heard(word(other, seeds=seeds))
        if isinstance(node.decide(), Found):
            return True
    return False


def test_whoever_meets_a_member_of_a_cluster_asks_to_be_taken_in() -> None:
    node = forming("b:1")
    node.heard(word("a:1"))
    node.heard(word("c:1", cluster_id=9))
    assert node.decide() == Join("c:1", 9)


def test_a_member_that_falls_silent_is_still_known_to_be_one() -> None:
    node = forming("b:1")
    node.heard(word("a:1"))
    node.heard(word("c:1", cluster_id=9))
    node.silent("c:1")
    assert node.decide() == Join("c:1", 9)


def test_an_empty_seed_that_falls_silent_does_not_count() -> None:
    node = forming("b:1")
    node.heard(word("a:1"))
    node.silent("a:1")
    assert isinstance(node.decide(), Wait)


def test_a_node_that_is_no_seed_never_founds() -> None:
    node = forming("x:1")
    for address in SEEDS:
        node.heard(word(address))
    assert isinstance(node.decide(), Wait)
    node.heard(word("a:1", cluster_id=9))
    assert node.decide() == Join("a:1", 9)


def test_different_lists_are_refused_by_name() -> None:
    node = forming("b:1")
    node.heard(word("a:1", seeds=("a:1", "b:1")))
    decision = node.decide()
    assert isinstance(decision, Refuse)
    assert "a:1" in decision.reason


def test_a_cluster_that_grew_has_another_list_than_a_new_node() -> None:
    node = forming("b:1")
    node.heard(word("a:1", cluster_id=9, seeds=("a:1",)))
    assert node.decide() == Join("a:1", 9)


def test_seeds_of_two_clusters_are_refused() -> None:
    node = forming("b:1")
    node.heard(word("a:1", cluster_id=8))
    node.heard(word("c:1", cluster_id=9))
    decision = node.decide()
    assert isinstance(decision, Refuse)
    assert "a:1 of 0000000000000008" in decision.reason


def test_a_seed_that_was_wiped_while_forming_is_not_counted_twice() -> None:
    node = forming("b:1")
    node.heard(word("a:1"))
    node.heard(Word("a:1", 5, 0, list_digest(SEEDS)))
    assert isinstance(node.decide(), Refuse)


def test_words_of_strangers_and_of_oneself_count_for_nothing() -> None:
    node = forming("b:1")
    node.heard(word("x:1"))
    node.heard(word("b:1"))
    assert isinstance(node.decide(), Wait)

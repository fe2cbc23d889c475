"""Expressions of users: PCRE as far as RE2 has it, in linear time."""

import time

import pytest

from queues.definitions.expressions import (
    LENGTH_MAX,
    Expression,
    ExpressionError,
    compiled_or_none,
    expression_fault,
)

CPU_S_MAX = 1.0  # Backtracking engines take years for what follows; RE2 takes microseconds.


@pytest.mark.parametrize(
    "text", ["(a+)+$", "[[]*(a+)+$", "(a|aa)+$", "(.*)*.*.*.*.*x", "(a?){99}b"]
)
def test_expressions_that_backtrack_for_ever_take_linear_time(text: str) -> None:
    expression = Expression(text)
    start = time.thread_time()
    assert not expression.is_found_in("[" + "a" * 254 + "!")
    assert time.thread_time() - start < CPU_S_MAX


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("", ["", "x"], []),
        ("^orders", ["orders.new"], ["new.orders"]),
        ("new$|old$", ["a.new", "a.old"], ["newer"]),
        ("(?i)MAIL", ["mail"], ["nail"]),
        (r"^a\.b$", ["a.b"], ["a-b"]),
        ("é", ["café"], ["cafe"]),
        (r"^(?!amq\.).*", ["orders", "amq", "x.amq.y"], ["amq.gen-1"]),
        (r"^(?!amq\.|test)(?!.*\.dead$)q", ["q1", "q.dead.x"], ["amq.q", "test", "q.dead", "x"]),
        ("^(?=.*x)ab", ["abx"], ["ab", "xab"]),
        (r"^(?![)a\]]|b\))c?", ["c", "bc"], [")", "a", "]", "b)"]),
    ],
)
def test_found_anywhere_with_the_meaning_of_pcre(text: str, yes: list[str], no: list[str]) -> None:
    expression = Expression(text)
    assert [name for name in yes + no if expression.is_found_in(name)] == yes


@pytest.mark.parametrize(
    "text", ["a(?!b)", "(?<=a)b", r"(a)\1", "(?>a)b", "a++", "^(?!a)b|c", "^(?!a(?!b))c", "^(?!a)*"]
)
def test_what_only_a_backtracking_engine_can_match_is_refused_with_the_reason(text: str) -> None:
    fault = expression_fault(text)
    assert fault is not None and "not supported: lookaheads" in fault and "backreferences" in fault


@pytest.mark.parametrize("text", ["(", "[", "a**b(", "x" * (LENGTH_MAX + 1), "(" * 3000, "\ud800"])
def test_a_text_that_is_no_expression_is_refused_shortly(text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        Expression(text)
    assert len(str(refused.value)) < 400
    assert compiled_or_none(text) is None


def test_a_name_that_is_no_utf8_is_searched_without_an_error() -> None:
    assert Expression("a").is_found_in("\udcffa")

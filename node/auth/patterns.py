"""Regular expressions of permissions, with RabbitMQ's meaning: found anywhere in the name.

'' stands for '^$', which only the empty name matches.
"""

from queues.definitions.expressions import Expression, compiled_or_none, expression_fault, quoted


def compiled_pattern(text: str) -> Expression | None:
    """None: the expression cannot be compiled, so it matches nothing."""
    return compiled_or_none(text or "^$")


def is_found(pattern: str, text: str) -> bool:
    """Whether the expression is found in the text; one that cannot be compiled is not."""
    expression = compiled_pattern(pattern)
    return expression is not None and expression.is_found_in(text)


def pattern_fault(text: str) -> str | None:
    """Say why the text cannot be set as an expression; None: it can."""
    fault = expression_fault(text or "^$")
    return None if fault is None else f"{quoted(text)} is not a regular expression: {fault}"

"""SQL filter expressions: three-valued logic, and errors with their position."""

import math

import pytest

from queues.selectors.sql import CLOCK, DEPTH_MAX, TEXT_MAX, BadExpression, parse_sql

FIELDS: dict[tuple[str, str], object] = {
    ("application_properties", "n"): 7,
    ("application_properties", "x"): 2.5,
    ("application_properties", "region"): "eu-west",
    ("application_properties", "yes"): True,
    ("application_properties", "odd name"): "50%",
    ("properties", "subject"): "order.new",
    ("properties", "message_id"): b"\x01",
    ("header", "priority"): 4,
    ("application_properties", "nan"): math.nan,
    ("application_properties", "huge"): 1 << 127,
}


def field(section: str, name: str) -> object:
    return 2000 if section == CLOCK else FIELDS.get((section, name))


def evaluate(text: str) -> object:
    return parse_sql(text)(field)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("JMSPriority = 4 AND JMSType = 'order.new'", True),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", True),
        ("JMSMessageID = 'ID:AMQP_BINARY:01'", True),
        ("JMSCorrelationID IS NULL AND JMSXGroupSeq IS NULL", True),
        ("JMSTimestamp + 1 > 0", None),
    ],
)
def test_selectors_of_jms_have_its_names(text: str, value: object) -> None:
    assert parse_sql(text, jms=True)(field) is value


def test_a_name_of_jms_that_is_none_is_refused() -> None:
    with pytest.raises(BadExpression, match="position 4: 'JMSReplyTo' cannot be selected by"):
        parse_sql("NOT JMSReplyTo = 'q'", jms=True)
    with pytest.raises(BadExpression, match=r"position 0: no function 'NOW'; there is UTC\(\)"):
        parse_sql("NOW() > 1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n = 7", True),
        ("n <> 7 OR n != 8", True),
        ("n >= 7 AND x < 3 AND region > 'eu'", True),
        ("n = '7'", None),
        ("missing = 1", None),
        ("NOT missing = 1", None),
        ("missing = 1 OR n = 7", True),
        ("missing = 1 OR n = 8", None),
        ("missing = 1 AND n = 8", False),
        ("missing = 1 AND n = 7", None),
        ("missing IS NULL AND n IS NOT NULL", True),
        ("n IN (1, 7)", True),
        ("n IN (1, missing)", None),
        ("n NOT IN (1, 2)", True),
        ("region LIKE 'eu%'", True),
        ("region LIKE '%-%st'", True),
        ("region LIKE 'eu_wes_'", True),
        ("region NOT LIKE '_eu%'", True),
        ("region LIKE 'eu'", False),
        ("region LIKE 'eu-west%st'", False),
        ("n LIKE '7'", None),
        ("[odd name] LIKE '50!%' ESCAPE '!'", True),
        ("region LIKE 'eu!%' ESCAPE '!'", False),
        ("properties.subject = 'order.new'", True),
        ("p.subject LIKE 'order.%'", True),
        ("h.priority = 4 AND header.priority > 3", True),
        ("a.n = 7 AND application_properties.n = 7", True),
        ("properties.message-id = 1", None),
        ("1 + 2 * 3 = 7 AND (1 + 2) * 3 = 9", True),
        ("-n + 1 = -6", True),
        ("-7 / 2 = -3 AND -7 % 2 = -1", True),
        ("n / 0 = 1", None),
        ("x * 2 = 5", True),
        ("region + 1 = 1", None),
        ("yes", True),
        ("yes = TRUE AND NOT yes = FALSE", True),
        ("yes > FALSE", None),
        ("n", 7),
        ("region = 'it''s'", False),
        ("NULL IS NULL", True),
        ("1e3 = 1000 AND .5 = 0.5", True),
        ("n BETWEEN 7 AND 8", True),
        ("n NOT BETWEEN 7 AND 8", False),
        ("n BETWEEN 8 AND missing", False),
        ("n BETWEEN 7 AND missing", None),
        ('region = "eu-west" AND region <> "it""s"', True),
        ("properties.message_id = 0x01 AND p.message-id = 0x01", True),
        ("0xABcd = 0xabCD", True),
        ("[odd name] = '50%' AND a.[odd name] = '50%'", True),
        ("application-properties.n-1 = 6", True),
        ("n-1 = 6", True),
        ("h.priority-1 = 3", True),
        ("UTC() > 1000 AND utc() < 3000", True),
        ("JMSPriority = 4", None),
        ("n > 5 AND n % 7 = 0 AND properties.subject IS NOT NULL", True),
        ("n > 5 AND n % 7 = 1 AND missing = 1", False),
        ("missing > 5 AND n % 7 = 0 AND n = 8", False),
        ("n AND TRUE", None),
        ("n OR TRUE", True),
        ("NOT n", None),
        ("n = 7.0 AND x <= 2.5 AND x > n - 5", True),
        ("yes = 1 OR n = TRUE", None),
        ("yes + 1 = 2", None),
        ("7 % -2 = 1 AND 7 / -2 = -3", True),
        ("n % 0 = 1", None),
        ("x % 0 = 1", None),
        ("7.5 % 2 = 1.5 AND -7.5 % 2 = -1.5", True),
        ("nan % 2 = 1", None),
        ("nan = nan", False),
        ("1e308 * 10 % 2 = 1", None),
        ("huge + huge = huge * 2", None),
        ("huge + (huge - 1) > huge", True),
        ("-huge - huge < 0", None),
    ],
)
def test_an_expression_is_true_false_or_unknown(text: str, value: object) -> None:
    assert evaluate(text) is value or (evaluate(text) == value and not isinstance(value, bool))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "position 0: found the end, expected a name"),
        ("n = ", "position 3: found the end"),
        ("n = 7 8", "position 6: found '8', expected an operator or the end"),
        ("n ; 8", "position 2: ';' begins nothing"),
        ("n = 'open", 'position 4: "\'" begins nothing'),
        ("(n = 7", "position 6: found the end, expected '\\)'"),
        ("n NOT 7", "position 6: found '7', expected IN, LIKE or BETWEEN"),
        ("n LIKE 7", "position 7: found '7', expected a pattern"),
        ("n LIKE 'a!b' ESCAPE '!'", "expected %, _ or '!'"),
        ("q.n = 1", "position 0: unknown section 'q'"),
        ("properties.nothing = 1", "position 0: no field 'nothing' in properties"),
        ("(" * (DEPTH_MAX + 1) + "n", "nested deeper than"),
        ("NOT " * (DEPTH_MAX + 1) + "n", "nested deeper than"),
        ("+".join(["n"] * (DEPTH_MAX + 2)), "nested deeper than"),
        ("n" * (TEXT_MAX + 1), "characters; at most"),
        ("n," * 1000, "more than"),
    ],
)
def test_an_error_names_its_position_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason):
        parse_sql(text)

"""Operator policies that vhosts begin with."""

from pathlib import Path

import pytest

from node.config.config_layers import ConfigError
from node.config.default_policies import default_policies
from node.config.settings import Config, load
from queues.definitions.metadata.commands import PutPolicy

FILE = """
[[default_operator_policies]]
name = "short"
vhost_pattern = "^team-"
pattern = "^q"
apply_to = "classic_queues"
definition = {max-length = 100, expires = 5000}

[[default_operator_policies]]
name = "all"
priority = 3
definition = {overflow = "reject-publish"}
"""


def config_of(folder: Path, text: str) -> Config:
    file = folder / "warren.toml"
    file.write_text(text)
    return load(file, {}, (), {})


def test_a_new_vhost_gets_those_whose_pattern_is_in_its_name(tmp_path: Path) -> None:
    rules = config_of(tmp_path, FILE).default_operator_policies
    short, every = (
        PutPolicy("team-a", "short", True, "^q", "classic_queues", 0,
                  b'{"expires":5000,"max-length":100}'),
        PutPolicy("team-a", "all", True, ".*", "all", 3, b'{"overflow":"reject-publish"}'),
    )  # fmt: skip
    assert default_policies(rules, "team-a") == [short, every]
    assert [each.name for each in default_policies(rules, "/")] == ["all"]
    assert default_policies((), "/") == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("max-length = 100", "max-age = 1"), "are not recognised policy settings"),
        (("max-length = 100", "max-length = -1"), "is not a valid"),
        (("max-length = 100, expires = 5000", ""), "no policy provided"),
        (("classic_queues", "queue"), "apply-to 'queue' unrecognised"),
        (('"^q"', '"("'), "pattern should be regular expression"),
        (('"^team-"', '"("'), "vhost_pattern is not a regular expression"),
        (('"all"', '"short"'), "'short' is there twice"),
    ],
)
def test_what_is_no_policy_ends_the_start(
    change: tuple[str, str], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="default_operator_policies") as refused:
        config_of(tmp_path, FILE.replace(*change))
    assert text in str(refused.value)

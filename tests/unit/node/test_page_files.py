"""The scripts of the web page, as far as can be told without a browser: their size, that every name
one takes of another is there, that nothing of a client is ever read as HTML, that nothing is asked
of other places, and that the form for policies knows what the node knows."""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from queues.definitions.policies import APPLY_TO
from queues.definitions.policy_keys import KEYS, OPERATOR_KEYS
from queues.definitions.without_effect import KEYS_WITHOUT_EFFECT

pytestmark = pytest.mark.source

PAGE: Final = Path(__file__).resolve().parents[3] / "node" / "management" / "page"
LINES_MAX: Final = 400
COLUMNS_MAX: Final = 100
IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.MULTILINE)
EXPORT: Final = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
ROUTE: Final = re.compile(r'^  \[/.*/, "(\w+)", "(\w+)"\],$', re.MULTILINE)
# Ways by which text becomes markup or code, and what is not to be found on a page that is served.
BANNED: Final = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "javascript:", "DOMParser", "createContextualFragment", "srcdoc", "console.log",
)  # fmt: skip
WITHOUT_FORM: Final = {"queue-master-locator"} | KEYS_WITHOUT_EFFECT.keys()
"""Old names of other keys, and keys that the node refuses."""


@cache
def scripts() -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(PAGE.glob("*.js"))}


def test_every_script_is_short_and_its_lines_are() -> None:
    for name, text in scripts().items():
        lines = text.splitlines()
        assert len(lines) < LINES_MAX, name
        assert [line for line in lines if len(line) > COLUMNS_MAX] == [], name
        assert lines[0].startswith("// "), f"{name} does not say what it is for"


def test_every_name_that_is_imported_is_exported_and_used() -> None:
    exported = {name: set(EXPORT.findall(text)) for name, text in scripts().items()}
    for name, text in scripts().items():
        assert text.count("import {") == len(IMPORT.findall(text)), name
        body = IMPORT.sub("", text)
        for names, source in IMPORT.findall(text):
            for each in (part.strip() for part in names.split(",")):
                assert each in exported[source], f"{name}: {source} has no {each}"
                assert re.search(rf"\b{each}\b", body), f"{name}: {each} is not used"


def test_every_route_names_a_view_that_its_file_exports() -> None:
    routes = ROUTE.findall(scripts()["main.js"])
    assert len(routes) == len(re.findall(r"^  \[/", scripts()["main.js"], re.MULTILINE)) > 0
    for file, view in routes:
        assert view in EXPORT.findall(scripts()[f"{file}.js"]), f"{file}: {view}"


def test_every_export_is_used_somewhere() -> None:
    taken = {
        (source, each.strip())
        for text in scripts().values()
        for names, source in IMPORT.findall(text)
        for each in names.split(",")
    } | {(f"{file}.js", view) for file, view in ROUTE.findall(scripts()["main.js"])}
    inside = {
        name: {each for each in EXPORT.findall(text) if len(re.findall(rf"\b{each}\b", text)) > 1}
        for name, text in scripts().items()
    }
    unused = [
        (name, each)
        for name, text in scripts().items()
        for each in EXPORT.findall(text)
        if (name, each) not in taken and each not in inside[name]
    ]
    assert unused == []


def test_no_script_reads_text_as_markup_or_asks_another_place() -> None:
    for name, text in scripts().items():
        assert [each for each in BANNED if each in text] == [], name
        places = set(re.findall(r"https?://[^\"'`\s]*", text))
        assert places <= {"http://www.w3.org/2000/svg"}, name


def test_the_form_for_policies_knows_every_key_that_the_node_knows() -> None:
    text = scripts()["policy_keys.js"]
    table = text[text.index("export const KEYS") : text.index("\n};")]
    entries = re.findall(r'^  "([\w-]+)": \{(.*?)\},$', table, re.MULTILINE | re.DOTALL)
    found = dict(entries)
    assert set(found) == set(KEYS) - WITHOUT_FORM
    assert {key for key, body in found.items() if "operator: true" in body} == (
        OPERATOR_KEYS - WITHOUT_FORM
    )
    assert all(set(re.findall(r'is: "(\w+)"', body)) <= set(APPLY_TO) for body in found.values())


@pytest.mark.parametrize("key", [key for key in KEYS if key not in WITHOUT_FORM])
def test_the_form_for_policies_offers_values_that_the_node_takes(key: str) -> None:
    text = scripts()["policy_keys.js"]
    found = re.search(rf'^  "{key}": \{{\s*kind: (\[[^\]]*\]|"\w+")', text, re.MULTILINE)
    assert found is not None
    samples: dict[str, tuple[object, ...]]
    samples = {"number": (1, 3), "text": ("x",), "flag": (True, False), "json": (2, ["n1"])}
    samples["fraction"] = (1, 1.5) if key == "redelivery-delay-multiplier" else (0, 0.5)
    if key in ("producer-window-size", "stream-filter-size-bytes"):
        samples["number"] = (1024,) if key == "producer-window-size" else (16, 255)
    if key == "max-age":
        samples["text"] = ("7D", "12h")
    words = re.findall(r'"([\w-]+)"', found[1])
    check, _ = KEYS[key]
    for value in words if found[1].startswith("[") else samples[words[0]]:
        assert check(value), (key, value)

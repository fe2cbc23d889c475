"""The manual: derived pages are current, links lead somewhere, code of the quick start runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from node.config.settings import load
from tools.manual_hook import with_links_of_site
from warren.testing.node import Node

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAV = re.compile(r"^\s+- [^:]+: (\S+\.md)$", re.MULTILINE)
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])

pytestmark = pytest.mark.source


def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    dead: list[str] = []
    for place, anchor in LINK.findall(page.read_text("utf-8")):
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{place}#{anchor}")
    assert dead == []


def test_derived_pages_are_those_of_the_sources() -> None:
    command = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_manual_has_every_page_that_its_start_names() -> None:
    named = NAV.findall((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert all((ROOT / "docs" / each).exists() for each in named)
    tops = {each.name for each in (ROOT / "docs").glob("*.md")} - {"NEXT.md"}
    assert tops <= set(named)


def test_links_in_the_site_lead_to_its_pages_and_others_become_text() -> None:
    known = {"README.md", "guide/index.md", "page/overview.png", "deploy/README.md"}
    told = "[start](docs/guide/index.md#run) ![charts](docs/page/overview.png) [key](LICENSE)"
    shown = "[start](guide/index.md#run) ![charts](page/overview.png) key"
    assert with_links_of_site(told, "README.md", known) == shown
    told = "[deploy](../../deploy/README.md) [start](index.md) [away](https://example.org/a.md)"
    shown = "[deploy](../deploy/README.md) [start](index.md) [away](https://example.org/a.md)"
    assert with_links_of_site(told, "guide/hosts.md", known) == shown


RUN = {  # Pages whose programs are run: tests/conformance/test_manual_snippets.py, tests/spark.
    "python": ["amqp-1-0", "clients", "index", "python-client", "spark", "testing"],
    "bash": ["exchanges", "http-api", "index", "migration", "queues", "spark"],
    "javascript": ["clients"],
    "java": ["clients"],
    "go": ["clients"],
    "ruby": ["clients"],
    "csharp": ["clients"],
}
SHORT = {"spark-source.md": "python", "websocket.md": "javascript"}  # Not whole programs.
NOT_RUN = ("clients.md", ".NET: RabbitMQ.Client 7")  # Page and section of the one such program.


def test_every_program_of_the_manual_is_run_by_a_test() -> None:
    found: set[tuple[str, str]] = set()
    for page in GUIDE:
        kinds = {kind for kind, _ in BLOCK.findall(page.read_text("utf-8"))}
        found |= {(page.name, kind) for kind in kinds - {"text", "toml"}}
    run = {(f"{page}.md", kind) for kind, pages in RUN.items() for page in pages}
    assert found - set(SHORT.items()) == run


def test_the_section_of_a_program_that_no_test_runs_says_so() -> None:
    page, title = NOT_RUN
    sections = (ROOT / "docs" / "guide" / page).read_text("utf-8").split("\n## ")
    silent = [each.split("\n")[0] for each in sections if "was not run against Warren" in each]
    assert silent == [title]


SETTINGS = [
    (page.name, block)
    for page in GUIDE
    for kind, block in BLOCK.findall(page.read_text("utf-8"))
    if kind == "toml"
]


@pytest.mark.parametrize(("page", "block"), SETTINGS)
def test_settings_in_the_manual_are_understood(page: str, block: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of the test\n")
    path = tmp_path / "warren.toml"
    path.write_text(re.sub(r"file:[^\"]*", f"file:{secret}", block))
    load(path)


def test_the_quick_start_runs(tmp_path: Path) -> None:
    blocks = dict(BLOCK.findall((ROOT / "docs" / "guide" / "index.md").read_text("utf-8")))
    with Node() as node:
        script = blocks["python"].replace(
            'ConnectionParameters("localhost")', f'ConnectionParameters("{node.host}", {node.port})'
        )
        assert script != blocks["python"]
        told = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
        )
        assert (told.stdout, told.stderr) == ("b'an order'\n", "")


COMMAND = re.compile(r"warrenctl ([a-z_]+)")
METRIC = re.compile(r"\b(?:rabbitmq|warren)_[a-z0-9]+_[a-z0-9_]+")


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.name)
def test_commands_that_the_manual_names_exist(page: Path) -> None:
    listed = (ROOT / "docs" / "guide" / "commands.md").read_text("utf-8")
    known = set(re.findall(r"^- `([a-z_]+)`", listed, re.MULTILINE))
    named = set(COMMAND.findall(page.read_text("utf-8").replace("warrenctl\n", "warrenctl ")))
    assert named - known == set()


def test_metrics_that_the_manual_names_are_exported() -> None:
    text = (ROOT / "docs" / "guide" / "monitoring.md").read_text("utf-8")
    named = set(METRIC.findall(text)) - {"warren_peer_connected"}  # of nodes that have peers
    assert len(named) > 5
    with Node() as node:
        exported = "\n".join(node.metrics())
    assert {each for each in named if each not in exported} == set()

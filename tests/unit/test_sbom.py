"""The bill of materials, made by `make sbom-list` of the environment that runs the tests."""

import importlib.metadata
import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.programs import missing, tools_folder

ROOT: Final = Path(__file__).resolve().parent.parent.parent
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
pytestmark = pytest.mark.source


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions() -> list[importlib.metadata.Distribution]:
    """What is installed in this environment, without the copies that packages bring of others."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return list(importlib.metadata.distributions(path=sorted(folders)))


def has_license(described: importlib.metadata.PackageMetadata) -> bool:
    """Whether a package says under which one it is."""
    named = [described.get_all(each) for each in ("License-Expression", "License")]
    classes = described.get_all("Classifier") or []
    return any(named) or any(each.startswith("License :: ") for each in classes)


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tools = tools_folder()
    if not (tools / "sbom" / "bin" / "cyclonedx-py").exists():
        missing("cyclonedx-py is not there: make .tools/sbom/bin/cyclonedx-py")
    written = tmp_path_factory.mktemp("sbom") / "bill.json"
    words = (f"TOOLS={tools}", f"LISTED={sys.executable}", f"SBOM={written}")
    subprocess.run(["make", "-s", "sbom-list", *words], cwd=ROOT, check=True, timeout=100)
    found: dict[str, Any] = json.loads(written.read_text("utf-8"))
    return found


def test_all_installed_packages_are_listed_with_their_versions(bill: dict[str, Any]) -> None:
    listed = {normal(each["name"]): each["version"] for each in bill["components"]}
    installed = {normal(each.name): each.version for each in distributions()}
    own = bill["metadata"]["component"]
    assert listed | {own["name"]: own["version"]} == installed
    assert bill["bomFormat"] == "CycloneDX" and len(installed) > 20
    addresses = {normal(each["name"]): each["purl"] for each in bill["components"]}
    assert addresses["aiohttp"] == f"pkg:pypi/aiohttp@{installed['aiohttp']}"


def test_packages_are_listed_with_the_licenses_that_they_name(bill: dict[str, Any]) -> None:
    without = {normal(each["name"]) for each in bill["components"] if not each.get("licenses")}
    named = {normal(each.name) for each in distributions() if has_license(each.metadata)}
    assert without & named == set()
    (own,) = bill["metadata"]["component"]["licenses"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] in (own.get("expression"), own.get("license", {}).get("id"))


def test_the_list_says_what_needs_what(bill: dict[str, Any]) -> None:
    names = {each["bom-ref"]: normal(each["name"]) for each in bill["components"]}
    needs = {each["ref"]: each.get("dependsOn", ()) for each in bill["dependencies"]}
    own = bill["metadata"]["component"]["bom-ref"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = {normal(NAME.match(each)[0]) for each in project["dependencies"]}  # type: ignore[index]
    assert direct <= {names[each] for each in needs[own]}
    (aiohttp,) = [ref for ref, name in names.items() if name == "aiohttp"]
    assert "yarl" in {names[each] for each in needs[aiohttp]}

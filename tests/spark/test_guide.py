"""The programs and the notebook of the manual's page on Spark, run as they stand there; one program
is killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("java is not there", allow_module_level=True)

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "guide" / "spark.md"
NOTEBOOK: Final = PAGE.with_name("dashboard.ipynb")
SHOWN: Final = """
assert chart._repr_html_().count("<rect") == 3
print(chart.json())
"""
PROGRAM: Final = re.compile(r"^```python\n# (\w+\.py): (.*?)^```$", re.MULTILINE | re.DOTALL)
ENVIRONMENT: Final = os.environ | {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}
SECONDS: Final = 120
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(folder: Path, program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, program, *words],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_in_the_middle(folder: Path, url: str) -> None:
    """Start `lake.py`, and kill it when it has planned its first micro-batch."""
    first = folder / "lake" / "checkpoint" / "offsets" / "0"
    job = subprocess.Popen(
        [sys.executable, "lake.py", url],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + SECONDS
    while not first.exists() and job.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)  # Python and the JVM
    job.wait(30)


def test_the_guide_of_spark(url: str, tmp_path: Path) -> None:
    programs = dict(PROGRAM.findall(PAGE.read_text("utf-8")))
    assert set(programs) == {"shop.py", "lake.py"}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"# {text}")
    assert run(tmp_path, "shop.py", url) == "published 1000 orders\n"
    kill_in_the_middle(tmp_path, url)
    assert run(tmp_path, "shop.py", url) == "published 1000 orders\n"
    assert "orders in the lake: 2000\n" in run(tmp_path, "lake.py", url)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    (tmp_path / "dashboard.py").write_text("\n".join([*code, SHOWN]))
    rows = json.loads(run(tmp_path, "dashboard.py").splitlines()[-1])["rows"]
    assert {row["region"] for row in rows} == {"north", "south", "west"}
    assert sum(row["orders"] for row in rows) == 2000
    assert all(row["orders"] == row["distinct_orders"] for row in rows)
    assert [row["turnover"] for row in rows] == sorted((r["turnover"] for r in rows), reverse=True)

"""The Spark session that all tests share, and the address of a node."""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from warren.testing import VirtualHost

# Of all JVMs that tests start. They live for minutes: a second compiler and a parallel collector
# cost more than they give.
JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
os.environ["JDK_JAVA_OPTIONS"] = JVM


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("java is not there")
    from pyspark.sql import SparkSession

    import warren.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the tasks
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    warren.spark.register(session)
    yield session
    session.stop()


@pytest.fixture
def url(broker: VirtualHost) -> str:
    return broker.url

"""`python -m warren.spark JOB`: runs a job and prints its table.

Exit codes: 0 the job is done, 1 it found faults, 2 the arguments are wrong, 70 it failed.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import warren.spark
from warren.spark.jobs.capacity import capacity
from warren.spark.jobs.histories import judge_report, keep_histories, latency_report
from warren.spark.jobs.loads import SHARE_PERCENT, hot_queues, placement, tenants
from warren.spark.jobs.messages import JobFailed, dead_letters, lake, replay
from warren.spark.jobs.metrics import sample
from warren.spark.jobs.reconciling import reconcile
from warren.spark.jobs.report import Report
from warren.testing.history import BadHistory

EXIT_FAILED: Final = 70  # EX_SOFTWARE
TEXT_MAX: Final = 2000  # characters of an error of Spark that are shown

Job = Callable[[SparkSession, argparse.Namespace], Report]


def main(arguments: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run the job that the arguments name; the exit code is returned."""
    options = parser().parse_args(arguments)
    spark = session(options.master)
    try:
        report: Report = options.job(spark, options)
    except (BadHistory, JobFailed, PySparkException) as error:
        print(f"warren.spark: {str(error)[:TEXT_MAX]}", file=err)
        return EXIT_FAILED
    finally:
        spark.stop()
    print(report.json() if options.json else report.text(), file=out)
    if options.html is not None:
        options.html.write_text(report.html(), "utf-8")
    return int(report.is_bad)


def session(master: str | None) -> SparkSession:
    """With the format `warren`; `master` None: as `spark-submit` or the environment says."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("warren").config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    warren.spark.register(spark)
    return spark


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m warren.spark", description="Data pipelines on Spark.")
    made.add_argument("--master", help="of Spark, such as local[2]; default: as Spark is set up")
    made.add_argument("--json", action="store_true", help="print JSON in place of a table")
    made.add_argument("--html", type=Path, metavar="FILE", help="also write a page with a chart")
    jobs = made.add_subparsers(required=True, metavar="JOB")
    _lake(jobs)
    _replay(jobs)
    each = _job(jobs, "dead-letters", "dead letters by queue, reason and ladder", _dead_letters)
    each.add_argument("folder", help="of the job lake")
    each = _job(jobs, "reconcile", "copies of the firehose: what was not delivered", _reconcile)
    each.add_argument("folder", help="of the job lake, with a stream bound to amq.rabbitmq.trace")
    each = _job(jobs, "judge", "histories: what was lost, doubled or out of order", _judge)
    each.add_argument("histories", help="file, folder or pattern")
    each.add_argument("--unordered", action="store_true", help="no order was promised")
    each = _job(jobs, "latency", "histories: end-to-end latency by queue", _latency)
    each.add_argument("histories", help="file, folder or pattern")
    each = _job(jobs, "histories", "keep histories as Parquet by vhost and day", _histories)
    each.add_argument("--vhost", default="/", help="that the clients used; default /")
    each.add_argument("histories", help="file or folder")
    each.add_argument("folder")
    _metrics(jobs)
    return made


Jobs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _job(jobs: Jobs, name: str, about: str, job: Job) -> argparse.ArgumentParser:
    made = jobs.add_parser(name, help=about, description=about)
    made.set_defaults(job=job)
    return made


def _lake(jobs: Jobs) -> None:
    each = _job(jobs, "lake", "keep a stream as Parquet by vhost and day", _run_lake)
    each.add_argument("--url", required=True, help="AMQP URL of a node")
    each.add_argument("--stream", required=True)
    each.add_argument("--partitions", type=int, default=2, help="tasks that read; default 2")
    each.add_argument("folder")


def _replay(jobs: Jobs) -> None:
    each = _job(jobs, "replay", "publish kept messages again", _run_replay)
    each.add_argument("--url", required=True, help="AMQP URL of a node")
    each.add_argument("--exchange", required=True)
    each.add_argument("--where", default="true", help="condition of SQL on the columns")
    each.add_argument("--rate", type=int, default=0, help="messages per second; 0, default: any")
    each.add_argument("--dry-run", action="store_true", help="only count what would be published")
    each.add_argument("folder", help="of the job lake")


def _metrics(jobs: Jobs) -> None:
    each = _job(jobs, "metrics", "keep samples of the HTTP API as Parquet", _run_metrics)
    each.add_argument("--api", required=True, metavar="URL", help="http://USER:PASSWORD@HOST:PORT")
    each.add_argument("--count", type=int, default=1, help="samples; default 1")
    each.add_argument("--every", type=float, default=10.0, help="seconds between; default 10")
    each.add_argument("folder")
    hot = _job(jobs, "hot-queues", "samples: the queues with the most messages", _hot_queues)
    hot.add_argument("--top", type=int, default=20, help="queues that are shown; default 20")
    place = _job(jobs, "placement", "samples: leaders that should move to consumers", _placement)
    place.add_argument(
        "--share", type=float, default=SHARE_PERCENT, help="%% of deliveries; default 60"
    )
    for made in (
        *(hot, place),
        _job(jobs, "tenants", "samples: bytes of each vhost and user", _tenants),
        _job(jobs, "capacity", "samples: when nodes reach their limits", _capacity),
    ):
        made.add_argument("folder", help="of the job metrics")


def _run_metrics(spark: SparkSession, options: argparse.Namespace) -> Report:
    return sample(spark, options.api, options.folder, options.count, options.every)


def _hot_queues(spark: SparkSession, options: argparse.Namespace) -> Report:
    return hot_queues(spark, options.folder, options.top)


def _placement(spark: SparkSession, options: argparse.Namespace) -> Report:
    return placement(spark, options.folder, options.share)


def _tenants(spark: SparkSession, options: argparse.Namespace) -> Report:
    return tenants(spark, options.folder)


def _capacity(spark: SparkSession, options: argparse.Namespace) -> Report:
    return capacity(spark, options.folder)


def _run_lake(spark: SparkSession, options: argparse.Namespace) -> Report:
    return lake(spark, options.url, options.stream, options.folder, options.partitions)


def _run_replay(spark: SparkSession, options: argparse.Namespace) -> Report:
    place = options.folder, options.url, options.exchange
    return replay(spark, *place, options.where, options.rate, options.dry_run)


def _dead_letters(spark: SparkSession, options: argparse.Namespace) -> Report:
    return dead_letters(spark, options.folder)


def _reconcile(spark: SparkSession, options: argparse.Namespace) -> Report:
    return reconcile(spark, options.folder)


def _judge(spark: SparkSession, options: argparse.Namespace) -> Report:
    return judge_report(spark, options.histories, not options.unordered)


def _histories(spark: SparkSession, options: argparse.Namespace) -> Report:
    return keep_histories(spark, options.histories, options.folder, options.vhost)


def _latency(spark: SparkSession, options: argparse.Namespace) -> Report:
    return latency_report(spark, options.histories)

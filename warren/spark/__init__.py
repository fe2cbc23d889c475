"""Streams and queues of the broker in PySpark 4: the data source `warren`.

    import warren.spark

    warren.spark.register(spark)
    orders = (
        spark.readStream.format("warren")
        .option("url", "amqp://guest:guest@localhost:5672")
        .option("stream", "orders")
        .load()
    )
    orders.writeStream.format("parquet").option("path", "/lake/orders")...

`spark.read`, `df.write` and `df.writeStream` have the same format. Options are described in
`warren.spark.options`. Needs the extra `warrenmq[spark]` and Java.
"""

from pyspark.sql import SparkSession

from warren.spark.options import OptionError
from warren.spark.source import WarrenSource

__all__ = ["OptionError", "register"]


def register(spark: SparkSession) -> None:
    """Make the format `warren` known to this session."""
    spark.dataSource.register(WarrenSource)

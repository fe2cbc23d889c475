"""Data pipelines on Spark: `python -m warren.spark JOB`. See docs/guide/spark-source.md."""

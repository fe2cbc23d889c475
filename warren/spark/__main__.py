"""`python -m warren.spark JOB`, or `spark-submit` with this file."""

import sys

from warren.spark.jobs.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))

"""A batch whose conditions go to the broker. Needs PySpark 4.1, and its setting
`spark.sql.python.filterPushdown.enabled`."""

from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql.datasource import Filter

from warren.spark.filters import Pushed, push
from warren.spark.options import FILTER_MAX, ReadOptions
from warren.spark.source import Places, Reader


class PushingReader(Reader):
    """Reads what the broker selects; Spark looks at each row again."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed = push(filters)
        both = [each for each in (self._options.filter, self._pushed.sql) if each]
        text = " AND ".join(f"({each})" for each in both)
        if len(text) <= FILTER_MAX:
            self._options = replace(self._options, filter=text)
        return filters

    def cut(self, begin: Places, end: Places) -> tuple[Places, Places]:
        pushed = self._pushed
        return (
            {name: max(each, pushed.begin or 0) for name, each in begin.items()},
            {
                name: each if pushed.end is None else max(0, min(each, pushed.end))
                for name, each in end.items()
            },
        )

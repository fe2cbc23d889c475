"""Which build of Warren this process runs."""


def installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        return "(not installed; run from its sources)"


def build_name() -> str:
    """`compiled` if the hot modules are, else `pure`."""
    from queues.machine import fifo

    return "pure" if (fifo.__file__ or "").endswith(".py") else "compiled"

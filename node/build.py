"""Which build of Warren this process runs."""


def installed_version() -> str:
    """That of the installed package, or else of the sources that run."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        described = Path(__file__).resolve().parent.parent / "pyproject.toml"
        return str(tomllib.loads(described.read_text("utf-8"))["project"]["version"])


def build_name() -> str:
    """`compiled` if the hot modules are, else `pure`."""
    from queues.machine import fifo

    return "pure" if (fifo.__file__ or "").endswith(".py") else "compiled"

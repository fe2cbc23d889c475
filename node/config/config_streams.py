"""Settings of streams: the object store that old segments go to."""

from node.config.config_layers import ConfigError, Secret, Section
from warren.storage.objects.location import Location, location_fault


class StreamsSection(Section, frozen=True, kw_only=True):
    """What holds for all streams."""

    # Object store for old segments of streams that have `x-stream-offload`, the same on all nodes:
    # file:///DIRECTORY, which all nodes mount, or s3://BUCKET/PREFIX (extra `s3`). Empty: none.
    offload_store: str = ""
    # URL of a server that speaks S3; empty: that of Amazon.
    s3_endpoint: str = ""
    # Region of the bucket.
    s3_region: str = ""
    # Credentials for S3. Empty: they are looked for where the tools of AWS do (environment,
    # ~/.aws, role of the machine).
    s3_access_key: str = ""
    # The secret of `s3_access_key`.
    s3_secret_key: Secret = ""

    def location(self) -> Location:
        return Location(
            self.offload_store,
            self.s3_endpoint,
            self.s3_region,
            self.s3_access_key,
            self.s3_secret_key,
        )


def check_streams(section: StreamsSection) -> None:
    """ConfigError: the section cannot be meant."""
    fault = location_fault(section.offload_store) if section.offload_store else None
    if fault is not None:
        raise ConfigError(f"streams.offload_store: {fault}")
    if bool(section.s3_access_key) != bool(section.s3_secret_key):
        raise ConfigError("streams.s3_access_key and streams.s3_secret_key need each other")

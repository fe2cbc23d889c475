"""From the configuration to what listeners with TLS need: contexts by listener, who may proxy."""

from typing import TYPE_CHECKING, Final

from node.tls.certificate import LoginName
from node.tls.contexts import TlsSettings
from node.tls.keeper import TlsKeeper
from node.tls.proxy_protocol import TrustedProxies

if TYPE_CHECKING:
    from node.config.config_security import TlsOverrides, TlsSection
    from node.config.settings import Config

AMQPS: Final = "listeners.amqps"
STREAM_TLS: Final = "listeners.stream_tls"
MANAGEMENT_TLS: Final = "listeners.management_tls"
CLUSTER_TLS: Final = "cluster.tls"


def tls_listeners(config: "Config") -> list[str]:
    """The settings by which something speaks TLS."""
    listeners = config.listeners
    places = (
        (AMQPS, listeners.amqps is not None),
        (STREAM_TLS, listeners.stream_tls is not None),
        (MANAGEMENT_TLS, listeners.management_tls is not None),
        (CLUSTER_TLS, config.cluster.tls),
    )
    return [name for name, is_set in places if is_set]


def keepers_of(config: "Config") -> dict[str, TlsKeeper]:
    """The contexts of each of them. TlsFault: they cannot be made."""
    return {name: TlsKeeper(name, settings_of(config, name)) for name in tls_listeners(config)}


def settings_of(config: "Config", listener: str) -> TlsSettings:
    """Of a listener whose files are set (`node.config.config_security.check_tls`)."""
    tls = config.tls
    if listener == MANAGEMENT_TLS:
        return _settings(tls, tls.management, False)
    if listener == CLUSTER_TLS:
        return _settings(tls, tls.cluster, True)
    return _settings(tls, None, False)


def _settings(tls: "TlsSection", own: "TlsOverrides | None", among_nodes: bool) -> TlsSettings:
    certfile, keyfile, cacertfile = tls.certfile, tls.keyfile, tls.cacertfile
    verify, needs_one = tls.verify, tls.fail_if_no_peer_cert
    if own is not None:
        certfile, keyfile = own.certfile or certfile, own.keyfile or keyfile
        cacertfile = own.cacertfile or cacertfile
        verify = own.verify or verify
        needs_one = needs_one if own.fail_if_no_peer_cert is None else own.fail_if_no_peer_cert
    assert certfile is not None
    assert keyfile is not None
    is_verified = verify == "verify_peer"
    return TlsSettings(
        certfile=certfile,
        keyfile=keyfile,
        cacertfile=cacertfile,
        password=tls.password,
        verify=is_verified,
        fail_if_no_peer_cert=is_verified and (needs_one or among_nodes),  # Nodes all have one.
        versions=tls.versions,
        ciphers=tls.ciphers,
        check_hostname=tls.peer_check_hostname,
    )


def login_name_of(config: "Config") -> LoginName:
    tls = config.tls
    return LoginName(tls.cert_login_from, tls.cert_login_san_type, tls.cert_login_san_index)


def proxies_before(config: "Config", listener: str) -> TrustedProxies | None:
    """Who may say for whom it comes, at the listener `amqp` or `amqps`; None: no proxy."""
    listeners = config.listeners
    return TrustedProxies(listeners.proxy_trusted) if listener in listeners.proxy_protocol else None

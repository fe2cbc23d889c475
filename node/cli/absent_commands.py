"""RabbitMQ's commands that there are not, and what to do instead of each. Only words.

`warrenctl` answers them with 64, so that a script which was made for RabbitMQ says why it stops.
"""

from collections.abc import Mapping
from typing import Final

NO_EVAL: Final = "there is no Erlang here to be evaluated; use the HTTP API (/api/openapi.json)"
NO_ERLANG: Final = "there is no Erlang here"
BY_SEEDS: Final = (
    "a node joins by its configuration: set cluster.seeds and cluster.secret_file, and start it "
    "with an empty data directory; forget_cluster_node takes it out again"
)
BY_SERVICE: Final = (
    "the node is a process of the system: stop it by its service or by SIGTERM, after drain"
)
NO_MIRRORS: Final = "list_policies and list_queues show which queues have mirrors"
BY_POLICY: Final = "set a policy with max-age or max-length-bytes"
BY_ENCODE: Final = "values of the configuration are encrypted by encode, decrypted by decode"
BY_LOGROTATE: Final = (
    "the log is a file that others rotate: move it away and send SIGHUP to the node (logrotate)"
)
IN_FILE: Final = "the log is in the file that log_location names, or on stderr of the node"
ALWAYS_ON: Final = "it is always on"
FROM_RECOVERY: Final = (
    "no node waits for another to start; of a cluster without its majority: recover_cluster"
)

ABSENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("eval", "eval_file", "exec", "remote_shell"), NO_EVAL),
    **dict.fromkeys(
        ("hipe_compile", "erlang_version", "erlang_cookie_hash", "erlang_cookie_sources",
         "runtime_thread_stats", "force_gc", "resolver_info"), NO_ERLANG,
    ),
    **dict.fromkeys(
        ("join_cluster", "update_cluster_nodes", "change_cluster_node_type", "discover_peers"),
        BY_SEEDS,
    ),
    **dict.fromkeys(("stop", "shutdown", "stop_app", "start_app"), BY_SERVICE),
    "rename_cluster_node": "a node keeps its name: add one of the new name, and forget the old one",
    **dict.fromkeys(
        ("list_policies_with_classic_queue_mirroring",
         "check_if_cluster_has_classic_queue_mirroring_policy",
         "await_online_synchronized_mirror"), NO_MIRRORS,
    ),
    "coordinator_status": "streams have no coordinator: see stream_status",
    "set_stream_retention_policy": BY_POLICY,
    "encrypt_conf_value": BY_ENCODE,
    "decrypt_conf_value": BY_ENCODE,
    "rotate_logs": BY_LOGROTATE,
    "log_tail_stream": IN_FILE,
    **dict.fromkeys(
        ("activate_free_disk_space_monitoring", "enable_auth_attempt_source_tracking"), ALWAYS_ON
    ),
    **dict.fromkeys(
        ("deactivate_free_disk_space_monitoring", "disable_auth_attempt_source_tracking"),
        "it cannot be switched off here",
    ),
    "force_boot": FROM_RECOVERY,
    "force_reset": "stop the node and empty its data directory; the cluster forgets it by "
    "forget_cluster_node",
    "disable_feature_flag": "feature flags stay on",
    "wait": "await_startup waits for a node",
    "node_health_check": "ask check_running, check_local_alarms and check_port_connectivity",
    "leader_health_check": "ask list_unresponsive_queues and quorum_status",
    "reclaim_quorum_memory": "logs of quorum queues are cut by themselves",
    "force_checkpoint": "snapshots of quorum queues are taken by themselves",
    "post_upgrade": "nothing is left to do after an upgrade but rebalance",
    "autocomplete": "completion writes a script for the shell",
}  # fmt: skip

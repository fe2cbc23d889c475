"""The metadata machine of a cluster: its objects, commands, rows and snapshots."""

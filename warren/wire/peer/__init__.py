"""The link between two nodes of a cluster, without I/O: `docs/formats/peer-link.md`."""

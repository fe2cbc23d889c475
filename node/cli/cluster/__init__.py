"""Commands of `warrenctl` about the cluster."""

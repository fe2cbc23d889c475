"""Schemas of the resources in `node.management.api.operations`."""

"""Costs of single parts, in one process."""

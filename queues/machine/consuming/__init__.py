"""The consumers of a queue machine: who is served, in which order, within which limits."""

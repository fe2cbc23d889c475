"""Chaos runs: a workload, faults beneath it, the history of both, a verdict and a picture.

`clients` publish and consume over either protocol and write down what they see, `workload` has many
of them, `faults` says what can be done to a cluster, `scenarios` which of it when, `campaign` runs
a scenario, `timeline` and `picture` show a history. `warren chaos run` puts them together.
"""

"""HTTP resources for operators: nodes, the cluster, health, events and controls."""

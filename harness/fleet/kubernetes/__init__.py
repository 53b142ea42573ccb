"""The fleet on Kubernetes: one engine on every worker node, one driver, reports on a volume."""

"""The stages that a ladder has and a soak has not."""

from harness.stages.ladder import next_rung, plan, rung, workload

__all__ = ["next_rung", "plan", "rung", "workload"]

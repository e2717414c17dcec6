"""Knockout: ablation studies with paired seeds, corrected tests and verdicts that survive review."""

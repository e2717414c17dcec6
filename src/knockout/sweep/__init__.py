"""From a study to its records: cells allocated through Optuna, runs executed by worker processes, one coordinator."""

"""From a study to its records: Optuna allocates runs, worker processes train them, one coordinator keeps order."""

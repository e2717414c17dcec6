"""From a ledger to verdicts, figures and a report. Never imports torch, Optuna or datasets; matplotlib only to draw."""

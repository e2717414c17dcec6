"""What `make bench` runs: ratios within one run, never single times."""

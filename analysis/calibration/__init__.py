"""Simulated studies of which the truth is known, judged by the product's own code: `make calibrate`."""

"""Simulated studies whose truth is known, judged by the product's own code: `make calibrate`."""

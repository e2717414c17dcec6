"""Texts to token ids: sources (tables from files and hubs), vocabulary (tokenising), batches (what a step sees)."""

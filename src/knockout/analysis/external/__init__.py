"""Runs that Knockout did not train: pandas frames, and CSV, TSV and Parquet files."""

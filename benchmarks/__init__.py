"""Benchmarks: speed compared with other stores, and the quality of recall and detection."""

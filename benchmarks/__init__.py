"""Measurements that say what they measured: speed beside other stores, quality of recall."""

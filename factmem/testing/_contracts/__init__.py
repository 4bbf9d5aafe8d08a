"""The conformance suites behind `factmem.testing`, one topic a file."""

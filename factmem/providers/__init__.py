"""Where facts are kept: the stores that factmem brings."""

"""factmem in other frameworks: one module for each, none of them loaded before it is asked for."""

"""Worker threads, locks of files, and objects that exist once for each event loop.

Imports `errors` only.
"""

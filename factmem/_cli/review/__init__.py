"""`factmem review`: a page in the browser, on which people check what an agent learnt.

Only this folder imports `starlette` and `jinja2` (extra `review`), when the command runs.
"""

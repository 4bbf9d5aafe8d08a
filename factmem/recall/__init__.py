"""Finding the facts that a question is about.

`factmem.recall.lexical` ranks by words and needs nothing but the standard library; the other
modules say what a word is (`analysis`, `stemming`), how a date reads (`dates`) and what of a fact
is indexed (`fields`). All of them are pure: no files, no network, no model.
"""

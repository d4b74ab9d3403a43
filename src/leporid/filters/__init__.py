"""Expressions that choose messages: tags and SQL92 selectors, from text to a program.

The text is parsed (`parser`) into a tree (`nodes`), refused if its dialect has no sense for it
(`checks`), and compiled (`compiler`) into bytes that the engine runs; `interpreter` does the same
slowly and explains itself. Beside the engine: must not know it, nor who filters what.
"""

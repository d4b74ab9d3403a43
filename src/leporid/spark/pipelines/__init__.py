"""Pipelines over streams, on Spark: `leporid pipeline run NAME`, and as functions.

    archive      a stream into a table, Delta or Iceberg; exactly once; archives: several
    table        archive and live stream as one DataFrame
    traffic      rates, sizes, delays, top keys, sessions; report: the same as a page
    replay       a range or a selection of records to an exchange again
    deadletters  why messages died, and sending them back
    schedule     rows of a table as messages, each at its time and once
    runner       running any of them: once or on and on, progress, stopping

Every pipeline does its work in steps, and a step's effect is there as a whole or not at all: what
tells how far it came is written together with the result, or names the result before it is made.
So each of them may be killed at any moment and started again.
"""

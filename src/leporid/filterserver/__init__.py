"""Filter classes, each in a process of its own: what an administrator wrote, asked in batches.

`child` is the process, `message` what it shows to a filter, `frames` what goes through the pipes;
`host` starts and ends such a process, `keeper` starts it again when it has failed. None of them
knows a broker: messages go in as bytes, verdicts come out. A filter that sleeps, loops, allocates
or dies harms nobody but those who wait for its verdicts.
"""

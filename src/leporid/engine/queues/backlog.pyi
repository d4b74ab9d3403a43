# Nothing of backlog.pyx is seen by Python.

# Nothing of restore.pyx is seen by Python.

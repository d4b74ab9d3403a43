# Nothing of scanning.pyx is seen by Python.

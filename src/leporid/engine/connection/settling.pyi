# Nothing of settling.pyx is seen by Python.

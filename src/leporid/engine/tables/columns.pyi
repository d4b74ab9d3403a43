# Nothing of columns.pyx is seen by Python.

# Nothing of storing.pyx is seen by Python.

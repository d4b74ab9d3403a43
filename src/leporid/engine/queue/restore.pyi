# Nothing of restoring.pyx is seen by Python.

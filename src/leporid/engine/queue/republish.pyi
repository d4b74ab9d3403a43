# Nothing of onward.pyx is seen by Python.

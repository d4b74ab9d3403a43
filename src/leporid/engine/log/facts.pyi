# Nothing of facts.pyx is seen by Python.

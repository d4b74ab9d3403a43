# Nothing of batching.pyx is seen by Python.

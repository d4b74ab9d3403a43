# Nothing of tracing.pyx is seen by Python.

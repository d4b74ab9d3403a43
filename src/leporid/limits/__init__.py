"""Bounds on what peers can use up, for every layer: slots of what is limited, and refusals."""

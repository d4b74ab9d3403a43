"""The one way of a message from a route to its log and its queues."""

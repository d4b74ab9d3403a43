"""Publishing: storing a routed message in its log and its queues."""

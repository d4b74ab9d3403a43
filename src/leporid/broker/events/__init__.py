"""What the broker says about itself in messages: events, and copies of traced messages."""

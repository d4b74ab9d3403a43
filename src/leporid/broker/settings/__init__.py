"""Arguments and policies: one table of settings, the values they may have, what they do."""

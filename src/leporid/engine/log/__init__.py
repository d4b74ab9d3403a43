"""The log: segments of records, facts about entries, replay and cleaning."""

"""Connections and channels: frames in, frames out, and what is settled, confirmed, held back."""

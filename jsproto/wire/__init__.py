"""Bytes to frames and back, for both roles: limits, frames, decoder, encoder."""

"""Consumers: which one a subscription is for (ADR-15), pulled from, pushed to, in order, and their messages."""

"""The commands, one module each: their options and what they show. ``app`` is what ``groups`` looks for."""

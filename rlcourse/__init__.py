"""rlcourse: verified policy-gradient algorithms, small enough to read."""

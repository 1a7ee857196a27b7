"""What a result means: intervals over seeds."""

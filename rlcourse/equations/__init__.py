"""What the formulas say. Imports nothing else of this package."""

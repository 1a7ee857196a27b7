"""What only a notebook needs: figures, widgets, live curves, checks that print both sides, faults."""

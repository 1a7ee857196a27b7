"""Learning curves that grow in the page while an agent trains."""


class LiveCurve:
    """Callback for `train`; draws nothing yet."""

    def __init__(self, threshold=None):
        self.threshold = threshold

    def __call__(self, state):
        pass

"""Where a Chromium or Chrome is: for browser tests, pictures and printing."""

import os
import shutil

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)


def find_browser():
    """The path of a Chromium or Chrome, or None."""
    named = os.environ.get("CHROME")
    installed = [*map(shutil.which, BROWSERS), *(place for place in BROWSER_PLACES if os.path.exists(place))]
    return named or next(filter(None, installed), None)

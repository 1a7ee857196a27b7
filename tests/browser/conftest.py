"""One JupyterLab and one Chromium for the browser tests of a file; xdist gives each file to one worker."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder that JupyterLab shows: copies of the lessons and pictures, so that nothing in the repository is changed."""
    from lab import copy_of_the_lessons

    return copy_of_the_lessons(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def lab(site, tmp_path_factory):
    from lab import jupyterlab

    with jupyterlab(tmp_path_factory.mktemp("jupyter"), site) as lab:
        yield lab


@pytest.fixture(scope="session")
def browser(browser_path):
    from lab import chromium

    pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install -r requirements-dev.txt")
    with chromium(browser_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    return tmp_path_factory.mktemp("screenshots")

"""The slides of every lesson, opened as a file in a real browser that has no network, and leafed through by key."""

from pathlib import Path

import pytest
from audit import audit
from lab import PATIENCE

from tools import lecture

pytestmark = pytest.mark.browser

LESSONS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SMALLEST = 18  # pixels of 720: a fortieth of the height
# What is wrong with the slide that is shown: text that is too small, and anything beyond the edges.
FAULTS = """smallest => {
    const slide = document.querySelector('.slide.shown'), body = slide.querySelector('.body'), faults = [];
    const start = element => element.tagName + ' ' + (element.textContent || element.ariaLabel || '').trim().slice(0, 40);
    const width = element => element.getBoundingClientRect().width;
    const size = element => parseFloat(getComputedStyle(element).fontSize);
    const letters = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (letters.nextNode()) {
        const element = letters.currentNode.parentElement;
        if (letters.currentNode.data.trim() && size(element) < smallest - 0.01)
            faults.push(`${size(element)} px: ${start(element)}`);
    }
    if (body.scrollHeight > body.clientHeight + 1 || body.scrollWidth > body.clientWidth + 1) faults.push('the body overflows');
    for (const element of slide.querySelectorAll('p, li, pre, td, th, img, .formula svg, h1, h2, footer')) {
        const box = element.getBoundingClientRect();
        if (box.left < -1 || box.top < -1 || box.right > 1281 || box.bottom > 721)
            faults.push(`beyond the edge: ${start(element)}`);
    }
    for (const image of slide.querySelectorAll('img')) {
        if (!image.complete || !image.naturalWidth) faults.push('a picture that does not load');
        if (image.alt.split(' ').length < 3) faults.push(`a picture without alt text: ${image.alt}`);
        if (image.closest('figure') && width(image) < 1050) faults.push(`a picture of ${width(image)} px`);  // 11 pt at 9 in
    }
    for (const formula of slide.querySelectorAll('.formula svg')) {
        const shrunk = width(formula) / parseFloat(formula.style.width) / size(formula);
        if (shrunk < 0.75) faults.push(`shrunk to ${shrunk.toFixed(2)}: ${start(formula)}`);
    }
    return faults;
}"""


@pytest.fixture
def open_deck(browser):
    """Open a file in a page of 1280 × 720 without a network; yields (page, trouble)."""
    contexts = []

    def open_it(path, ready="body.ready"):
        context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        page, trouble = context.new_page(), []
        page.on("pageerror", lambda error: trouble.append(f"page error: {error}"))
        page.on("console", lambda message: message.type == "error" and trouble.append(f"console: {message.text[:300]}"))
        ours = (path.as_uri(), "data:", "about:")
        page.on("request", lambda request: request.url.startswith(ours) or trouble.append(f"request: {request.url[:200]}"))
        page.goto(path.as_uri())
        page.wait_for_selector(ready, state="attached")
        return page, trouble

    yield open_it
    for context in contexts:
        context.close()


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name[:2])
def test_a_deck_works_offline_and_every_slide_can_be_read(open_deck, tmp_path, path):
    deck = lecture.slides(path, tmp_path)
    page, trouble = open_deck(deck)
    number = page.locator(".slide").count()
    seen, faults = [], {}
    for _ in range(number):
        name = page.locator(".slide.shown").get_attribute("id")
        seen.append(name)
        if wrong := page.evaluate(FAULTS, SMALLEST):
            faults[name] = wrong
        page.keyboard.press("ArrowRight")
    assert len(set(seen)) == number > 20
    assert page.url.endswith("#" + seen[-1])  # the last key changed nothing
    assert faults == {}, faults
    assert audit(page) == []
    assert trouble == []


@pytest.mark.parametrize("path", LESSONS[:3], ids=lambda path: path.name[:2])
def test_everything_in_the_sections_is_on_some_slide(open_deck, tmp_path, path):
    page, _ = open_deck(lecture.slides(path, tmp_path))
    expected = {
        section.name: "".join(lecture.text_of("".join(section.blocks)).split()) for section in lecture.sections(path, slides=True)
    }
    shown = page.evaluate("""() => {
        document.querySelectorAll('.again').forEach(head => head.remove());  // the head of a table, on its next slide
        const texts = {};
        for (const slide of slides)
            texts[slide.section.id] = (texts[slide.section.id] ?? '') + slide.body.textContent.replace(/\\s+/g, '');
        return texts;
    }""")
    assert shown == expected


BEFORE_STEP_5 = ("See it first", "Derivation", "Step 1", "Step 2", "Step 3", "Step 4")


def test_keys_for_notes_code_contents_and_places(open_deck, tmp_path):
    page, trouble = open_deck(lecture.slides(LESSONS[1], tmp_path))
    panel = page.locator("#panel")
    page.keyboard.press("End")
    last = page.locator(".slide.shown").get_attribute("id")
    page.keyboard.press("Home")
    assert page.locator(".slide.shown h1").count() == 1 and not panel.is_visible()
    page.keyboard.press("o")
    panel.get_by_text("Step 4", exact=False).click()
    assert "Step 4" in page.locator(".slide.shown h2").inner_text() and not panel.is_visible()
    page.keyboard.press("n")
    assert "minutes" in panel.inner_text()
    page.keyboard.press("c")
    assert "compare(" in panel.inner_text()
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    address = page.url
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    popup.value.wait_for_function("() => document.body.innerText.includes('Step 4')")
    planned = sum(lecture.read_notes(lecture.NOTES / "01.md")[name][0] for name in BEFORE_STEP_5)
    assert f"by the end of this part: {planned} min" in popup.value.inner_text("body")
    popup.value.keyboard.press("ArrowRight")
    assert page.url != address
    page.goto(address.split("#")[0] + "#" + last)
    page.reload()
    assert page.locator(".slide.shown").get_attribute("id") == last
    assert trouble == []


def test_a_handout_fits_its_pages_and_becomes_a_pdf(open_deck, browser_path, tmp_path):
    html, pdf = lecture.handout(LESSONS[0], tmp_path, browser=browser_path)
    page, trouble = open_deck(html, ready="#glyphs")
    page.set_viewport_size({"width": 665, "height": 900})  # what is left of an A4 page
    assert audit(page) == []
    page.emulate_media(media="print")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 665
    assert trouble == []
    assert pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 100_000

"""A walk through a lesson, and what it consists of; the browser tests share it."""

from audit import audit_lesson


def no_trouble(lesson):
    for output in lesson.outputs():
        assert output["type"] != "error" and output["name"] != "stderr", output
    assert lesson.trouble == []


def settled(box):
    """Wait until the picture and the line below it say the same, and return it; an error of the widget fails here."""
    from playwright.sync_api import expect

    line = box.locator(".rlcourse-line .widget-html-content")
    box.page.wait_for_function("box => !box.querySelector('img') || box.querySelector('img').alt === "
                               "box.querySelector('.rlcourse-line').innerText.trim()", arg=box.element_handle())  # fmt: skip
    expect(box.locator(".rlcourse-error")).to_have_count(0)
    return line.inner_text().strip()


def to_both_ends(box):
    """Move every slider by keyboard to both ends, every list to its options; the line must follow each time."""
    page = box.page
    for slider in box.locator("[role=slider]").all():
        label, start = slider.get_attribute("aria-label"), slider.get_attribute("aria-valuetext")
        assert label
        seen = {start: settled(box)}
        for key in ("End", "Home", "ArrowRight"):
            slider.focus()
            page.keyboard.press(key)
            value = slider.get_attribute("aria-valuetext")
            if value != list(seen)[-1]:
                page.wait_for_function("([box, old]) => box.querySelector('.rlcourse-line').innerText.trim() !== old",
                                       arg=[box.element_handle(), list(seen.values())[-1]])  # fmt: skip
            seen.pop(value, None)
            seen[value] = settled(box)
            assert f"{label} = " in seen[value]
        assert len(seen) >= 2 and len(set(seen.values())) == len(seen)
    for choices in box.locator("select").all():
        options = choices.locator("option").all_inner_texts()[::-1]
        for option in options if len(options) < 10 else [*options[::6], options[-1]]:  # unit tests go to all of a long list
            choices.select_option(option)
            wait_for_line(box, f" = {option}".replace("\N{NO-BREAK SPACE}", " "))
            settled(box)
    box.get_by_role("button", name="Reset").click()


def wait_for_line(box, text, timeout=None):
    box.page.wait_for_function("([box, text]) => box.querySelector('.rlcourse-line').innerText.includes(text)",
                               arg=[box.element_handle(), text], timeout=timeout)  # fmt: skip


def walk(lab, browser, shots, name):
    """Run all; no error anywhere; every picture has alt text; every control of every widget moves its picture."""
    with lab.open(browser, f"notebooks/{name}") as lesson:
        lesson.run_all()
        no_trouble(lesson)
        for number in lesson.cells_with_pictures():
            for image in lesson.cell(number).locator(".jp-OutputArea img, .jp-MarkdownOutput img").all():
                assert len(image.get_attribute("alt") or "") > 10, f"cell {number}: a picture without alt text"
        for number, box in enumerate(lesson.explorers()):
            start = settled(box)
            to_both_ends(box)
            lesson.page.wait_for_function("([box, text]) => box.querySelector('.rlcourse-line').innerText.trim() === text",
                                          arg=[box.element_handle(), start])  # fmt: skip
            wide = box.evaluate("box => box.scrollWidth - box.clientWidth")
            assert wide <= 1, f"widget {number} is {wide} px wider than the page"
            lesson.page.screenshot(path=shots / f"{name[:2]}-widget-{number}.png")
        no_trouble(lesson)
        findings = [finding for finding in audit_lesson(lesson) if finding["impact"] in ("critical", "serious")]
        assert findings == [], "axe-core: see tests/browser/audit.py"
    print(f"screenshots: {shots}")

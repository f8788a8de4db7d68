"""Where Chromium and its driver are, and a headless window of it."""

import shutil
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> tuple[str, str] | None:
    """Browser and driver; None where one of them, or selenium, is missing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return None
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Window:
    """A headless window on a page, its messages and its requests."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        found = find()
        assert found is not None
        options = webdriver.ChromeOptions()
        options.binary_location = found[0]
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(found[1]))

    def open(self, page: Path, place: str = "") -> None:
        """Open the page and wait for its items."""
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.get("about:blank")
        self.driver.get(page.as_uri() + place)
        WebDriverWait(self.driver, 60, 0.05).until(lambda d: self.run("return document.documentElement.dataset.ready"))

    def run(self, script: str, *values: object) -> object:
        """What a script returns."""
        return self.driver.execute_script(script, *values)

    def text(self, name: str) -> str:
        """The text of the element with this id."""
        return str(self.run("return document.getElementById(arguments[0]).innerText", name))

    def set(self, name: str, value: str) -> None:
        """Set a field of the filters as a hand would."""
        self.run(
            "const f = document.getElementById('f-' + arguments[0]); f.value = arguments[1];"
            "f.dispatchEvent(new Event('input', {bubbles: true}))",
            name,
            value,
        )

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

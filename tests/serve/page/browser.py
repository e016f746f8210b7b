"""The page in a browser's tab, as tests use it."""

from typing import Any

QUIET = ("Failed to load resource: the server responded with a status of",)
"""What Chromium itself writes for an answer that is an error; tests that want one expect it."""


class Watched:
    """A tab that notes console errors, dialogs, pop-ups and requests beyond its origin."""

    def __init__(self, chromium: Any, url: str, **context: Any) -> None:
        self.url = url
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.popups: list[str] = []
        self.beyond: list[str] = []
        options = {"viewport": {"width": 1000, "height": 800}} | context
        self.context = chromium.new_context(**options)
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self._watch()
        self.page.goto(url)

    def _watch(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.type), dialog.dismiss()))
        self.page.on("popup", lambda popup: self.popups.append(popup.url))
        self.context.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(QUIET):
            self.errors.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "about:")):
            self.beyond.append(request.url)

    def send(self, text: str, wait: bool = True) -> Any:
        """Sends a message by keyboard; the new turn, complete if it is waited for."""
        before = self.page.locator(".turn").count()
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")
        turn = self.page.locator(".turn").nth(before)
        turn.wait_for()
        if wait:
            turn.locator("[data-state=done]").wait_for()
        return turn

    def close(self, quiet: bool = True) -> None:
        """Closes the tab; one that was not quiet is a fault."""
        self.context.close()
        assert not (self.dialogs or self.popups or self.beyond)
        assert not quiet or not self.errors

"""Records and publishes the steps of a stream while the application that stores them runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dp_operators.budget import LedgerUnavailable
from dp_operators.budget.values import StreamHead
from dp_operators.releasing.following import Progress


@dataclass(kw_only=True)
class Watch:
    """Records and publishes the objects that an application stores while it runs.

    Attributes:
        adopt: records and publishes what follows a head, and returns the new head.
        head: the head so far.
    """

    adopt: Callable[[StreamHead], StreamHead]
    head: StreamHead

    def after(self, progress: Progress) -> Progress:
        """``progress``, after each line of which what is in the store is recorded; if that fails, after a later one."""

        def report(line: str) -> None:
            progress(line)
            try:
                self()
            except (OSError, LedgerUnavailable) as error:
                progress(f"the next steps are not recorded yet ({type(error).__name__})")

        return report

    def __call__(self) -> StreamHead:
        """The head, after everything that is in the store now."""
        self.head = self.adopt(self.head)
        return self.head

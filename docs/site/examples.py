"""Shows the section `Example:` of a docstring as code, as `Examples:`, the only spelling that Griffe knows."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the sections."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Renames the section of an object's docstring."""
        del kwargs
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")

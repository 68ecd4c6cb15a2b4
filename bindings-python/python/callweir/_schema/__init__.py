# SPDX-License-Identifier: Apache-2.0
"""Turn a Python function into a tool's name, description, JSON Schema and argument converters.

Importing this is cheap: what reads signatures loads with the first `describe`.
"""

from .base import ArgumentError
from .signature import Signature, describe, is_async

__all__ = ["ArgumentError", "Signature", "describe", "is_async"]

"""What every test of a client is marked with."""

from importlib.util import find_spec

import pytest


def client(*packages):
    """The marks of tests that need these packages; without one they skip."""
    missing = [name for name in packages if find_spec(name) is None]
    reason = f"{' and '.join(missing)} isn't installed"
    return [
        pytest.mark.clients,
        pytest.mark.skipif(bool(missing), reason=reason),
    ]

from __future__ import annotations

import pytest

from millstream import client
from millstream.client import ClientError
from millstream.errors import MillstreamError

FAILURES: list[type[ClientError]] = [
    client.ConnectionLost,
    client.DeadlineExceeded,
    client.IntegrityError,
    client.RequestRefused,
    client.StreamFailed,
    client.StreamGap,
    client.StreamNotFound,
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_caught_as_one_of_the_client_and_of_the_package(
    failure: type[ClientError],
) -> None:
    assert issubclass(failure, ClientError)
    assert issubclass(failure, MillstreamError)


def test_each_failure_has_a_code_of_its_own() -> None:
    assert len({failure.code for failure in FAILURES}) == len(FAILURES)

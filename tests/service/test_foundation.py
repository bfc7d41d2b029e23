"""The service as a whole: that it answers, and in the one shape."""

from tests.harness.services import RunningService


def test_an_unknown_endpoint_is_a_404_in_the_one_error_shape(service: RunningService) -> None:
    """A path that doesn't exist answers like every other error."""
    response = service.http.post("/api/v0/nothing")
    assert response.status_code == 404
    assert set(response.json()["error"]) == {"message", "code", "requestId"}
